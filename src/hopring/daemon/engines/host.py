"""An engine on a daemon's loop: the part that is the same for all engines.

Below       an engine, and sockets of its own kind, which a subclass opens.
Above       one callback, `up`: at the end of each turn of the loop it gets the outputs for the layers above, in
            order; they answer with `give` and `submit`.
Invariants  nothing of a step is sent before `note` has got the outputs of that step: so a trace has every send
            that others can have seen, however the process ends.

`LayerDriver` drives a pure layer on the loop. It gives the layer one event at a time, with the time, has the
effects carried out, and reads `wake_at_us` once at the end of each turn: a layer whose time has come gets a
Tick, for any other an alarm is set. So all events of one turn share packets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from hopring.compiled import mypyc_attr
from hopring.config import Config
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import Address, SocketCounters
from hopring.engine import (
    Delivered,
    Engine,
    EngineOutput,
    ForcePrimary,
    Installed,
    Resume,
    Rift,
    Snapshot,
    Stalled,
    Stamped,
    Stop,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
    Withheld,
)
from hopring.errors import HopError
from hopring.ids import NEVER, DaemonId, Process, named
from hopring.links.events import Tick
from hopring.ordering.destinations import Destinations
from hopring.sealing.keys import KeyRing
from hopring.sealing.sealing import SealingSnapshot
from hopring.services import Service

Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)
Event = TypeVar("Event")
Effect = TypeVar("Effect")


class Layer(Protocol[Event_contra, Effect_co]):
    """The interface of every pure layer."""

    @property
    def wake_at_us(self) -> int:
        """When the next Tick is due."""

    def step(self, event: Event_contra | Tick, now_us: int) -> Sequence[Effect_co]:
        """Takes one event; returns the effects to carry out."""


class LayerDriver(Generic[Event, Effect]):
    """One layer on one loop. `carry_out` gets the effects of one step and gives no further event meanwhile."""

    def __init__(
        self, loop: Loop, layer: Layer[Event, Effect], carry_out: Callable[[Sequence[Effect]], None]
    ) -> None:
        self._loop = loop
        self._layer = layer
        self._carry_out = carry_out
        self._stepping = False
        self._closed = False
        self._check_due = False
        self._alarm = loop.alarm(self._check_soon)
        self._check_soon()

    def give(self, event: Event | Tick) -> None:
        """Hands an event to the layer; the caller counts a PeerError of the layer."""
        assert not self._stepping, "effects in the middle of others would be out of order"
        if self._closed:
            return
        self._step(event, self._loop.now_us())
        self._check_soon()

    def close(self) -> None:
        """Gives the layer no further events."""
        self._closed = True
        self._alarm.set(NEVER)

    def _step(self, event: Event | Tick, now_us: int) -> None:
        self._stepping = True
        try:
            effects = self._layer.step(event, now_us)
            if effects:
                self._carry_out(effects)
        finally:
            self._stepping = False

    def _check_soon(self) -> None:
        if not self._check_due:
            self._check_due = True
            self._loop.call_soon(self._tick_if_due)

    def _tick_if_due(self) -> None:
        self._check_due = False
        if self._closed:
            return
        now_us = self._loop.now_us()
        if self._layer.wake_at_us <= now_us:
            self._step(Tick(), now_us)
        self._alarm.set(self._layer.wake_at_us)


OutputHandler = Callable[[Sequence[EngineOutput]], None]
"""Handles the outputs of an engine for the layers above."""


def ignore(_event: object) -> None:
    """The default callback: does nothing."""


class DaemonMark(Protocol):
    """The mark of a daemon on disk: an earlier process of it may have voted for a primary view."""

    marked: bool
    vote: tuple[int, tuple[str, ...]] | None
    """The epoch of that vote and the names of all voters; None if it is not known."""

    def write(self, epoch: int, voters: tuple[str, ...], done: Callable[[bool], None]) -> None:
        """Writes the mark of a vote, and then calls `done` with whether it is on disk."""


@dataclass(frozen=True, slots=True)
class HostSetup:
    """The parameters that a daemon's process gives to the host of an engine."""

    loop: Loop
    config: Config
    me: Process
    up: OutputHandler
    counter: int = 0  # At least that of any view before the last restart.
    note: OutputHandler = ignore
    reached: Callable[[int], None] = ignore  # Told of the view counter before it is used.
    destinations: Destinations | None = None  # Of a layer above that prunes; it also has to give `Resume`.
    mark: DaemonMark | None = None  # None: the daemon has no disk for it, and counts as marked.
    keys: KeyRing | None = None  # Without it datagrams are in the clear.
    tls: DaemonTls | None = None  # Without it TCP links are in the clear.


@dataclass(frozen=True, slots=True)
class SocketReport:
    """The counters of a host's sockets, and the keys that they seal with."""

    unicast: SocketCounters = field(default_factory=SocketCounters)
    multicast: SocketCounters | None = None
    decoding: SocketCounters = field(default_factory=SocketCounters)  # Only packets refused behind the sockets.
    lost_by_shape: int = 0
    sealing: SealingSnapshot | None = None  # None if datagrams are in the clear.

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
    """A daemon of a configuration, from start to end, on an engine."""

    def __init__(self, loop: Loop, up: OutputHandler, note: OutputHandler) -> None:
        self.paused = False
        """Whether the layer above must submit no messages, because the configuration is about to change."""
        self.payload_bytes_max = 0
        """The longest message that `submit` accepts."""
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
        """Whether another message may be submitted."""
        return not self.paused and self._engine.queue_open

    def submit(self, service: Service, payload: bytes, session: int = 0) -> None:
        """Sends a message to all daemons of the view; check `queue_open` and `payload_bytes_max` first."""
        self._driver.give(SubmitMessage(service, payload, session))

    def give(self, event: SubmitMessage | Resume | Withdraw | ForcePrimary) -> None:
        """Hands an event of the layers above to the engine; check `queue_open` before a session's message."""
        self._driver.give(event)

    @property
    def drained(self) -> bool:
        """Whether every submitted message is at every daemon of the view."""
        return self._engine.drained

    def leave(self) -> None:
        """Leaves the view for good; call it once the host is `drained`, so that no message is lost."""
        self._driver.give(Stop())

    def close(self) -> None:
        """Sends nothing more and closes all sockets."""
        if not self._closed:
            self._closed = True
            self._loop.on_stall.remove(self._stalled)
            self._driver.close()
            self._close_sockets()

    def _carry_out(self, outputs: Sequence[Any]) -> None:
        upward: list[EngineOutput] = [
            self._named(output)
            for output in outputs
            if isinstance(output, (Stamped, Delivered, Withheld, Rift, TransitionalSignal, Installed))
        ]
        if upward:
            self._note(upward)
            if not self._upward:
                self._loop.call_soon(self._hand_up)
            self._upward += upward
        self._send(outputs)

    def _named(self, event: EngineOutput) -> EngineOutput:
        """Puts names for numbers of daemons in the cause, for layers above, logs and traces."""
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
        """Carries out the engine's own effects; skips those for the layers above."""

    @abstractmethod
    def _close_sockets(self) -> None:
        """Closes the sockets that the subclass opened."""

    @abstractmethod
    def socket_report(self) -> SocketReport:
        """The counters of all sockets."""

    # Controls for tests and operators.

    @abstractmethod
    def shape(self, daemon: str, shape: Shape) -> None:
        """Delays or loses packets to this daemon from now on."""

    @abstractmethod
    def cut(self, daemons: Collection[str]) -> None:
        """Blocks traffic to and from exactly these daemons."""

    @abstractmethod
    def report_foreign(self, report: Callable[[Address, str], None]) -> None:
        """Reports senders of another configuration from now on."""

    @abstractmethod
    def change_keys(self, keys: KeyRing) -> None:
        """Seals and opens with these cluster keys from now on; the daemon started with keys."""

    @abstractmethod
    def change_tls(self, tls: DaemonTls) -> None:
        """Shows and accepts these certificates on further connections between daemons."""

    @abstractmethod
    def set_windows(self, sizes: Mapping[str, int]) -> None:
        """Sets these windows, by their names in the snapshot; raises WindowRefused."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ReconfigurableHost(EngineHost):
    """A host that can change to another configuration, in which daemons have other numbers."""

    @property
    @abstractmethod
    def alone(self) -> bool:
        """Whether it is alone in its view, and no submitted message or output is left to handle."""

    @abstractmethod
    def isolate(self, others: Collection[DaemonId], cause: str) -> None:
        """Leaves all others and forms a view alone; packets of others are ignored until `renew`."""

    @abstractmethod
    def renew(
        self, config: Config, me: Process, destinations: Destinations | None, cause: str
    ) -> TransitionalSignal:
        """Restarts the engine with another configuration, while `alone`; raises BindError.

        Returns the signal for the layer above, to be handed up before the first view.
        """

    def hand_up(self, signal: TransitionalSignal) -> None:
        """Hands this signal to the layer above at once, before any other output."""
        self._note([signal])
        self._up([signal])
