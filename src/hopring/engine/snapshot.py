"""Snapshots: the state of an engine as one plain value, the only thing that is read of it from outside.

Status, metrics, answers to clients, the trace's counters and the simulator's verdicts read snapshots. Parts
that an engine does not have are None or empty: an engine without links has no network, one without sites no
overlay. Daemons and sites go by their numbers; whoever shows them to people knows the names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, final

from hopring.config.model import LinkName
from hopring.errors import Drop
from hopring.ids import DaemonId, Process, SiteId, ViewId
from hopring.links.events import LinkCounters
from hopring.value import Value

EnginePhase = Literal["op", "search", "statetrans", "evs", "gone"]
"""The names of phases, as clients and metrics are told them. Every engine has `op`: a view works."""


@dataclass(frozen=True, slots=True)
class LinkSnapshot:
    """One link to a neighbour."""

    peer: DaemonId
    protocol: LinkName
    counters: LinkCounters
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """The links of one attempt or view; with the next one all counters begin again."""

    generation: int
    links: tuple[LinkSnapshot, ...]  # By their peers.
    drops: Mapping[Drop, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RingSnapshot:
    """The token ring that this daemon is in."""

    members: tuple[DaemonId, ...] = ()
    rounds: int = 0
    resent_segments: int = 0


@dataclass(frozen=True, slots=True)
class WindowSnapshot:
    """Flow control: sizes of windows, by the names under which they can be set, and what is used of them."""

    sizes: Mapping[str, int]
    used_bytes: int = 0  # Sent by this daemon, and not yet known to be everywhere.
    used_bundles: int = 0
    queue_bytes: int = 0  # Submitted, and not yet sent.


@final
class AttemptSnapshot(Value):
    """A view change under way."""

    def __init__(
        self,
        bound: bool,  # This daemon has promised to install the view.
        decided: bool,  # The fate of the old view's messages is known.
        together: int,  # How many come along from the old view, once that is decided.
    ) -> None:
        self.bound: Final = bound
        self.decided: Final = decided
        self.together: Final = together


RouteUse = Literal["tree", "spare", "unused", "cut", "absent"]
"""What the view does with a link between sites; absent if it does not have both."""


@dataclass(frozen=True, slots=True)
class RouteSnapshot:
    """A configured link between two sites."""

    sites: tuple[SiteId, SiteId]
    protocol: LinkName
    left_out: bool  # The view does without it.
    use: RouteUse
    configured_weight: int
    agreed_weight: int | None
    measured_us: int | None  # The time to deliver a packet, as this daemon has measured it.
    round_trip_us: int | None
    loss_ppm: int | None


@dataclass(frozen=True, slots=True)
class OverlaySnapshot:
    """How an engine with sites routes between them."""

    representative: DaemonId | None  # Of the own site.
    routes: tuple[RouteSnapshot, ...]
    tree_parents: tuple[Mapping[SiteId, SiteId], ...]  # Of all spanning trees, for comparison.


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
    ) -> None:
        self.me: Final = me
        self.phase: Final = phase
        self.settled: Final = settled
        self.view: Final = view
        self.members: Final = members
        self.attempt: Final = attempt


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An engine at one moment."""

    me: Process
    phase: EnginePhase
    phases: tuple[EnginePhase, ...]  # All that this engine can be in.
    settled: bool  # A view is installed, and messages are ordered in it.
    view: ViewId  # The last one installed.
    members: tuple[Process, ...]
    cause: str  # Of the next view change.
    reached: tuple[int, ...]  # The place of the last message in the order; it changes with each delivery.
    window: WindowSnapshot
    phase_detail: str = ""  # A finer name of the phase, if there is one.
    drops: Mapping[Drop, int] = field(default_factory=dict)  # Without those of the network.
    ring: RingSnapshot = field(default_factory=RingSnapshot)
    network: NetworkSnapshot | None = None
    last_network: NetworkSnapshot | None = None  # The one before, as it ended.
    attempt: AttemptSnapshot | None = None
    overlay: OverlaySnapshot | None = None

    @property
    def links(self) -> tuple[LinkSnapshot, ...]:
        """The links of the present network."""
        return () if self.network is None else self.network.links
