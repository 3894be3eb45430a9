"""What the admin channel can do to a daemon and ask of it, by the names of the configuration."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from difflib import get_close_matches

from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.protocol import AdminRefusal, SetWindow
from hopring.daemon.admin.status import DeliveryCounters, set_windows, status_of, windows
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import CLEAR, Shape
from hopring.ids import NEVER


class DaemonControls:
    """The levers of one member."""

    def __init__(
        self,
        loop: Loop,
        facts: DaemonDescription,
        tally: DeliveryCounters,
        log: DaemonLog,
        *,
        reload: Callable[[], dict[str, object]],
        terminate: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._facts = facts
        self._tally = tally
        self._log = log
        self._reload = reload
        self._terminate = terminate
        self._cut: list[str] = []
        self._shapes: dict[str, Shape] = {}
        self._parted = False
        self._expiry = loop.alarm(self._expire)

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        """Treats what goes to these daemons so."""
        for name in self._others(daemons):
            self._facts.member.sockets.shape(name, shape)
            self._shapes[name] = shape
        self._note()

    def cut(self, daemons: Collection[str], for_us: int | None = None) -> None:
        """Cuts exactly these daemons off; after `for_us`, if given, all are healed without another word."""
        self._cut = self._others(daemons)
        self._expiry.set(NEVER if for_us is None or not self._cut else self._loop.now_us() + for_us)
        if not self._parted:
            self._facts.member.sockets.cut(self._cut)
        self._note()

    def _expire(self) -> None:
        self._log.say("admin", healed=",".join(self._cut), why="the time of the cut is over")
        self.cut(())

    def window(self, request: SetWindow) -> dict[str, object]:
        """Sets windows; returns all of them as they are now."""
        set_windows(self._facts.member.membership, request)
        return windows(self._facts.member.membership)

    def reload(self) -> dict[str, object]:
        """Reads the configuration again."""
        return self._reload()

    def terminate(self) -> None:
        """Lets the daemon end; whoever asked is answered first."""
        self._loop.call_soon(self._terminate)

    def parts(self) -> None:
        """The daemon hears nobody for a while; what is cut meanwhile counts afterwards."""
        self._parted = True

    def again(self) -> None:
        """The wires are new: what was cut and shaped stays so, as far as there still are such daemons."""
        self._parted = False
        names = {daemon.name for daemon in self._facts.config.daemons}
        self._shapes = {name: shape for name, shape in self._shapes.items() if name in names}
        for name, shape in self._shapes.items():
            self._facts.member.sockets.shape(name, shape)
        self._cut = [name for name in self._cut if name in names]
        self._facts.member.sockets.cut(self._cut)
        self._note()

    def _note(self) -> None:
        """Clients that ask are told too, `hop doctor` among them."""
        self._facts.cut = tuple(self._cut)
        self._facts.shaped = tuple(sorted([name for name, shape in self._shapes.items() if shape != CLEAR]))

    def _others(self, daemons: Collection[str]) -> list[str]:
        names = [daemon.name for daemon in self._facts.config.daemons]
        for name in daemons:
            if name == self._facts.name:
                raise AdminRefusal(f"{name} is this daemon", "name others")
            if name not in names:
                close = get_close_matches(name, names, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(names[:20])}"
                raise AdminRefusal(f"there is no daemon {name}", remedy)
        return sorted(set(daemons))

    def status(self) -> dict[str, object]:
        """How it is going, and what was done by hand."""
        return {
            **status_of(self._facts, self._tally, self._loop.now_us()),
            "reloading": self._facts.member.paused,
            "cut": self._cut,
            "cut_left_us": None
            if self._expiry.at_us == NEVER
            else max(0, self._expiry.at_us - self._loop.now_us()),
            "shapes": {name: asdict(shape) for name, shape in self._shapes.items() if shape != CLEAR},
        }
