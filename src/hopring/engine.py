"""The interface of engines: the part of a daemon that orders messages and forms views. Events and snapshot.

Below       the engine's own driver, which has its sockets. Packets go in and out by `step`, as events and
            effects that only the engine and its driver know.
Above       groups and the session server; log, trace and counters of the process; status, metrics and
            simulator, which read `snapshot()`.
Invariants  an engine is a pure layer with `step` and `wake_at_us`; only its package and its driver access its
            internal state. `Installed` begins every view; a message is `Stamped` at its sender
            before it is `Delivered` there.

A snapshot is the state of an engine as one plain value. Parts that an engine does not have are None or empty:
an engine without links has no network, one without sites no overlay. Daemons and sites have numbers here;
the layers that show them to users add the names.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Literal, TypeVar, final

from hopring.compiled import mypyc_attr
from hopring.config.model import LinkName
from hopring.errors import Drop
from hopring.ids import DaemonId, Process, SiteId, SiteMask, ViewId
from hopring.links.events import LinkCounters, Tick
from hopring.ordering.entry import OrderedMessage, Position
from hopring.reason import ViewReason
from hopring.services import Service
from hopring.value import Value

# To the engine.


@final
class SubmitMessage(Value):
    """A message of one of this daemon's sessions for all daemons of the view."""

    def __init__(self, service: Service, payload: bytes, session: int = 0, resilience: int = 0) -> None:
        self.service: Final = service
        self.payload: Final = payload
        self.session: Final = session
        self.resilience: Final = resilience  # How many lost daemons it survives, or MAJORITY; 0 for most.


@final
class Resume(Value):
    """The layer above is ready: clients' messages may be sent in this view."""

    def __init__(self, view: ViewId) -> None:
        self.view: Final = view


@final
class Withdraw(Value):
    """Discards the messages of the daemon itself that are not sent yet."""


@final
class ForcePrimary(Value):
    """An operator wants this daemon's next view, which it forms at once, to be primary."""


@final
class Stop(Value):
    """Stops the engine: it tells the other daemons and leaves. Best once `drained` is true."""


@final
class Stalled(Value):
    """The driver did not run for this long: the others were not necessarily silent, and may have a new view."""

    def __init__(self, for_us: int) -> None:
        self.for_us: Final = for_us


# From the engine.


@final
class Stamped(Value):
    """A submitted message has its position in the order: the send event of the thesis."""

    def __init__(self, view: ViewId, message: OrderedMessage, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.position: Final = position


@final
class Delivered(Value):
    """A message is delivered to the layer above."""

    def __init__(
        self, view: ViewId, message: OrderedMessage, sender: Process, position: Position, holders: int = 0
    ) -> None:
        self.view: Final = view
        self.message: Final = message
        self.sender: Final = sender
        self.position: Final = position
        self.holders: Final = holders  # Daemons that are known to have it; 0 if it did not wait for any.


@final
class Withheld(Value):
    """A majority resilient message has its turn, but the view is not primary: no member delivers it."""

    def __init__(self, view: ViewId, message: OrderedMessage, sender: Process, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.sender: Final = sender
        self.position: Final = position


@final
class Rift(Value):
    """A position before the signal whose bundle members of these sites, with this daemon's, may lack.

    Members outside of these sites had passed the position before the view broke. So later bundles are delivered
    before the signal all the same; but for members that the bundle is addressed to, the view ends here.
    """

    def __init__(
        self,
        view: ViewId,
        position: Position,
        mask: SiteMask,
        together: tuple[Process, ...],
        next_view: ViewId,
        lost: bool,
        primary: bool = False,
    ) -> None:
        self.view: Final = view
        self.position: Final = position
        self.mask: Final = mask
        self.together: Final = together
        self.next_view: Final = next_view
        self.lost: Final = lost  # No member of `together` has the bundle; otherwise it is Safe and not stable.
        self.primary: Final = primary  # Whether this view is primary, and the next one too.


@final
class TransitionalSignal(Value):
    """The view is closing: until the next one, guarantees hold among `together` only."""

    def __init__(
        self, view: ViewId, together: tuple[Process, ...], next_view: ViewId, primary: bool = False
    ) -> None:
        self.view: Final = view
        self.together: Final = together
        self.next_view: Final = next_view  # The view that follows; each side of a split has another one.
        self.primary: Final = primary  # Whether this view is primary, and the next one too.


class PrimaryBasis(StrEnum):
    """Why a view is primary; the empty one, which is false, says that it is not."""

    NONE = ""
    FIRST = "first"  # The first primary of the cluster: a majority of the configured daemons.
    MAJORITY = "majority"  # It has a majority of the last primary.
    WEIGHTED = "weighted"  # One of these two, where votes have weights or a daemon has none.
    ALL = "all"  # All configured daemons are there, though the last primary has lost its majority.
    OPERATOR = "operator"  # An operator made it primary.


@final
class Installed(Value):
    """A new view is installed."""

    def __init__(
        self,
        view: ViewId,
        members: tuple[Process, ...],
        together: tuple[Process, ...],
        cause: str,
        uneven: bool = False,
        primary: PrimaryBasis = PrimaryBasis.NONE,
        epoch: int = 0,
        reason: ViewReason | None = None,
        own: ViewReason | None = None,
    ) -> None:
        self.view: Final = view
        self.members: Final = members
        self.together: Final = together  # The members that come from the same view as this daemon.
        self.cause: Final = cause
        # Members of `together` may have received different messages: there were rifts for some of them, or
        # messages after the signal were not for all their sites.
        self.uneven: Final = uneven
        self.primary: Final = primary
        # The place of a primary view in the chain of all of them; 0 if others might be as far.
        self.epoch: Final = epoch
        self.reason: Final = reason  # The cause as facts; None if the engine has only the text.
        self.own: Final = own  # What this daemon itself would give; its times are not up to date.


EngineInput = SubmitMessage | Resume | Withdraw | ForcePrimary | Stop | Stalled | Tick
"""All inputs of an engine from the layers above and from the clock."""

EngineOutput = Stamped | Delivered | Withheld | Rift | TransitionalSignal | Installed
"""All outputs of an engine for the layers above."""


EnginePhase = Literal["op", "search", "statetrans", "evs", "gone"]
"""The names of phases in status and metrics. Every engine has `op`: messages are ordered in a view."""


@dataclass(frozen=True, slots=True)
class LinkSnapshot:
    """One link to a neighbour."""

    peer: DaemonId
    protocol: LinkName
    counters: LinkCounters
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """The links of one attempt or view; counters begin at 0 in the next one."""

    generation: int
    links: tuple[LinkSnapshot, ...]  # Sorted by peer.
    drops: Mapping[Drop, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RingSnapshot:
    """The token ring that this daemon is in."""

    members: tuple[DaemonId, ...] = ()
    rounds: int = 0
    resent_segments: int = 0


@dataclass(frozen=True, slots=True)
class WindowSnapshot:
    """Flow control: sizes of windows, by the names of their settings, and how much of them is used."""

    sizes: Mapping[str, int]
    used_bytes: int = 0  # Sent by this daemon and not stable.
    used_bundles: int = 0
    queue_bytes: int = 0  # Submitted and not sent.


@final
class AttemptSnapshot(Value):
    """A view change under way."""

    def __init__(
        self,
        bound: bool,  # This daemon has promised to install the view.
        decided: bool,  # It is decided which messages of the old view are delivered.
        together: int,  # The number of members from the same old view, once decided.
    ) -> None:
        self.bound: Final = bound
        self.decided: Final = decided
        self.together: Final = together


RouteUse = Literal["tree", "spare", "unused", "cut", "absent"]
"""How the view uses a link between two sites; absent if a site has no member."""


@dataclass(frozen=True, slots=True)
class RouteSnapshot:
    """A configured link between two sites."""

    sites: tuple[SiteId, SiteId]
    protocol: LinkName
    cut: bool  # In the installed view; `use` is that of the present network.
    use: RouteUse
    configured_weight: int
    agreed_weight: int | None
    measured_us: int | None  # The time to deliver a packet, measured by this daemon.
    round_trip_us: int | None
    loss_ppm: int | None


@dataclass(frozen=True, slots=True)
class OverlaySnapshot:
    """How an engine with sites routes between them."""

    representative: DaemonId | None  # Of the own site.
    routes: tuple[RouteSnapshot, ...]
    tree_parents: tuple[Mapping[SiteId, SiteId], ...]  # Of all spanning trees, for comparison.
    promises: int = 0  # Sent by this daemon in the view.


@final
class EngineState(Value):
    """The phase and the view of an engine: the small and cheap part of a snapshot."""

    def __init__(
        self,
        me: Process,
        phase: EnginePhase,
        settled: bool,  # A view is installed, and messages are ordered in it.
        view: ViewId,  # The last one installed.
        members: tuple[Process, ...],
        attempt: AttemptSnapshot | None,
        primary: PrimaryBasis = PrimaryBasis.NONE,  # Of the view.
    ) -> None:
        self.me: Final = me
        self.phase: Final = phase
        self.settled: Final = settled
        self.view: Final = view
        self.members: Final = members
        self.attempt: Final = attempt
        self.primary: Final = primary


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An engine at one moment."""

    me: Process
    phase: EnginePhase
    phases: tuple[EnginePhase, ...]  # All phases of this engine.
    settled: bool  # A view is installed, and messages are ordered in it.
    view: ViewId  # The last one installed.
    members: tuple[Process, ...]
    cause: str  # Of the next view change.
    reached: tuple[int, ...]  # The position of the last delivered message in the order.
    window: WindowSnapshot
    phase_detail: str = ""  # A more precise name of the phase.
    drops: Mapping[Drop, int] = field(default_factory=dict)  # Without those of the present network.
    ring: RingSnapshot = field(default_factory=RingSnapshot)
    network: NetworkSnapshot | None = None
    last_network: NetworkSnapshot | None = None  # The network before, as it ended.
    attempt: AttemptSnapshot | None = None
    overlay: OverlaySnapshot | None = None
    primary: PrimaryBasis = PrimaryBasis.NONE  # Of the view.

    @property
    def links(self) -> tuple[LinkSnapshot, ...]:
        """The links of the present network."""
        return () if self.network is None else self.network.links


Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)


@mypyc_attr(allow_interpreted_subclasses=True)
class Engine(ABC, Generic[Event_contra, Effect_co]):
    """An engine. The type parameters are the events and effects between it and its driver."""

    @property
    @abstractmethod
    def wake_at_us(self) -> int:
        """When the next `Tick` is due."""

    @abstractmethod
    def step(self, event: EngineInput | Event_contra, now_us: int) -> Sequence[EngineOutput | Effect_co]:
        """Takes one event; returns its outputs and effects in order."""

    @property
    @abstractmethod
    def queue_open(self) -> bool:
        """Whether `SubmitMessage` may bring another message of a client."""

    @property
    @abstractmethod
    def drained(self) -> bool:
        """Whether every daemon of the view has everything that was submitted here."""

    @abstractmethod
    def state(self) -> EngineState:
        """The phase and the view, for readers that ask often."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state of the engine at this moment."""
