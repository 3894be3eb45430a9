"""An engine on a daemon's loop: the part that is the same for all engines.

Below       an engine, and sockets of its own kind, which a subclass opens.
Above       one callback, `up`: at the end of each turn it gets what came out for the layers above, in order;
            they answer with `give` and `submit`.
Invariants  nothing of a step is sent before `note` was told what the step put out: so a trace has every send
            that others can have seen, however the process ends.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hopring.compiled import mypyc_attr
from hopring.config import Config
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.loop.layer_driver import LayerDriver
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import Address, SocketCounters
from hopring.engine.events import (
    Delivered,
    EngineOutput,
    Installed,
    Resume,
    Rift,
    Stalled,
    Stamped,
    Stop,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
)
from hopring.engine.interface import Engine
from hopring.engine.snapshot import Snapshot
from hopring.errors import HopError
from hopring.ids import DaemonId, Process
from hopring.naming import named
from hopring.ordering.destinations import Destinations
from hopring.services import Service

Up = Callable[[Sequence[EngineOutput]], None]
"""Takes what an engine puts out for the layers above."""


def ignore(_event: object) -> None:
    """The callback of those who do not want to know."""


@dataclass(frozen=True, slots=True)
class HostSetup:
    """All that a daemon's process gives to the host of an engine."""

    loop: Loop
    config: Config
    me: Process
    up: Up
    counter: int = 0  # No view of an earlier life had a higher one.
    note: Up = ignore
    reached: Callable[[int], None] = ignore  # Told of the view counter before it is used.
    destinations: Destinations | None = None  # Of a layer above that prunes; it also has to say `Resume`.


@dataclass(frozen=True, slots=True)
class SocketReport:
    """The counters of a host's sockets."""

    unicast: SocketCounters = field(default_factory=SocketCounters)
    multicast: SocketCounters | None = None
    decoding: SocketCounters = field(default_factory=SocketCounters)  # Only packets refused behind the sockets.
    lost_by_shape: int = 0

    @property
    def all(self) -> list[SocketCounters]:
        """The counters of all sockets."""
        return [self.decoding, self.unicast, *([] if self.multicast is None else [self.multicast])]


class WindowRefused(HopError):
    """A window that cannot be set; nothing has changed."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@mypyc_attr(allow_interpreted_subclasses=True)
class EngineHost(ABC):
    """One life of one daemon of a configuration, on an engine."""

    def __init__(self, loop: Loop, up: Up, note: Up) -> None:
        self.paused = False
        """Whether the layer above has to wait with messages, because the configuration is about to change."""
        self.payload_bytes_max = 0
        """The longest message that `submit` takes."""
        self._loop = loop
        self._up = up
        self._note = note
        self._upward: list[EngineOutput] = []  # For the end of this turn.

    def _drive(self, engine: Engine[Any, Any], config: Config, me: Process) -> None:
        """Runs an engine from now on."""
        self.me = me
        self._engine = engine
        self._names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
        self._sites = [site.name for site in config.sites]
        self._driver: LayerDriver[Any, Any] = LayerDriver(self._loop, engine, self._carry_out)
        self._closed = False
        self._loop.on_stall.append(self._stalled)

    # For the layers above.

    def snapshot(self) -> Snapshot:
        """The state of the engine; the cause names daemons as the configuration does."""
        snapshot = self._engine.snapshot()
        return replace(snapshot, cause=named(snapshot.cause, self._names, self._sites))

    @property
    def queue_open(self) -> bool:
        """Whether `submit` may bring another message."""
        return not self.paused and self._engine.queue_open

    def submit(self, service: Service, payload: bytes, session: int = 0) -> None:
        """Sends a message to all daemons of the view; look at `queue_open` and `payload_bytes_max` first."""
        self._driver.give(SubmitMessage(service, payload, session))

    def give(self, event: SubmitMessage | Resume | Withdraw) -> None:
        """Hands down what groups put out; look at `queue_open` before a SubmitMessage of a session."""
        self._driver.give(event)

    @property
    def drained(self) -> bool:
        """Whether everything that was submitted is at every daemon of the view."""
        return self._engine.drained

    def leave(self) -> None:
        """Leaves the others, and takes no further part; best once it is `drained`."""
        self._driver.give(Stop())

    def close(self) -> None:
        """Falls silent and closes all sockets."""
        if not self._closed:
            self._closed = True
            self._loop.on_stall.remove(self._stalled)
            self._driver.close()
            self._close_sockets()

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        upward: list[EngineOutput] = [
            self._named(output)
            for output in outputs
            if isinstance(output, (Stamped, Delivered, Rift, TransitionalSignal, Installed))
        ]
        if upward:
            self._note(upward)
            if not self._upward:
                self._loop.call_soon(self._hand_up)
            self._upward += upward
        self._send(outputs)

    def _named(self, event: EngineOutput) -> EngineOutput:
        """The layers above, logs and traces know daemons by name."""
        if isinstance(event, Installed):
            return event.replace(cause=named(event.cause, self._names, self._sites))
        return event

    def _hand_up(self) -> None:
        upward, self._upward = self._upward, []
        self._up(upward)

    def _stalled(self, for_us: int) -> None:
        self._driver.give(Stalled(for_us))

    # For an engine's own sockets.

    @abstractmethod
    def _send(self, outputs: Sequence[Any]) -> None:
        """Carries out the engine's own effects; those for the layers above are passed over."""

    @abstractmethod
    def _close_sockets(self) -> None:
        """Closes the sockets of the engine's kind."""

    @abstractmethod
    def socket_report(self) -> SocketReport:
        """The counters of all sockets."""

    # By hand, for tests and operators.

    @abstractmethod
    def shape(self, daemon: str, shape: Shape) -> None:
        """Delays or loses packets to this daemon from now on."""

    @abstractmethod
    def cut(self, daemons: Collection[str]) -> None:
        """Lets nothing pass to or from these daemons, and everything to and from all others."""

    @abstractmethod
    def report_foreign(self, report: Callable[[Address, str], None]) -> None:
        """Reports senders of another configuration from now on."""

    @abstractmethod
    def set_windows(self, sizes: Mapping[str, int]) -> None:
        """Sets these windows, by their names in the snapshot; WindowRefused if that cannot be."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReconfigurableHost(EngineHost):
    """A host that can go on with another configuration, in which daemons have other numbers."""

    @property
    @abstractmethod
    def alone(self) -> bool:
        """Whether it is in a view by itself, and all that was submitted and put out is dealt with."""

    @abstractmethod
    def part(self, others: Collection[DaemonId], cause: str) -> None:
        """Leaves all others, and forms a view alone; it hears nobody until `renew`."""

    @abstractmethod
    def renew(
        self, config: Config, me: Process, destinations: Destinations | None, cause: str
    ) -> TransitionalSignal:
        """Begins anew with another configuration, while it is `alone`; BindError if a socket cannot be opened.

        Returns the signal for the layer above, to be handed up before the first view.
        """

    def hand_up(self, signal: TransitionalSignal) -> None:
        """Tells the layer above at once, before anything else comes up."""
        self._note([signal])
        self._up([signal])
