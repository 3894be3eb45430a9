"""The present network: the stack of the attempt or view that a daemon is in, from its NEWMEMB to its end.

Below       the stack, one for each attempt.
Above       the membership, which takes what comes out and decides when it is over.
Invariants  an event that comes up while the outputs of another are taken in waits its turn; of a network that
            has ended nothing is heard again.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from hopring.engine.snapshot import NetworkSnapshot
from hopring.ids import DaemonId, Generation, Process, SiteId, ViewId
from hopring.links import hop, tcp
from hopring.membership.events import NetworkStarted
from hopring.membership.measuring import Measuring
from hopring.membership.messages import NewMemb, SitePair
from hopring.membership.options import MembershipOptions
from hopring.membership.snapshot import network_snapshot
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import Message, decode_message
from hopring.routing.topology import Topology
from hopring.routing.trees import Pair, pair
from hopring.stack import Stack
from hopring.stack_events import Identity, Multicast, MulticastLoose, PingLinks, StackOptions
from hopring.stack_events import Input as StackInput
from hopring.stack_events import Output as StackOutput

ROUTING_BYTES: Final = 512
"""What routing and links add to a bundle, at most."""

LIFE_IN_ROUND_TRIPS: Final = 8
"""A round trip is believed if the network that measured it lived at least so many times as long."""

STEADY_ROUND_TRIPS: Final = 2
"""A smoothed round trip is kept for the next network if it is at most so many times the least one."""


@dataclass(frozen=True, slots=True)
class LocalDaemon:
    """What a daemon knows of itself and of the cluster."""

    me: Process
    cluster: int
    topology: Topology


def generation_of(view: ViewId) -> Generation:
    """The same at all members; unlike that of any other attempt, but for a chance of one in 2**64."""
    text = b"%d/%d/%d" % view
    return Generation(int.from_bytes(blake2b(text, digest_size=8).digest(), "little"))


@dataclass(slots=True)
class CurrentNetwork:
    """A daemon's network, or none, and what it has learned of the paths."""

    local: LocalDaemon
    options: MembershipOptions
    stack_options: StackOptions
    site_of: Mapping[DaemonId, SiteId]
    destinations: Destinations = field(default_factory=Destinations)
    stack: Stack | None = None
    started_at_us: int = 0
    measuring: Measuring = field(init=False)
    round_trips_us: dict[Pair, int] = field(default_factory=dict)  # Half as much again as the least seen.
    learned: dict[Process, hop.HopLearned] = field(default_factory=dict)  # By neighbour, of earlier links.
    pending: deque[StackInput] = field(default_factory=deque)
    _neighbours: dict[DaemonId, Process] = field(default_factory=dict)
    last_network: NetworkSnapshot | None = None  # The one before, as it ended.
    _progress: int = 0  # What the network had carried when it was last looked at.

    def __post_init__(self) -> None:
        mine = self.site_of[self.local.me.daemon]
        self.measuring = Measuring(self.local.topology, mine, self.options.measure_us)

    # From the beginning to the end.

    def start(self, word: NewMemb, now_us: int) -> NetworkStarted:
        """The network of this attempt begins."""
        me = self.local.me
        members = {one.daemon: one.incarnation for one in word.members}
        own = Identity(me.daemon, me.incarnation, self.local.cluster, generation_of(word.view))
        cut = frozenset(pairs(word.cut))
        options = self._roomy(len(members))
        topology = self.measuring.begin(word.weights)
        stack = Stack(own, topology, members, cut, options, now_us, self.destinations)
        self._resume_links(stack, word.members, now_us)
        self.stack = stack
        self.started_at_us = now_us
        self._progress = stack.progress
        links = sorted([*stack.links.items(), *stack.spares.items()])
        streams = tuple([one for one, link in links if isinstance(link, tcp.Tcp)])
        return NetworkStarted(own, streams, stack.network.ring)

    def _roomy(self, members: int) -> StackOptions:
        """What all windows together let through must find room on every way between two links."""
        largest = self.stack_options.bundle_bytes_max
        window = self.options.window_bytes + largest + self.options.window_bundles * ROUTING_BYTES
        bundles = members * self.options.window_bundles
        return replace(self.stack_options, transit_bytes=members * window, transit_bundles=bundles)

    def end(self, now_us: int) -> list[Message]:
        """The network is over; returns what was multicast and is not stamped, the oldest first."""
        stack = self.stack
        if stack is None:
            return []
        self._measure(stack, now_us)
        self.measuring.end()
        self.last_network = network_snapshot(stack)
        self._learn(stack, now_us)
        queued = [event.bundle for event in self.pending if isinstance(event, Multicast | MulticastLoose)]
        self.pending.clear()
        self.stack = None
        return [decode_message(bundle) for bundle in [*[one for _, one in stack.take_back()], *queued]]

    # In between.

    def put(self, event: StackInput) -> bool:
        """Queues an event; returns whether the caller has to run it, and all that follow."""
        if self.stack is None:
            return False
        self.pending.append(event)
        return len(self.pending) == 1

    def run(self, now_us: int) -> list[StackOutput]:
        """Runs the first event; it stays in the queue until its outputs are taken in, see `ran`."""
        assert self.stack is not None, "events go to a network"
        return self.stack.step(self.pending[0], now_us)

    def ran(self) -> bool:
        """The outputs of the first event are taken in; returns whether there is another."""
        self.pending.popleft()
        return bool(self.pending)

    @property
    def word_room(self) -> bool:
        """Whether a control word may be told; what is told during a step does not show in the queues yet."""
        return not self.pending and self.stack is not None and self.stack.word_room

    def moves(self) -> bool:
        """Whether the network has carried anything since this was last asked."""
        before, self._progress = self._progress, 0 if self.stack is None else self.stack.progress
        return self._progress > before

    def suspects(self, late: bool) -> tuple[list[Pair], DaemonId | None]:
        """The links that failed, or are stuck if that is why it is late, and the silent member of the ring."""
        if self.stack is None:
            return [], None
        failed = [daemon for daemon, link in self.stack.links.items() if link.state.failure]
        mine = self.site_of[self.local.me.daemon]
        stuck = self.stack.stuck if late else []
        links = {pair(mine, self.site_of[one]) for one in [*failed, *stuck]}
        return sorted(links), self.stack.ring.suspect

    # Paths.

    def sample(self, now_us: int) -> PingLinks:
        """Takes what was measured on the links; returns the event that measures them again."""
        assert self.stack is not None, "a network is measured"
        samples = self.stack.samples()
        self.measuring.sample({self.site_of[daemon]: one for daemon, one in samples.items()}, now_us)
        return PingLinks()

    def _resume_links(self, stack: Stack, members: Iterable[Process], now_us: int) -> None:
        """A view makes new links; those to neighbours that stayed what they were begin with what is known."""
        fresh_us = now_us - hop.RESUME_US_MAX
        for one in [one for one, learned in self.learned.items() if learned.at_us < fresh_us]:
            del self.learned[one]
        self._neighbours = {one.daemon: one for one in members if one.daemon in stack.links}
        for daemon, neighbour in self._neighbours.items():
            link = stack.links[daemon]
            if isinstance(link, hop.Hop) and neighbour in self.learned:
                link.resume(self.learned[neighbour], now_us)

    def _learn(self, stack: Stack, now_us: int) -> None:
        """Keeps what the links know of their paths for the next network.

        A link whose host was paused has measured the pause. A new link with such a round trip would wait for
        answers, and before it repeats anything, longer than one that knows nothing.
        """
        life_us = now_us - self.started_at_us
        for daemon, neighbour in self._neighbours.items():
            link = stack.links[daemon]
            learned = link.learned if isinstance(link, hop.Hop) else None
            if learned is None:
                continue
            trip = learned.round_trip
            lived = LIFE_IN_ROUND_TRIPS * trip.least_us < life_us
            if lived and trip.smoothed_us <= STEADY_ROUND_TRIPS * trip.least_us:
                self.learned[neighbour] = learned
            else:
                self.learned.pop(neighbour, None)

    def _measure(self, stack: Stack, now_us: int) -> None:
        """Takes the links' least round trips: the smoothed ones include pauses and queues.

        In a network that ended soon after a pause of this host, even the least may be that pause.
        """
        mine = self.site_of[self.local.me.daemon]
        for daemon, link in stack.links.items():
            least_us = link.state.round_trip.least_us if isinstance(link, hop.Hop) else 0
            if 0 < LIFE_IN_ROUND_TRIPS * least_us < now_us - self.started_at_us:
                self.round_trips_us[pair(mine, self.site_of[daemon])] = 3 * least_us // 2

    @property
    def round_trip_us(self) -> int:
        """The longest round trip to another site that was measured, or the guess."""
        return max(self.round_trips_us.values(), default=self.options.round_trip_us)

    def round_trip_to_us(self, members: Iterable[Process]) -> int:
        """The same for these members; a path that nobody has measured is taken to be long."""
        mine = self.site_of[self.local.me.daemon]
        sites = {self.site_of[one.daemon] for one in members} - {mine}
        unknown_us = max(self.round_trip_us, self.options.round_trip_us)
        return max([self.round_trips_us.get(pair(mine, site), unknown_us) for site in sites], default=0)


def pairs(cut: Iterable[SitePair]) -> tuple[Pair, ...]:
    """The cut links of a word."""
    return tuple([(SiteId(one), SiteId(other)) for one, other in cut])
