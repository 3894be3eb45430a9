"""The stack: connects a daemon's layers from the stamps down to the links.

One stack serves one network, from `ninit` to `linkfailed` (thesis 2.2.6): a generation, a set of daemons, a set
of cut links. The membership makes a stack for each attempt to form a view; the view keeps it until it breaks.

Below       a driver, which carries frames and streams between daemons and knows the time.
Above       the membership, which multicasts bundles and receives each bundle of the network exactly once, its
            own included.
Invariants  there is no output after NetworkFailed (2.23); a packet of another generation, of a daemon that is
            no member, or of another incarnation of a member is refused before it reaches a link; an Unreliable
            bundle never fails the network; a link that no tree uses carries PING only, and may fail.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, NOBODY, NUMBER_MAX, DaemonId, Incarnation
from hopring.links.events import (
    Deliver,
    LinkCounters,
    LinkFailed,
    LinkOutput,
    StreamObserve,
    StreamWrite,
    Submit,
    Tick,
    Transmit,
)
from hopring.links.kinds import KINDS, LinkSetup
from hopring.links.link import Link
from hopring.links.ring import ring as rings
from hopring.links.ring.events import FromMember, Passed, Release, TransmitTo, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.packing import VisitSpace
from hopring.links.timing import LinkSample, Pinging
from hopring.ordering.destinations import Destinations
from hopring.ordering.holders import one_vote_each
from hopring.ordering.stamps import StampedBundles, Stamps
from hopring.ordering.unreliable import LooseReceiver, LooseSender
from hopring.routing.network import (
    Failed,
    FromLink,
    FromRing,
    Item,
    Neighbour,
    Network,
    NetworkFailed,
    Originate,
    ToLink,
    ToRing,
    Up,
    decode_item,
    encode_item,
)
from hopring.routing.network import Input as RoutingInput
from hopring.routing.network import Output as RoutingOutput
from hopring.routing.trees import Pair, Topology
from hopring.stack_events import (
    DEFAULTS,
    Identity,
    Input,
    Multicast,
    MulticastControl,
    MulticastLoose,
    ObserveStream,
    Output,
    PacketReceived,
    PingLinks,
    Promise,
    Promised,
    Receive,
    ReceiveControl,
    ReceiveLoose,
    SendSite,
    SendTo,
    StackOptions,
    StreamChanged,
    Visited,
    WishVisit,
    WriteTo,
)
from hopring.wire.bundle import BUNDLE_BYTES_MAX
from hopring.wire.control import Control, Update, cut_control, decode_ping, encode_ping
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, Segment
from hopring.wire.fragments import (
    CONTROL_HEAD_BYTES_MAX,
    FRAGMENT_OVERHEAD_BYTES,
    Reassembly,
    control_fragment,
)
from hopring.wire.header import Family, Header
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.routed import Meta, Routed
from hopring.wire.train import Frame, Packet
from hopring.wire.unreliable import Loose, Unreliable, decode_unreliable, encode_unreliable, loose_bytes_of

CONTROL_BYTES_MAX: Final = BUNDLE_BYTES_MAX + CONTROL_HEAD_BYTES_MAX
"""The longest control message: one that resends the largest bundle."""

_UNRELIABLE: Final = int(ObjectType.UNRELIABLE)
_PING: Final = int(ObjectType.PING)


class Stack:
    """One daemon's part of one network."""

    def __init__(
        self,
        own: Identity,
        topology: Topology,
        members: Mapping[DaemonId, Incarnation | None],
        cut: frozenset[Pair] = frozenset(),
        options: StackOptions = DEFAULTS,
        now_us: int = 0,
        destinations: Destinations | None = None,
    ) -> None:
        self.own = own
        self.options = options
        self.network = Network(topology, own.me, tuple(members), cut)
        self.links = {one.daemon: self._make_link(one) for one in self.network.neighbours}
        self.spares = {one.daemon: self._make_link(one) for one in self.network.spares}
        ends = [*self.network.neighbours, *self.network.spares]
        self._streams = frozenset([one.daemon for one in ends if KINDS[one.protocol].over_stream])
        measured = [*self.links, *self.spares] if topology.measured else []
        self._pings = {daemon: Pinging() for daemon in measured}
        queue_bytes = max(options.ring.queue_bytes_max, options.transit_bytes)
        ring_options = replace(options.ring, queue_bytes_max=queue_bytes)
        self.ring = rings.open_ring(own.me, self.network.ring, ring_options, options.initial_seq, now_us)
        # When each link wants a tick, read again only after the link had an event. The ring is under the own
        # id, Unreliable bundles are under NOBODY.
        self._wakes_at_us = {daemon: link.wake_at_us for daemon, link in self.links.items()}
        self._wakes_at_us.update({daemon: link.wake_at_us for daemon, link in self.spares.items()})
        self._wakes_at_us[own.me] = self.ring.wake_at_us
        self._incarnations = dict(members)  # None until the first packet of that daemon.
        self.stamps = Stamps(
            self.network.site,
            self._object_bytes(),
            destinations=destinations or Destinations(),
            votes=one_vote_each([topology.site_of[one] for one in self.network.members]),
            in_flight_max=options.in_flight_max,
        )
        self._reassembly = Reassembly(options.bundle_bytes_max)
        self._reassembly.raise_limits(options.transit_bytes, options.transit_bundles)
        self._control_parts = Reassembly(CONTROL_BYTES_MAX)
        self._loose_out = LooseSender(self.network.site, own.me, self._loose_bytes())
        others = {one: topology.site_of[one] for one in self.network.members if one != own.me}
        self.loose = LooseReceiver(
            others, options.loose_wait_us, options.loose_held_bytes_max, options.bundle_bytes_max
        )
        self._clock_goal_lts = 0  # The clock has to reach this stamp because of Unreliable bundles.
        self._clock_due_us = NEVER  # When the clock has to reach that stamp, at the latest.
        self._serial = 0  # Of control messages.
        self._last_stamped: StampedBundles | None = None  # In the last visit.
        self._holders_queued = False  # A bundle that will wait for holders waits to be stamped.
        # Set by the layer above: whether a stamped bundle waits for holders, the highest stamp of a resilient
        # one, and the line below which this daemon has everything.
        self.waits_for_holders = False
        self.resilient_lts = self.local_aru = 0
        self.drops: Counter[Drop] = Counter()
        self._encoded_item: Item | None = None  # The last one for another site: often it goes to several.
        self._encoded = b""
        self._out: list[Output] = []

    def _make_link(self, neighbour: Neighbour) -> Link:
        greeting = self.own.header(Family.TCP)
        transit, initial = self.options.transit_bytes, self.options.initial_seq
        setup = LinkSetup(neighbour.daemon, neighbour.tuning, greeting, transit, initial)
        return KINDS[neighbour.protocol].make(setup)

    def _object_bytes(self) -> int:
        """The size to which bundles and control messages are cut; it fits the ring and every link here."""
        links = [link.object_bytes_max for link in self.links.values()]
        return min([self.ring.packet_bytes, self.options.object_bytes_max, *links])

    def tune_ring(self, options: RingOptions) -> None:
        """Sets windows and packet size of the ring; bundles that are already cut stay as they are."""
        self.ring.tune(
            options.personal_window_segments, options.global_window_segments, options.packet_segments_max
        )
        self.stamps.object_bytes_max = self._object_bytes()

    def _loose_bytes(self) -> int:
        """The longest object that fits in one datagram on every link of the cluster."""
        plans = self.network.topology.links.values()
        tuned = [plan.tuning.segment_bytes for plan in plans if plan.tuning.segment_bytes is not None]
        return loose_bytes_of(min([self.options.ring.segment_bytes, SEGMENT_BYTES_DEFAULT, *tuned]))

    @property
    def stream_neighbours(self) -> list[DaemonId]:
        """The neighbours whose links need a connection."""
        return sorted(self._streams)

    @property
    def failed(self) -> bool:
        """Whether this network has ended."""
        return self.network.failure is not None

    @property
    def control_open(self) -> bool:
        """Whether `MulticastControl` may bring another message now; queues of links and ring are bounded."""
        if self.failed:
            return False
        links = all(2 * link.backlog_bytes < link.backlog_bytes_max for link in self.links.values())
        return links and 2 * self.ring.state.outbox.urgent.total_bytes < self.ring.options.queue_bytes_max

    @property
    def progress(self) -> int:
        """A number that grows while packets get through on any link or on the ring."""
        moved = self.ring.state.token.link_aru
        for link in self.links.values():
            moved += link.progress
        return moved

    @property
    def stuck(self) -> list[DaemonId]:
        """The neighbours on whose links a packet was requested or sent again and has not arrived yet."""
        return [daemon for daemon, link in sorted(self.links.items()) if link.stuck]

    @property
    def silence_limits_us(self) -> list[int]:
        """The silence after which each link and the ring fail; the other ends have the same options."""
        links = [link.silence_us for link in self.links.values()]
        return [*links, self.ring.options.token_loss_us] if len(self.network.ring) > 1 else links

    def stalled(self, now_us: int) -> None:
        """This daemon did not run until now: answers to packets sent before give no sample of a round trip."""
        for link in [*self.links.values(), *self.spares.values()]:
            link.stalled(now_us)
        for pinging in self._pings.values():
            pinging.round_trip.since_us = now_us

    @property
    def wake_at_us(self) -> int:
        """The next time at which a layer wants a Tick."""
        wake_us = NEVER
        if not self.failed:
            for at_us in self._wakes_at_us.values():
                wake_us = min(wake_us, at_us)
        return wake_us

    def expect(self, lts: int) -> None:
        """The view begins at this stamp; other members may install it from now on."""
        self.stamps.start_lts = lts

    def heard(self, lts: int) -> None:
        """Raises the clock: later stamps are above this one."""
        self.stamps.heard(lts)

    def take_back(self) -> list[tuple[int, bytes]]:
        """The bundles that are not stamped yet, with their sessions, the oldest first."""
        return self.stamps.take_back()

    def counters(self) -> dict[DaemonId, LinkCounters]:
        """The counters of the links to other sites."""
        return {daemon: link.counters for daemon, link in self.links.items()}

    def samples(self) -> dict[DaemonId, LinkSample]:
        """The measurements of each link since the last call, without links that have failed."""
        return {
            daemon: self._pings[daemon].sample(link.counters)
            for links in (self.links, self.spares)
            for daemon, link in links.items()
            if daemon in self._pings and not link.failure
        }

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; a packet that a peer should not have sent is dropped and counted."""
        if self.failed:
            return []
        if isinstance(event, PacketReceived):
            self._packet_received(event.packet, now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, WishVisit):
            self._step_ring(Wish(), now_us)
        elif isinstance(event, Multicast):
            self._multicast(event, now_us)
        elif isinstance(event, Promise):
            self._originate(event.update, now_us)
        elif isinstance(event, MulticastControl):
            self._multicast_control(event.message, now_us)
        elif isinstance(event, StreamChanged):
            self._stream_changed(event, now_us)
        elif isinstance(event, MulticastLoose):
            self._multicast_loose(event, now_us)
        elif isinstance(event, PingLinks):
            self._ping_links(now_us)
        out, self._out = self._out, []
        return out

    # Down: from the layer above to the links.

    def _multicast(self, event: Multicast, now_us: int) -> None:
        assert len(event.bundle) <= self.options.bundle_bytes_max, "check the size where the bundle is made"
        self.stamps.put(event.session, event.mask, event.bundle)
        self._holders_queued = self._holders_queued or event.waits_for_holders
        self._step_ring(Wish(), now_us)

    def _multicast_loose(self, event: MulticastLoose, now_us: int) -> None:
        """Submits an Unreliable bundle to the links at once, and hands it up here."""
        assert len(event.bundle) <= self.options.bundle_bytes_max, "check the size where the bundle is made"
        self._schedule_clock(event, now_us)
        fragments = self._loose_out.cut(event.mask, event.bundle)
        self._out.append(ReceiveLoose(self.own.me, self._loose_out.number, event.bundle))
        for fragment in fragments:
            self._route_loose(Originate(fragment), now_us)

    def _schedule_clock(self, event: MulticastLoose, now_us: int) -> None:
        self._clock_goal_lts = max(self._clock_goal_lts, event.lts)
        if event.hurry:
            self._clock_due_us = now_us
        elif self._clock_due_us == NEVER and event.lts > self.stamps.clock:
            self._clock_due_us = now_us + self.options.loose_clock_us
        self._wake_loose()

    def _tick_loose(self, now_us: int) -> None:
        self.loose.expire(now_us)
        if self._clock_due_us <= now_us:
            self._clock_due_us = NEVER
            if self._clock_goal_lts > self.stamps.clock:
                self.stamps.heard(self._clock_goal_lts)
                self._step_ring(Wish(), now_us)
        self._wake_loose()

    def _multicast_control(self, message: bytes, now_us: int) -> None:
        self._serial += 1
        size = self.stamps.object_bytes_max
        for control in cut_control(self.network.site, self.own.me, self._serial, message, size):
            self._originate(control, now_us)

    def _ping_links(self, now_us: int) -> None:
        for daemon, pinging in self._pings.items():
            link = self._link(daemon)
            # A PING must not fail a link whose queue is nearly full.
            if link is not None and 2 * link.backlog_bytes < link.backlog_bytes_max:
                submit = Submit(encode_ping(pinging.ping(now_us)), urgent=True)
                self._handle_link(daemon, link, link.step(submit, now_us), now_us)

    def _link(self, daemon: DaemonId) -> Link | None:
        link = self.links.get(daemon)
        return self.spares.get(daemon) if link is None else link

    def _originate(self, item: Update | Control, now_us: int) -> None:
        for output in self.network.step(Originate(item)):
            self._handle_routed(output, now_us)

    def _visit(self, visit: Visit, now_us: int) -> None:
        """Stamps bundles, forwards their fragments to other sites and answers the ring with `Release`.

        This daemon receives its own bundle when it is stamped, even if some fragments leave in later visits.
        """
        if self.failed:
            return
        ring_objects: list[bytes] = []
        options = self.ring.options
        space = VisitSpace(visit.local_segments, options.packet_bytes, options.chunk_bytes)
        reserve = partial(self._reserve, space, ring_objects)
        stamped = self.stamps.visit(visit.site_seq, visit.site_lts, reserve)
        for meta, bundle in stamped.bundles:
            self._out.append(Receive(meta.source, meta.seq, meta.lts, meta.mask, bundle, meta.prev, True))
        for fragment in stamped.fragments:
            for output in self.network.forward_own(fragment):
                self._handle_routed(output, now_us)
        release = Release(
            stamped.site_seq,
            stamped.site_lts,
            self.local_aru,
            tuple(ring_objects),
            self.stamps.busy,
            self._holders_queued or self.waits_for_holders,
            self.resilient_lts,
        )
        self._holders_queued = self._holders_queued and self.stamps.busy
        self._last_stamped = stamped
        self._step_ring(release, now_us)

    def _reserve(self, space: VisitSpace, ring_objects: list[bytes], fragment: Routed) -> bool:
        """Reserves space for a fragment in this visit and adds its object for the ring; False if it is full."""
        whole_bytes = FRAGMENT_OVERHEAD_BYTES + len(fragment.chunk)
        part = self.network.ring_part(fragment)
        if part is fragment:  # Encoded only if it leaves.
            reserved = space.reserve(whole_bytes, whole_bytes)
            if reserved:
                ring_objects.append(encode_item(part))
            return reserved
        meta = b"" if part is None else encode_item(part)
        reserved = space.reserve(whole_bytes, len(meta))
        if reserved and meta:
            ring_objects.append(meta)
        return reserved

    def _to_ring(self, item: Item, now_us: int) -> None:
        urgent = isinstance(item, (Update, Control))
        if self.ring.urgent_open if urgent else self.ring.transit_open:
            self._step_ring(Submit(encode_item(item), urgent=urgent), now_us)
        else:
            self._fail(Failed.of_load("the ring does not keep up with the data from other sites"), now_us)

    # Up: from the links to the layer above.

    def _packet_received(self, packet: Packet, now_us: int) -> None:
        try:
            self._check(packet.header)
            for frame in packet.frames:
                self._frame_received(packet.header, frame, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1

    def _check(self, header: Header) -> None:
        sender = header.sender
        if sender not in self._incarnations or sender == self.own.me:
            raise PeerError(Drop.FOREIGN_SENDER, f"daemon {sender} is no other member")
        if header.generation != self.own.generation:
            raise PeerError(Drop.STALE_GENERATION, f"generation {header.generation:#x}")
        known = self._incarnations[sender]
        if known is None:
            self._incarnations[sender] = header.incarnation
        elif header.incarnation != known:
            raise PeerError(Drop.STALE_INCARNATION, f"daemon {sender} of another start")

    def _frame_received(self, header: Header, frame: Frame, now_us: int) -> None:
        if header.family is Family.RING and isinstance(frame, (Token, Data, Segment, Held, Hurry)):
            if isinstance(frame, Token):
                self.stamps.check_token(frame.site_seq, frame.site_lts)
            self._step_ring(FromMember(header.sender, frame), now_us)
        elif isinstance(frame, Loose):
            self._loose_received(header, frame, now_us)
        elif header.family is Family.HOP:
            link = self._link(header.sender)
            if link is None or header.sender in self._streams:
                raise PeerError(Drop.FOREIGN_SENDER, f"no link of datagrams with daemon {header.sender}")
            self._handle_link(header.sender, link, link.step(frame, now_us), now_us)
        else:
            raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on {header.family.name}")

    def _loose_received(self, header: Header, frame: Loose, now_us: int) -> None:
        """LOOSE frames are not acknowledged, so a bad one is dropped like any bad frame."""
        origin: Callable[[Item], RoutingInput] = FromRing
        if header.family is Family.HOP and header.sender in self.links and header.sender not in self._streams:
            origin = partial(FromLink, header.sender)
        elif header.family is not Family.RING or header.sender not in self.network.ring:
            raise PeerError(Drop.FOREIGN_SENDER, f"LOOSE on {header.family.name} from daemon {header.sender}")
        items = [decode_unreliable(kind, body) for kind, body in split_objects(frame.payload)]
        for item in items:
            self._route_loose(origin(item), now_us)

    def _route_loose(self, event: RoutingInput, now_us: int) -> None:
        """Routes an Unreliable fragment; no link fails because of it."""
        for output in self.network.step(event):
            if isinstance(output, ToLink) and isinstance(output.item, Unreliable):
                link = self.links[output.neighbour]
                submit = Submit(encode_unreliable(output.item), loose=True)
                self._handle_link(output.neighbour, link, link.step(submit, now_us), now_us)
            elif isinstance(output, ToRing) and isinstance(output.item, Unreliable):
                self._step_ring(Submit(encode_unreliable(output.item), loose=True), now_us)
            elif isinstance(output, Up) and isinstance(output.item, Unreliable):
                self._up_loose(output.item, now_us)

    def _up_loose(self, item: Unreliable, now_us: int) -> None:
        try:
            bundle = self.loose.receive(item, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
            return
        self._wake_loose()
        if bundle is not None:
            self._out.append(ReceiveLoose(item.daemon, item.number, bundle))

    def _wake_loose(self) -> None:
        """Notes when the next Unreliable bundle is given up, or the clock has to advance because of one."""
        self._wakes_at_us[NOBODY] = min(self.loose.wake_at_us, self._clock_due_us)

    def _deliver(
        self,
        payload: bytes,
        origin: Callable[[Item], RoutingInput],
        now_us: int,
        neighbour: DaemonId = NOBODY,
    ) -> None:
        """Routes the objects of a packet. Its link has acknowledged it, so a bad one fails the network."""
        try:
            for kind, body in split_objects(payload):
                if kind == _UNRELIABLE:  # On a TCP link they travel among the others.
                    self._route_loose(origin(decode_unreliable(kind, body)), now_us)
                    continue
                if kind == _PING:
                    self._pinged(neighbour, body, now_us)
                    continue
                for output in self.network.step(origin(decode_item(kind, body))):
                    self._handle_routed(output, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
            self._fail(Failed(f"a neighbour breaks the protocol: {error}"), now_us)

    def _pinged(self, neighbour: DaemonId, body: memoryview, now_us: int) -> None:
        pinging = self._pings.get(neighbour)
        if pinging is None:
            raise PeerError(Drop.UNKNOWN_TYPE, "PING where nothing is measured")
        pinging.heard(decode_ping(body), now_us)

    def _up(self, item: Item) -> None:
        """Hands an item up; a stamp out of reach, which the order refuses, does not raise the clock."""
        if isinstance(item, (Routed, Meta, Update)) and max(item.lts, item.seq) > NUMBER_MAX:
            raise PeerError(Drop.OUT_OF_WINDOW, f"bundle {item.seq} with stamp {item.lts}")
        if isinstance(item, Update):
            self.stamps.follow(item.lts - 1)
            self._out.append(Promised(item))
        elif isinstance(item, Control):
            message = self._control_parts.add(control_fragment(item))
            if message is not None:
                self._out.append(ReceiveControl(item.daemon, bytes(message)))
        elif isinstance(item, Meta):
            self.stamps.follow(item.lts)
            self._out.append(Receive(item.source, item.seq, item.lts, item.mask, None, item.prev))
        elif isinstance(item, Routed):
            if not self.stamps.follow(item.lts) and item.count > 1:
                raise PeerError(Drop.OUT_OF_WINDOW, f"fragment with stamp {item.lts}")
            bundle = self._reassembly.add(item)
            if bundle is not None:
                self._out.append(Receive(item.source, item.seq, item.lts, item.mask, bundle, item.prev))

    # Steps of the links and the ring, and their outputs.

    def _tick(self, now_us: int) -> None:
        for daemon, link in self.links.items():
            due = self._wakes_at_us[daemon] <= now_us or link.early_tick_at_us <= now_us
            if due and not self.failed:
                self._handle_link(daemon, link, link.step(Tick(), now_us), now_us)
        for daemon, link in self.spares.items():
            due = self._wakes_at_us[daemon] <= now_us or link.early_tick_at_us <= now_us
            if due and not self.failed:
                self._handle_link(daemon, link, link.step(Tick(), now_us), now_us)
        if self._wakes_at_us[self.own.me] <= now_us and not self.failed:
            self._step_ring(Tick(), now_us)
        if self._wakes_at_us.get(NOBODY, NEVER) <= now_us and not self.failed:
            self._tick_loose(now_us)

    def _stream_changed(self, change: StreamChanged, now_us: int) -> None:
        link = self._link(change.neighbour)
        expected = change.generation == self.own.generation and change.neighbour in self._streams
        if link is not None and expected:
            self._handle_link(change.neighbour, link, link.step(change.event, now_us), now_us)

    def _handle_link(self, daemon: DaemonId, link: Link, outputs: Sequence[LinkOutput], now_us: int) -> None:
        self._wakes_at_us[daemon] = link.wake_at_us
        for output in outputs:
            if isinstance(output, Transmit):
                self._out.append(SendTo(daemon, Family.HOP, output.frames))
            elif isinstance(output, StreamWrite):
                self._out.append(WriteTo(daemon, output.data))
            elif isinstance(output, StreamObserve):
                self._out.append(ObserveStream(daemon))
            elif isinstance(output, Deliver):
                self._deliver(output.payload, partial(FromLink, daemon), now_us, daemon)
            elif isinstance(output, LinkFailed) and daemon in self.links:
                # A failed link that no tree uses does not harm the network.
                self._fail(Failed.of_link(output, daemon), now_us)

    def _step_ring(self, event: rings.Input, now_us: int) -> None:
        outputs = self.ring.step(event, now_us)
        self._wakes_at_us[self.own.me] = self.ring.wake_at_us
        for output in outputs:
            if isinstance(output, Visit):
                self._visit(output, now_us)
            elif isinstance(output, TransmitTo):
                self._out.append(SendTo(output.member, Family.RING, output.frames))
            elif isinstance(output, Passed):
                stamped = self._last_stamped
                assert stamped is not None, "a token passes on only after its visit"
                self._out.append(Visited(stamped.site_seq, stamped.site_lts, output.site_aru, output.lines))
            elif isinstance(output, Deliver):
                self._deliver(output.payload, FromRing, now_us)
            elif isinstance(output, Transmit):
                self._out.append(SendSite(output.frames))
            elif isinstance(output, LinkFailed):
                self._fail(Failed.of_ring(output, self.ring.suspect), now_us)

    def _handle_routed(self, output: RoutingOutput, now_us: int) -> None:
        if isinstance(output, ToLink):
            item = output.item
            if self._encoded_item is not item:
                self._encoded_item, self._encoded = item, encode_item(item)
            submit = Submit(self._encoded, isinstance(item, (Update, Control)), lazy=isinstance(item, Meta))
            link = self.links[output.neighbour]
            self._handle_link(output.neighbour, link, link.step(submit, now_us), now_us)
        elif isinstance(output, ToRing):
            self._to_ring(output.item, now_us)
        elif isinstance(output, Up):
            self._up(output.item)
        elif isinstance(output, NetworkFailed):
            self._out.append(output)

    def _fail(self, failed: Failed, now_us: int) -> None:
        for output in self.network.step(failed):
            self._handle_routed(output, now_us)
