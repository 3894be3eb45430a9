"""The token: what the site that has it does now, and what the site that passed it waits for (paper 4.2, 1.4).

Implements  ACK, NULL ACK, New List and Confirm; the last rotation and the rotations at rest (traps 5, 6).
Invariants  only the site that the highest ordering of the epoch names orders, once it has everything up to
            it; it does so once; no Confirm before that (trap 8).
Deviations  who leaves is named next by the list without it: by its acceptance others know that it has
            everything before its leave, and its slots become stable. A site that was confirmed is watched by
            the one before it, so that a quiet ring notices that its token site died.
"""

from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.links.timing import RoundTrip, clamp, stamp_of
from hopring.rmp.delivery import Delivery
from hopring.rmp.lists.changes import changed, is_old
from hopring.rmp.order.slots import Ordering
from hopring.rmp.retry import Retry
from hopring.rmp.state import PeerRingState, RingPhase, earliest
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import (
    TUPLES_MAX,
    AckPacket,
    ConfirmPacket,
    ListChange,
    ListChangeRequest,
    NewListKind,
    NewListPacket,
    SyncPoint,
)

PENDING_MAX = 256
"""The most requests of other processes that wait here to be ordered."""

WATCH_SLACK = 4
"""A token site at rest is asked again so many first timers after it should have passed the token."""


@dataclass(slots=True)
class TokenRole:
    """The token, as this member has it or has passed it."""

    state: PeerRingState
    delivery: Delivery
    pending: dict[PeerProcess, ListChangeRequest] = field(default_factory=dict)
    accepted: int = -1  # The timestamp of the ordering by which the token came last.
    accepted_at_us: int = NEVER
    confirmed: int = -1  # The timestamp of the last own pass whose acceptance is known.
    passed_at_us: int = 0
    pass_retry: Retry = field(init=False)
    hurry: bool = False  # The token is passed at once, so that all learn of a list of this member.
    round_trip: RoundTrip = field(init=False)  # From a pass to the answer of the next site.
    repeated: bool = False  # The last pass was sent more than once.
    expired_us: int = 0  # A timer that was too short, doubled; until a round trip is measured again.
    watch_at_us: int = NEVER  # A confirmed site is asked again if nobody orders until then.

    def __post_init__(self) -> None:
        self.pass_retry = Retry(self.state.options.first_us, self.state.options.clamp_us)
        self.round_trip = RoundTrip(self.state.options.first_us)

    def begin(self) -> None:
        """An epoch begins: earlier passes are of the past."""
        self.accepted = self.confirmed = -1
        self.accepted_at_us = self.watch_at_us = NEVER
        self.pass_retry.stop()
        self.pending.clear()
        self.hurry = False

    @property
    def here(self) -> bool:
        """Whether this is the token site."""
        if self.state.epoch_state is None or self.state.frozen:
            return False
        queue = self.state.epoch.queue
        return queue.highest.next == self.state.me and queue.complete

    @property
    def passing(self) -> bool:
        """Whether this member passed the token, and the next site has not shown that it accepted."""
        if self.state.epoch_state is None or self.state.frozen:
            return False
        highest = self.state.epoch.queue.highest
        mine = highest.source == self.state.me and highest.next != self.state.me
        return mine and self.confirmed < highest.timestamp

    def keep_request(self, request: ListChangeRequest) -> None:
        """Keeps a request until it is in the order; the latest of each process."""
        known = self.pending.get(request.source)
        if known is None and len(self.pending) >= PENDING_MAX:
            return
        if known is None or known.number < request.number:
            self.pending[request.source] = request

    def order(self, now_us: int) -> Ordering | None:
        """The ordering that this token site makes now, if it is time for one."""
        if not self.here:
            return None
        highest = self.state.epoch.queue.highest
        if self.accepted != highest.timestamp:
            self.accepted, self.accepted_at_us = highest.timestamp, now_us
            packet = self._due(now_us)
            if packet is None and highest.source != self.state.me:
                self.confirm(highest)
            return packet
        return self._due(now_us)

    def confirm(self, ordering: Ordering) -> None:
        """Tells the site that named this one that the token was accepted."""
        consecutive = self.state.epoch.queue.consecutive
        confirm = ConfirmPacket(self.state.me, ordering.timestamp, consecutive)
        self.state.unicast(confirm, ordering.source)

    def _due(self, now_us: int) -> Ordering | None:
        request = self._next_request()
        if request is not None:
            return self._new_list(request)
        if now_us < self.due_at_us():
            return None
        ordered = self.state.data.orderable(TUPLES_MAX)
        return AckPacket(self.state.me, self._timestamp, self.state.follower(), ordered)

    @property
    def _timestamp(self) -> int:
        return self.state.epoch.queue.highest.last + 1

    def due_at_us(self) -> int:
        """When the token site sends its next ACK, with what is here now."""
        if self.hurry or self.state.my_member is None or self._next_request() is not None:
            return 0  # Who has left passes the token at once.
        waiting = len(self.state.data.orderable(2))
        if waiting:
            return 0 if waiting == 1 else self.accepted_at_us + self.state.options.ack_delay_us
        if self.delivery.waits_publicly():
            return 0
        return self.accepted_at_us + self._hold_us()

    def _hold_us(self) -> int:
        """How long the token rests at a site with nothing to order."""
        options = self.state.options
        if options.rest_us:
            return options.rest_us // len(self.state.present)
        return options.null_us if self._unstable() else NEVER

    def _unstable(self) -> bool:
        """Whether some member may lack a packet or a list, as far as all know."""
        epoch = self.state.epoch
        queue, lists = epoch.queue, epoch.lists
        return any(
            slot.packet is not None
            and not isinstance(slot.packet, AckPacket)
            and epoch.holders.stable_line(lists.at(slot.timestamp), lists.lost) < slot.timestamp
            for slot in queue.slots.values()
        )

    def _next_request(self) -> ListChangeRequest | None:
        """The first pending request that is not carried out yet; drops those that are."""
        if self.state.my_member is None:
            return None
        for source, request in list(self.pending.items()):
            if is_old(self.state.present, request) or request.number <= self.state.gone.get(source, 0):
                del self.pending[source]
            else:
                return request
        return None

    def _new_list(self, request: ListChangeRequest) -> NewListPacket:
        del self.pending[request.source]
        state = self.state
        strangers = state.stranger_entries(flush=request.change is ListChange.FLUSH)
        lines = state.data.ordered
        members = changed(state.present, request, state.me, self._timestamp, lines, strangers)
        named = self._named_by(members, request)
        told = state.gone_lines() if request.change is ListChange.JOIN else SyncPoint(0)
        settled = state.epoch.delivered if state.installed is not None else 0
        return NewListPacket(NewListKind.ORDERED, state.me, named, members, told, settled)

    def _named_by(self, members: PeerList, request: ListChangeRequest) -> PeerProcess:
        """Who is next: a joiner stands there, a leaver proves that it has everything; or it was this site."""
        me = self.state.me
        if request.change is ListChange.LEAVE and request.source != me:
            return request.source
        ring = members.processes if me in members else self.state.present.processes
        following = ring[(ring.index(me) + 1) % len(ring)]
        return following if following in members else me

    # Passed.

    def passed(self, ordering: Ordering, now_us: int) -> None:
        """This member has made an ordering, and waits until the next site shows itself."""
        self.watch_at_us = NEVER
        self.hurry = self.repeated = False
        self.pass_retry.stop()
        if ordering.next != self.state.me:
            self.passed_at_us = now_us
            joins = isinstance(ordering, NewListPacket)
            self.pass_retry.restart(now_us, self.state.options.join_us if joins else self._timer_us())

    def _timer_us(self) -> int:
        """The first timer of a pass: the round trip and four times its deviation, within bounds (paper 4.6)."""
        options = self.state.options
        measured = self.round_trip.smoothed_us + 4 * self.round_trip.deviation_us
        return clamp(max(measured, self.expired_us), options.first_us, max(options.clamp_us, options.first_us))

    def _answered(self, now_us: int) -> None:
        """The next site has accepted the token; a pass that was repeated gives no sample (Karn)."""
        if self.pass_retry.running:
            longer_us = min(2 * self._timer_us(), self.state.options.clamp_us)
            self.expired_us = longer_us if self.repeated else 0
            if not self.repeated:
                self.round_trip.sample(stamp_of(self.passed_at_us), 0, now_us)
        self.pass_retry.stop()

    def on_confirm(self, packet: ConfirmPacket, now_us: int) -> None:
        """The next site has accepted the token; in a ring that rotates at rest it is watched from here on."""
        highest = self.state.epoch.queue.highest
        if packet.timestamp != highest.timestamp or packet.source != highest.next:
            return
        self.confirmed = highest.timestamp
        self._answered(now_us)
        if self.state.phase is RingPhase.SERVING:
            self._learn_accepted(packet.source, highest.last)
        if self.state.options.rest_us:
            rest_us = self.state.options.rest_us // len(self.state.present)
            self.watch_at_us = now_us + rest_us + WATCH_SLACK * self.state.options.first_us

    def _learn_accepted(self, site: PeerProcess, timestamp: int) -> None:
        """A leaver need not wait until this site orders: who accepts the token has everything."""
        epoch = self.state.epoch
        member = epoch.lists.membership(site)
        if member is not None:
            epoch.holders.learn(member, timestamp)

    def heard(self, sender: PeerProcess, now_us: int) -> None:
        """Whoever is heard is slow at most, and that has its limit (trap 8)."""
        if not self.pass_retry.running or now_us >= self.passed_at_us + self.state.options.slow_us:
            return
        if sender == self.state.epoch.queue.highest.next:
            self.pass_retry.tries = 0

    def settle(self, now_us: int) -> None:
        """Stops what a new ordering has answered, and asks a watched site again."""
        highest = self.state.epoch.queue.highest
        if highest.source != self.state.me:
            self._answered(now_us)
            self.watch_at_us = NEVER
        elif now_us >= self.watch_at_us:
            self.watch_at_us = NEVER
            self.confirmed = -1
            self.passed_at_us = now_us
            self.pass_retry.restart(now_us)
            self.send_again()

    def send_again(self) -> None:
        """Sends the last own ordering once more; a joiner may hear no multicast yet."""
        self.repeated = True
        highest = self.state.epoch.queue.highest
        also = (highest.next,) if isinstance(highest, NewListPacket) else ()
        self.state.multicast(highest, also)

    @property
    def wake_at_us(self) -> int:
        """When the token wants the next tick."""
        if self.state.epoch_state is None or self.state.frozen:
            return NEVER
        due_us = self.due_at_us() if self.here and self.state.phase is not RingPhase.OUT else NEVER
        return earliest(due_us, self.pass_retry.due_us, self.watch_at_us)
