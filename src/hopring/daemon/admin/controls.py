"""The controls of a daemon: what its admin channel can do and ask, by the names of the configuration."""

from collections.abc import Callable, Collection
from dataclasses import asdict
from difflib import get_close_matches

from msgspec.structs import asdict as fields_of

from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.protocol import AdminRefusal, SetWindow
from hopring.daemon.admin.status import DeliveryCounters, status_of
from hopring.daemon.engines.host import WindowRefused
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import CLEAR, Shape
from hopring.ids import NEVER


class DaemonControls:
    """The controls of one life of a daemon."""

    def __init__(
        self,
        loop: Loop,
        description: DaemonDescription,
        deliveries: DeliveryCounters,
        log: DaemonLog,
        *,
        reload: Callable[[], dict[str, object]],
        terminate: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._description = description
        self._deliveries = deliveries
        self._log = log
        self._reload = reload
        self._terminate = terminate
        self._cut: list[str] = []
        self._shapes: dict[str, Shape] = {}
        self._parted = False
        self._expiry = loop.alarm(self._expire)

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        """Delays or loses packets to these daemons in this way."""
        for name in self._others(daemons):
            self._description.host.shape(name, shape)
            self._shapes[name] = shape
        self._note()

    def cut(self, daemons: Collection[str], for_us: int | None = None) -> None:
        """Cuts off exactly these daemons, for `for_us` if that is given."""
        self._cut = self._others(daemons)
        self._expiry.set(NEVER if for_us is None or not self._cut else self._loop.now_us() + for_us)
        if not self._parted:
            self._description.host.cut(self._cut)
        self._note()

    def _expire(self) -> None:
        self._log.say("admin", healed=",".join(self._cut), why="the time of the cut is over")
        self.cut(())

    def window(self, request: SetWindow) -> dict[str, object]:
        """Sets windows; returns all of them as they are now."""
        sizes = {name: value for name, value in fields_of(request).items() if value is not None}
        try:
            self._description.host.set_windows(sizes)
        except WindowRefused as refused:
            raise AdminRefusal(str(refused), refused.remedy) from None
        return dict(self._description.snapshot().window.sizes)

    def reload(self) -> dict[str, object]:
        """Reads the configuration file again; returns what was changed by it."""
        return self._reload()

    def terminate(self) -> None:
        """Ends the daemon, after the answer to this request."""
        self._loop.call_soon(self._terminate)

    def parts(self) -> None:
        """The daemon hears nobody while it changes its configuration; cuts made meanwhile apply afterwards."""
        self._parted = True

    def again(self) -> None:
        """The sockets are new: cuts and shapes apply again to daemons that are still configured."""
        self._parted = False
        names = {daemon.name for daemon in self._description.config.daemons}
        self._shapes = {name: shape for name, shape in self._shapes.items() if name in names}
        for name, shape in self._shapes.items():
            self._description.host.shape(name, shape)
        self._cut = [name for name in self._cut if name in names]
        self._description.host.cut(self._cut)
        self._note()

    def _note(self) -> None:
        """Lets clients know, among them `hop doctor`."""
        self._description.cut = tuple(self._cut)
        self._description.shaped = tuple(
            sorted([name for name, shape in self._shapes.items() if shape != CLEAR])
        )

    def _others(self, daemons: Collection[str]) -> list[str]:
        names = [daemon.name for daemon in self._description.config.daemons]
        for name in daemons:
            if name == self._description.name:
                raise AdminRefusal(f"{name} is this daemon", "name others")
            if name not in names:
                close = get_close_matches(name, names, n=1)
                remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(names[:20])}"
                raise AdminRefusal(f"there is no daemon {name}", remedy)
        return sorted(set(daemons))

    def status(self) -> dict[str, object]:
        """The status of the daemon, with cuts and shapes made by hand."""
        return {
            **status_of(self._description, self._deliveries, self._loop.now_us()),
            "reloading": self._description.host.paused,
            "cut": self._cut,
            "cut_left_us": None
            if self._expiry.at_us == NEVER
            else max(0, self._expiry.at_us - self._loop.now_us()),
            "shapes": {name: asdict(shape) for name, shape in self._shapes.items() if shape != CLEAR},
        }
