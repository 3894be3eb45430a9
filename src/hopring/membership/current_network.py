"""The current network of a daemon: the stack of its attempt or view, from NEWMEMB to the end.

Below       the stack, one for each attempt.
Above       the membership, which handles the outputs and decides when the network is over.
Invariants  an event that arises while the outputs of another are handled waits in a queue until they are
            handled; nothing is received from a network that has ended.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from hopring.engine import NetworkSnapshot
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Process, SiteId, ViewId
from hopring.links.link import RESUME_US_MAX, LearnedPath
from hopring.membership.events import NetworkStarted
from hopring.membership.measuring import Measuring
from hopring.membership.messages import EpochMark, NewMemb, pairs
from hopring.membership.options import MembershipOptions
from hopring.membership.primary import Electorate
from hopring.membership.snapshot import network_snapshot
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import OrderedMessage, decode_message
from hopring.routing.trees import Pair, Topology, pair
from hopring.stack import Stack
from hopring.stack_events import (
    Identity,
    Multicast,
    MulticastLoose,
    PingLinks,
    Promised,
    Receive,
    ReceiveControl,
    StackOptions,
)
from hopring.stack_events import Input as StackInput
from hopring.stack_events import Output as StackOutput

ROUTING_BYTES: Final = 512
"""Upper bound of the bytes that routing and links add to a bundle."""

LIFE_IN_ROUND_TRIPS: Final = 8
"""A measured round trip is kept if its network lasted longer than this many of it."""

STEADY_ROUND_TRIPS: Final = 2
"""A smoothed round trip is kept for the next network if it is at most this many times the least one."""

STALL_SILENCES: Final = 2
"""A loss is attributed to a stall of this daemon for this many times the longest silence that links allow."""


@dataclass(frozen=True, slots=True)
class LocalDaemon:
    """A daemon's own process and its cluster."""

    me: Process
    cluster: int
    topology: Topology
    votes: Mapping[DaemonId, int] = field(default_factory=dict)  # Weights of votes; 1 for those not in it.
    tie_site: SiteId | None = None  # The site that decides between halves of equal weight.
    marked: bool = True  # An earlier process of this daemon may have voted for a primary view.
    mark: EpochMark | None = None  # What that process has written.
    has_disk: bool = False  # For the marks of this process.

    @property
    def electorate(self) -> Electorate:
        """The configured daemons with their votes."""
        site_of = {DaemonId(at): site for at, site in enumerate(self.topology.site_of)}
        return Electorate(site_of, self.votes, self.tie_site)


def generation_of(view: ViewId) -> Generation:
    """The generation of an attempt's network: its view id hashed to the 64 bits that a header has for it.

    It is the same at all members; two attempts have the same with a probability of 2**-64.
    """
    text = b"%d/%d/%d" % view
    return Generation(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))


@dataclass(slots=True)
class CurrentNetwork:
    """A daemon's network, or none, and the measurements of paths that outlive it."""

    local: LocalDaemon
    options: MembershipOptions
    stack_options: StackOptions
    site_of: Mapping[DaemonId, SiteId]
    destinations: Destinations = field(default_factory=Destinations)
    stack: Stack | None = None
    started_at_us: int = 0
    measuring: Measuring = field(init=False)
    round_trips_us: dict[Pair, int] = field(
        default_factory=dict
    )  # By link, one and a half times the least measured.
    learned: dict[Process, LearnedPath] = field(default_factory=dict)  # By neighbour, from earlier links.
    pending: deque[StackInput] = field(default_factory=deque)  # The event that is handled, and those behind it.
    refused: list[bytes] = field(
        default_factory=list
    )  # Own bundles that were stamped and did not fit the order.
    stall_us: int = 0  # Duration of the last stall of this daemon.
    stall_until_us: int = 0  # A loss until then is attributed to it.
    _neighbours: dict[DaemonId, Process] = field(default_factory=dict)
    last_network: NetworkSnapshot | None = None  # The network before, as it ended.
    ended_drops: Counter[Drop] = field(default_factory=Counter)  # Of all networks before this one.
    _progress: int = 0  # The progress of the stack at the last call of `check_progress`.

    def __post_init__(self) -> None:
        mine = self.site_of[self.local.me.daemon]
        self.measuring = Measuring(self.local.topology, mine, self.options.measure_us)

    # Start and end.

    def start(self, message: NewMemb, now_us: int) -> NetworkStarted:
        """Starts the network of an attempt."""
        me = self.local.me
        members = {one.daemon: one.incarnation for one in message.members}
        own = Identity(me.daemon, me.incarnation, self.local.cluster, generation_of(message.view))
        cut = frozenset(pairs(message.cut))
        options = self._stack_options(len(members))
        topology = self.measuring.begin(message.weights)
        stack = Stack(own, topology, members, cut, options, now_us, self.destinations)
        self._resume_links(stack, message.members, now_us)
        self.stack = stack
        self.started_at_us = now_us
        self._progress = stack.progress
        return NetworkStarted(own, tuple(stack.stream_neighbours), stack.network.ring)

    def _stack_options(self, members: int) -> StackOptions:
        """The options of a stack whose queues between two links hold the windows of all members."""
        largest = self.stack_options.bundle_bytes_max
        window = self.options.window_bytes + largest + self.options.window_bundles * ROUTING_BYTES
        return replace(
            self.stack_options,
            transit_bytes=members * window,
            transit_bundles=members * self.options.window_bundles,
            in_flight_max=self.options.in_flight_max(members),
        )

    def end(self, now_us: int) -> list[OrderedMessage]:
        """Ends the network; returns the messages that were multicast and are not sent, the oldest first."""
        stack = self.stack
        if stack is None:
            return []
        self._measure(stack, now_us)
        self.measuring.end()
        self.last_network = network_snapshot(stack)
        self.ended_drops.update(stack.drops)
        self._learn(stack, now_us)
        queued = [event.bundle for event in self.pending if isinstance(event, Multicast | MulticastLoose)]
        self.pending.clear()
        self.stack = None
        refused, self.refused = self.refused, []
        return [
            decode_message(bundle) for bundle in [*refused, *[one for _, one in stack.take_back()], *queued]
        ]

    # Operation.

    @property
    def control_open(self) -> bool:
        """Whether a control message may be sent: no event waits for the stack, and its queues are open."""
        return not self.pending and self.stack is not None and self.stack.control_open

    def check_progress(self) -> bool:
        """Whether the network has carried anything since the last call."""
        before, self._progress = self._progress, 0 if self.stack is None else self.stack.progress
        return self._progress > before

    def suspects(self, late: bool) -> tuple[list[Pair], DaemonId | None]:
        """The links that failed or, if the attempt is late, are stuck; and the silent member of the ring."""
        if self.stack is None:
            return [], None
        failed = [daemon for daemon, link in self.stack.links.items() if link.failure]
        mine = self.site_of[self.local.me.daemon]
        stuck = self.stack.stuck if late else []
        links = {pair(mine, self.site_of[one]) for one in [*failed, *stuck]}
        return sorted(links), self.stack.ring.suspect

    # Stalls of this daemon.

    def stalled(self, for_us: int, now_us: int) -> None:
        """Notes a stall that may cost the view: of at least half the shortest silence that fails a link.

        Half, because a neighbour counts from the last packet it heard, and the driver from the missed deadline.
        """
        if self.stack is None:
            return
        self.stack.stalled(now_us)
        silence_limits_us = self.stack.silence_limits_us
        if not silence_limits_us or 2 * for_us < min(silence_limits_us):
            return
        again = now_us <= self.stall_until_us
        self.stall_us = max(for_us, self.stall_us) if again else for_us
        self.stall_until_us = now_us + STALL_SILENCES * max(silence_limits_us)

    # Paths.

    def sample(self, now_us: int) -> PingLinks:
        """Records the samples of the links; returns the event for the stack that measures them again."""
        assert self.stack is not None, "a network is measured"
        samples = self.stack.samples()
        self.measuring.sample({self.site_of[daemon]: one for daemon, one in samples.items()}, now_us)
        return PingLinks()

    def _resume_links(self, stack: Stack, members: Iterable[Process], now_us: int) -> None:
        """Initializes new links to known neighbours with the measurements of earlier links."""
        fresh_us = now_us - RESUME_US_MAX
        for one in [one for one, learned in self.learned.items() if learned.at_us < fresh_us]:
            del self.learned[one]
        self._neighbours = {one.daemon: one for one in members if one.daemon in stack.links}
        for daemon, neighbour in self._neighbours.items():
            link = stack.links[daemon]
            if neighbour in self.learned:
                link.resume(self.learned[neighbour], now_us)

    def _learn(self, stack: Stack, now_us: int) -> None:
        """Keeps the links' measurements of their paths for the next network.

        A link whose host was paused has measured the pause. A new link with such a round trip would wait longer
        for answers, and before it resends, than one without measurements.
        """
        life_us = now_us - self.started_at_us
        for daemon, neighbour in self._neighbours.items():
            link = stack.links[daemon]
            learned = link.learned
            if learned is None:
                continue
            trip = learned.round_trip
            lived = LIFE_IN_ROUND_TRIPS * trip.least_us < life_us
            if lived and trip.smoothed_us <= STEADY_ROUND_TRIPS * trip.least_us:
                self.learned[neighbour] = learned
            else:
                self.learned.pop(neighbour, None)

    def _measure(self, stack: Stack, now_us: int) -> None:
        """Takes the links' least round trips: the smoothed ones include pauses and queueing.

        In a network that ended soon after a pause of this host, even the least one may be that pause.
        """
        mine = self.site_of[self.local.me.daemon]
        for daemon, link in stack.links.items():
            least_us = link.least_round_trip_us
            if 0 < LIFE_IN_ROUND_TRIPS * least_us < now_us - self.started_at_us:
                self.round_trips_us[pair(mine, self.site_of[daemon])] = 3 * least_us // 2

    @property
    def round_trip_us(self) -> int:
        """The longest measured round trip to another site, or the estimate of the options."""
        return max(self.round_trips_us.values(), default=self.options.round_trip_us)

    def round_trip_to_us(self, members: Iterable[Process]) -> int:
        """The longest round trip to the sites of these members; an unmeasured path counts as long."""
        mine = self.site_of[self.local.me.daemon]
        sites = {self.site_of[one.daemon] for one in members} - {mine}
        unknown_us = max(self.round_trip_us, self.options.round_trip_us)
        return max([self.round_trips_us.get(pair(mine, site), unknown_us) for site in sites], default=0)


def sender_of(output: StackOutput, representatives: Mapping[SiteId, DaemonId]) -> DaemonId | None:
    """The daemon that sent a control message, promise or bundle, as far as it is known."""
    if isinstance(output, ReceiveControl):
        return output.daemon
    if isinstance(output, Promised):
        return representatives.get(output.update.source)
    if isinstance(output, Receive) and output.bundle is not None:
        with suppress(PeerError):
            return decode_message(output.bundle).daemon
    return None
