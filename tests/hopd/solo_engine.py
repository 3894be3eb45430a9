"""An engine of one process that orders every message at once, in a single view.

    python -m tests.hopd.solo_engine FILE --name NAME ...

This runs a daemon on it, with the arguments of hopd. It proves that everything above an engine depends on the
interface of engines alone.
"""

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Never

from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.engines.host import EngineHost, HostSetup, SocketReport, WindowRefused
from hopring.daemon.engines.registry import ENGINES
from hopring.daemon.hopd import run
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import Address
from hopring.engine import (
    Delivered,
    Engine,
    EngineInput,
    EngineOutput,
    EnginePhase,
    EngineState,
    Installed,
    Resume,
    Snapshot,
    Stamped,
    Stop,
    SubmitMessage,
    WindowSnapshot,
    Withdraw,
)
from hopring.ids import NEVER, Process, SiteId, ViewId
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position
from hopring.sealing.keys import KeyRing

PAYLOAD_BYTES_MAX = 1 << 20
QUEUE_MESSAGES_MAX = 1_000


class SoloEngine(Engine[Never, Never]):
    """An engine whose only view has one member."""

    def __init__(self, me: Process, site: SiteId, counter: int, *, holds: bool) -> None:
        """With `holds`, messages of clients wait until the layer above sends `Resume`."""
        self._me = me
        self._site = site
        self._view = ViewId(counter + 1, me.daemon, me.incarnation)
        self._ordered = 0
        self._held = holds
        self._waiting: deque[SubmitMessage] = deque()
        self._stopped = False
        self._out: list[EngineOutput] = [Installed(self._view, (me,), (me,), "start")]

    @property
    def wake_at_us(self) -> int:
        """At once, if there is output from before the first step."""
        return 0 if self._out else NEVER

    def step(self, event: EngineInput, now_us: int) -> Sequence[EngineOutput]:  # noqa: ARG002
        """Orders a message, or releases those that wait."""
        match event:
            case SubmitMessage(session=session) if session == DAEMON_SESSION or not self._held:
                self._order(event)
            case SubmitMessage():
                self._waiting.append(event)
            case Resume(view=view) if view == self._view:
                self._held = False
                while self._waiting:
                    self._order(self._waiting.popleft())
            case Withdraw():
                pass  # Messages of the daemon itself never wait.
            case Stop():
                self._stopped = True
        out, self._out = self._out, []
        return out

    def _order(self, event: SubmitMessage) -> None:
        self._ordered += 1
        position = Position(self._ordered, self._site)
        message = OrderedMessage(event.service, self._me.daemon, event.session, event.payload)
        self._out.append(Stamped(self._view, message, position))
        self._out.append(Delivered(self._view, message, self._me, position))

    @property
    def queue_open(self) -> bool:
        """Whether the queue has room."""
        return len(self._waiting) < QUEUE_MESSAGES_MAX

    @property
    def drained(self) -> bool:
        """Whether no message of a client waits."""
        return not self._waiting

    def state(self) -> EngineState:
        """Phase and view, which never change."""
        phase: EnginePhase = "gone" if self._stopped else "op"
        return EngineState(self._me, phase, not self._stopped, self._view, (self._me,), None)

    def snapshot(self) -> Snapshot:
        """A snapshot without links, ring and overlay."""
        return Snapshot(
            me=self._me,
            phase="gone" if self._stopped else "op",
            phases=("op", "gone"),
            settled=not self._stopped,
            view=self._view,
            members=(self._me,),
            cause="start",
            reached=(self._ordered,),
            window=WindowSnapshot({}, queue_bytes=sum(len(one.payload) for one in self._waiting)),
        )


class SoloHost(EngineHost):
    """The engine on a daemon's loop, without sockets."""

    def __init__(self, setup: HostSetup) -> None:
        super().__init__(setup.loop, setup.up, setup.note)
        self.payload_bytes_max = PAYLOAD_BYTES_MAX
        setup.reached(setup.counter + 1)
        site = setup.config.site_of[setup.me.daemon]
        engine = SoloEngine(setup.me, site, setup.counter, holds=setup.destinations is not None)
        self._drive(engine, setup.config, setup.me)

    def _send(self, outputs: Sequence[EngineOutput]) -> None:
        """There are no other daemons."""

    def _close_sockets(self) -> None:
        """There are no sockets to close."""

    def socket_report(self) -> SocketReport:
        """No sockets, so no counters."""
        return SocketReport()

    def shape(self, daemon: str, shape: Shape) -> None:
        """There is no traffic to shape."""

    def cut(self, daemons: Collection[str]) -> None:
        """There are no links to cut."""

    def change_keys(self, keys: KeyRing) -> None:
        """No packets go to other daemons."""

    def change_tls(self, tls: DaemonTls) -> None:
        """No connections go to other daemons."""

    def report_foreign(self, report: Callable[[Address, str], None]) -> None:
        """No foreign daemons are heard."""

    def set_windows(self, sizes: Mapping[str, int]) -> None:
        """This engine has no windows."""
        raise WindowRefused(f"this engine has no {', '.join(sizes)}", "run another engine")


if __name__ == "__main__":
    ENGINES["solo"] = SoloHost
    sys.exit(run(sys.argv[1:], engine="solo"))
