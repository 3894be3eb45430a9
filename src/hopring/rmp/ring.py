"""One group of RMP at one of its members: joins, orders, delivers, and recovers.

Implements  Whetten, Montgomery, Kaplan, 4.2 to 4.4, with the roles of a site; docs/protocols/rmp.md.
Below       a driver, which sends packets and gives back what arrives.
Above       the groups of a process (events.py has the vocabulary).
Invariants  a step that raises PeerError has changed nothing. Each step ends with the same pass over the parts:
            match, deliver, order, ask, send; so no event is handled in two ways.
Deviations  docs/protocols/rmp.md has all of them. One ring object serves a process and a group for the life of
            the process: numbers of packets and requests rise over its stays.
"""

from dataclasses import dataclass, field
from typing import assert_never

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.rmp.absorbing import DIRECT, Absorbing
from hopring.rmp.asking import Asking
from hopring.rmp.calls.clients import ClientCalls
from hopring.rmp.claims import RingClaims
from hopring.rmp.delivery import Delivery
from hopring.rmp.events import (
    ClaimRingLock,
    JoinRing,
    LeaveRing,
    PacketArrived,
    ReleaseRingLock,
    RemovedFromRing,
    RingInput,
    RingLeft,
    RingOutput,
    RingStalled,
    SubmitData,
    SubmitReply,
)
from hopring.rmp.intake import Intake
from hopring.rmp.joining import Joiner
from hopring.rmp.options import PeerRingOptions
from hopring.rmp.order.data_list import DataList
from hopring.rmp.order.slots import Ordering
from hopring.rmp.outgoing import OwnData
from hopring.rmp.recovery.attempt import RingAttempt
from hopring.rmp.recovery.commit import commit_list
from hopring.rmp.recovery.recovery import RingRecovery
from hopring.rmp.requests import OwnRequests
from hopring.rmp.snapshot import PeerRingSnapshot
from hopring.rmp.state import PeerRingState, RandomNumbers, RingPhase, earliest
from hopring.rmp.token import TokenRole
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.packets import (
    AbortReason,
    AckPacket,
    ConfirmPacket,
    DataPacket,
    ListChange,
    ListChangeRequest,
    NackPacket,
    NewListKind,
    NewListPacket,
    NonMemberData,
    RecoveryAbort,
    RecoveryAckNewList,
    RecoveryPacket,
    RecoveryStart,
    RecoveryVote,
    SyncPoint,
)

REQUESTS_A_STEP_MAX = 8
"""The most passes of one step: a list that it shows may bring requests of this member."""

QUIET_ROTATIONS = 2
"""A ring that does not order for so many rotations at rest, and twice the tries of a packet, has failed."""

ORDERINGS_A_STEP_MAX = 64
"""The most ACKs that one step makes: a ring of one member passes the token to itself."""


@dataclass(slots=True)
class GroupRing:
    """One group at one member."""

    state: PeerRingState
    own: OwnData
    delivery: Delivery
    intake: Intake
    token: TokenRole
    asking: Asking
    requests: OwnRequests
    joiner: Joiner
    claims: RingClaims
    clients: ClientCalls
    recovery: RingRecovery
    absorbing: Absorbing
    leave_wanted: bool = False
    serve_until_us: int = NEVER
    serve_line: int = 0  # What was delivered up to the own leave: others need it from this member, too.
    _progress: bool = field(default=False)

    @property
    def wake_at_us(self) -> int:
        """When the ring wants the next tick."""
        if self.state.epoch_state is None:
            return self.joiner.due_us
        return earliest(
            self.token.wake_at_us,
            self.recovery.wake_at_us,
            self._quiet_at_us,
            self.asking.retry.due_us,
            self.own.retry.due_us,
            self.own.paced_until_us,
            self.requests.retry.due_us,
            self.serve_until_us,
        )

    @property
    def serving(self) -> bool:
        """Whether others may need this member, also behind its leave."""
        return self.state.phase is not RingPhase.OUT

    @property
    def _quiet_at_us(self) -> int:
        """When a ring that rotates its token at rest is too quiet: nobody ordered for several rotations."""
        state = self.state
        if not state.options.rest_us or state.frozen or state.phase is not RingPhase.IN or self.token.here:
            return NEVER
        quiet_us = QUIET_ROTATIONS * state.options.rest_us + 2 * state.options.detection_us
        return state.epoch.last_pass_at_us + quiet_us

    @property
    def queue_open(self) -> bool:
        """Whether a `SubmitData` may come now."""
        return self.own.open

    @property
    def drained(self) -> bool:
        """Whether everything that was submitted has its place in the order."""
        return self.own.drained

    def snapshot(self) -> PeerRingSnapshot:
        """The state as one plain value."""
        state, epoch = self.state, self.state.epoch_state
        slots = {} if epoch is None else epoch.queue.slots
        return PeerRingSnapshot(
            state.phase,
            state.group,
            None if epoch is None else epoch.epoch,
            () if epoch is None else epoch.lists.present.processes,
            () if state.installed is None else state.installed.processes,
            self.recovery.attempt.phase,
            self.recovery.attempt.ballot if self.recovery.under_way else None,
            self.recovery.attempt.suspended,
            self.token.here,
            self.token.passing,
            0 if epoch is None else epoch.queue.consecutive,
            0 if epoch is None else epoch.delivered,
            len(slots),
            len(state.data.packets),
            bool(state.data.orderable(1)),
            len(self.own.queue),
            len(self.own.unordered),
            sum([slot.by is slot.packet for slot in slots.values()]),
            0 if epoch is None else epoch.queue.front - 1,
            self.own.flow.snapshot(),
            () if epoch is None else tuple([one for one in state.data.packets if one in epoch.queue.place]),
        )

    def step(self, event: RingInput, now_us: int) -> list[RingOutput]:
        """Takes one event and returns its effects; a wrong packet raises PeerError and changes nothing."""
        self.state.outputs = []
        if isinstance(event, PacketArrived):
            self._packet(event, now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, SubmitData):
            assert self.own.open, "look at queue_open before SubmitData"
            self.own.queue.append(event)
        elif isinstance(event, JoinRing):
            self._join(event, now_us)
        elif isinstance(event, LeaveRing):
            self.leave_wanted = True
        elif isinstance(event, RingStalled):
            self._stalled(event.for_us, now_us)
        elif isinstance(event, ClaimRingLock):
            self.claims.claim(event)
        elif isinstance(event, ReleaseRingLock):
            self.claims.release(event)
        elif isinstance(event, SubmitReply):
            self.clients.reply(event)
        else:
            assert_never(event)
        out: list[RingOutput] = []
        for _ in range(REQUESTS_A_STEP_MAX):
            self._settle(now_us)
            outputs, self.state.outputs = self.state.outputs, []
            out += self.clients.follow(self.claims.follow(outputs))
            self.claims.settle()
            if not self.requests.unsent:
                break
        return out

    # Requests of the process.

    def _join(self, event: JoinRing, now_us: int) -> None:
        assert self.state.phase in (RingPhase.OUT, RingPhase.SERVING), "a ring is joined once"
        self._end_stay()
        self.state.wish = event
        self.leave_wanted = False
        self.joiner.seq = self.own.last
        self.joiner.begin(now_us)

    def _ask_to_leave(self) -> None:
        """Asks for the leave that is wanted, once all own packets have a place: behind it they get none."""
        state = self.state
        member = state.phase is RingPhase.IN and state.my_member is not None and state.installed is not None
        if self.leave_wanted and member and not self.own.queue and not self.own.unordered:
            self.requests.leave()

    def _end_stay(self) -> None:
        self.state.renounce()
        self.recovery.clear()
        self.asking.retry.stop()
        self.own.retry.stop()
        self.own.paced_until_us = NEVER
        self.requests.clear()
        self.token.begin()
        self.serve_until_us = NEVER

    def _stalled(self, for_us: int, now_us: int) -> None:
        self.own.flow.stalled(now_us)
        self.token.round_trip.since_us = now_us
        for retry in (self.token.pass_retry, self.asking.retry, self.own.retry, self.requests.retry):
            retry.postpone(for_us)
        self.recovery.postpone(for_us)
        if self.state.epoch_state is not None:
            self.state.epoch.last_pass_at_us += for_us

    # Packets.

    def _packet(self, event: PacketArrived, now_us: int) -> None:
        packet = event.packet
        if isinstance(packet, ListChangeRequest):
            self._request(packet, event, now_us)
        elif isinstance(packet, NonMemberData):
            self._call(packet, now_us)
        elif self.state.epoch_state is None:
            self._packet_outside(event, now_us)
        elif event.epoch != self.state.epoch.generation:
            self._foreign(event, now_us)
        else:
            self._packet_inside(event, now_us)

    def _call(self, packet: NonMemberData, now_us: int) -> None:
        """A packet of a process that is not a member waits for its place like others."""
        found = self.clients.arrived(packet, self.token.here, now_us)
        if found is not None:
            self._data(found)

    def _packet_inside(self, event: PacketArrived, now_us: int) -> None:
        packet = event.packet
        if isinstance(packet, DataPacket):
            self._data(packet)
        elif isinstance(packet, AckPacket):
            self._ordering(packet, now_us)
        elif isinstance(packet, NewListPacket):
            self._new_list(packet, now_us)
        elif isinstance(packet, ConfirmPacket):
            self.token.on_confirm(packet, now_us)
        elif isinstance(packet, NackPacket):
            self.own.flow.nacked(self.asking.own_packets(packet), now_us)
            self.asking.answer(packet, now_us)
        elif isinstance(packet, RecoveryStart | RecoveryVote | RecoveryAckNewList | RecoveryAbort):
            self._recovery_packet(packet, now_us)
        self.token.heard(event.sender, now_us)

    def _data(self, packet: DataPacket) -> None:
        if packet.id.source == self.state.me:
            return
        if packet.service.loose:
            self.delivery.arrived_loose(packet)
            return
        queue = self.state.epoch.queue
        if queue.put(packet) if packet.id in queue.place else self.state.data.add(packet):
            self.delivery.arrived(packet)

    def _ordering(self, packet: Ordering, now_us: int) -> None:
        """An ACK or a New List of the order, for the first time or again."""
        epoch = self.state.epoch
        if epoch.queue.is_new(packet):
            if packet.source == self.state.me:
                raise PeerError(Drop.FOREIGN_SENDER, "an ordering in the own name")
            self._add_ordering(packet, now_us)
        elif packet.next == self.state.me and packet.timestamp <= self.token.accepted:
            self.token.confirm(packet)

    def _add_ordering(self, packet: Ordering, now_us: int) -> None:
        epoch = self.state.epoch
        epoch.queue.add(packet)
        epoch.last_pass_at_us = epoch.ordered_at_us = now_us
        if isinstance(packet, AckPacket):
            for one in packet.ordered:
                if one.source == self.state.me:
                    self.own.flow.acknowledged(one.seq, now_us)
                found = self.state.data.take(one)
                if found is not None:
                    epoch.queue.put(found)
        self._progress = True

    def _new_list(self, packet: NewListPacket, now_us: int) -> None:
        if packet.kind is NewListKind.ORDERED:
            if packet.list.id.epoch != self.state.epoch.epoch:
                raise PeerError(Drop.INCONSISTENT, "a New List of another epoch than its header")
            self._ordering(packet, now_us)

        elif packet.kind is NewListKind.RECOVERED:
            self.recovery.new_list(packet, now_us)

    def _recovery_packet(self, packet: RecoveryPacket, now_us: int) -> None:
        if self.state.phase is RingPhase.IN:
            self.recovery.packet(packet, now_us)
        elif isinstance(packet, RecoveryStart):
            self.state.frozen = True  # Who has left answers, and orders nothing more.
            self._tell_left(packet, self.state.epoch.generation)

    def _tell_left(self, packet: RecoveryStart, generation: int) -> None:
        """This process was in the list that recovers, and has nothing of it any more."""
        left = RecoveryAbort(packet.ballot, self.state.me, AbortReason.LEFT, self.state.version)
        self.state.unicast(left, packet.ballot.process, generation)

    def _packet_outside(self, event: PacketArrived, now_us: int) -> None:
        packet = event.packet
        if isinstance(packet, NewListPacket):
            if packet.kind is NewListKind.INFORMS:
                self.joiner.on_answer(packet)
            elif self.joiner.accepts(packet):
                self._enter(packet, now_us)
        elif isinstance(packet, RecoveryStart) and event.epoch in self.state.left:
            self._tell_left(packet, event.epoch)

    def _foreign(self, event: PacketArrived, now_us: int) -> None:
        """A packet of another epoch: of a list to be committed, of the past, or of another ring."""
        packet = event.packet
        promise = self.recovery.attempt.last_promise
        if promise is not None and self.recovery.is_commit(event):
            self._commit(promise, now_us)
            self._packet(event, now_us)
        elif self.state.phase is not RingPhase.IN:
            return
        elif isinstance(packet, RecoveryStart):
            if packet.ballot.process in self.state.present:
                self._inform(packet.ballot.process)
            else:
                self.recovery.answer_stranger(packet, event)
        elif isinstance(packet, NewListPacket) and packet.kind is NewListKind.INFORMS:
            if self.absorbing.leaves_for(packet.list, self.recovery.attempt.suspended):
                self.joiner.known = packet.list
                self._removed()
        else:
            self.absorbing.heard(event.sender, now_us)

    def _request(self, packet: ListChangeRequest, event: PacketArrived, now_us: int) -> None:
        if packet.source == self.state.me:
            return
        if packet.change is ListChange.WHO:
            self.joiner.on_who(packet)
            if self._answers_who(packet, now_us):
                self._inform(packet.source)
            if packet.serial == DIRECT and self.state.phase is RingPhase.IN:
                self.absorbing.heard(packet.source, now_us)  # Its multicasts may not be heard here.
            return
        if self.state.epoch_state is None or event.epoch != self.state.epoch.generation:
            return
        self.token.keep_request(packet)
        if self.state.frozen and packet.change is ListChange.JOIN:
            self._send_list_again(packet)

    def _send_list_again(self, request: ListChangeRequest) -> None:
        """A joiner has not got its list, and the ring waits for a majority, in which the joiner counts."""
        for slot in self.state.epoch.queue.slots.values():
            packet = slot.packet
            if isinstance(packet, NewListPacket) and packet.next == request.source:
                member = packet.list.member(request.source)
                if member is not None and member.joined == request.number:
                    self.state.unicast(packet, request.source)

    def _works(self, now_us: int) -> bool:
        """Whether this ring orders, as far as can be seen: others may join it."""
        options = self.state.options
        quiet_us = QUIET_ROTATIONS * options.rest_us + 2 * options.detection_us
        recent = now_us < self.state.epoch.ordered_at_us + quiet_us
        return not self.state.frozen and (recent or not options.rest_us)

    def _answers_who(self, packet: ListChangeRequest, now_us: int) -> bool:
        """The token site answers, and one other member: another one for each question (trap 6)."""
        if self.state.phase is not RingPhase.IN:
            return False
        members = self.state.present
        if self.token.here or self.token.passing:
            return True
        if packet.serial == DIRECT:
            return self._works(now_us)
        return members.processes[packet.number % len(members)] == self.state.me

    def _inform(self, to: PeerProcess) -> None:
        epoch, members = self.state.epoch, self.state.present
        sync = SyncPoint(epoch.queue.consecutive)
        named = epoch.queue.highest.next  # Nobody acts on it: it tells where the token is.
        informs = NewListPacket(NewListKind.INFORMS, self.state.me, named, members, sync)
        self.state.unicast(informs, to)

    def _enter(self, packet: NewListPacket, now_us: int) -> None:
        """This process is in a list from here on: it joined a ring, or has founded one."""
        self.token.begin()
        self.state.adopt(packet, now_us)
        if packet.source != self.state.me:
            self.state.epoch.lists.origin = self.joiner.list_before(packet.list)
            # It has not heard what waits for a place: it leaves that to the next one.
            self.token.hurry = True
            self.state.learn_gone(packet.sync)
        self.state.phase = RingPhase.IN
        self.delivery.begin(packet.list)
        self.joiner.due_us, self.joiner.asked = NEVER, {}
        self.intake.learn(packet)

    # Timers.

    def _tick(self, now_us: int) -> None:
        if self.state.epoch_state is None:
            founded = self.joiner.tick(now_us)
            if founded is not None:
                self.absorbing.note_founded()
                self._enter(founded, now_us)
            return
        if self.state.frozen:
            self.recovery.tick(now_us)
        else:
            self._tick_retries(now_us)
        if now_us >= self.serve_until_us:
            self._end_stay()

    def _tick_retries(self, now_us: int) -> None:
        """Sends again what got no answer; after `tries_max` times a recovery begins."""
        most = self.state.options.tries_max
        if self.token.pass_retry.is_due(now_us):
            self.token.pass_retry.again(now_us)
            self.token.send_again()
        if self.asking.retry.is_due(now_us):
            self.asking.ask(now_us)
        if self.own.retry.is_due(now_us):
            self.own.send_again(now_us)
        if self.requests.retry.is_due(now_us) and self.requests.current is not None:
            self.requests.retry.again(now_us)
            self.state.multicast(self.requests.current)
        retries = (self.token.pass_retry, self.asking.retry, self.own.retry, self.requests.retry)
        if any(one.tries >= most for one in retries) or now_us >= self._quiet_at_us:
            self._fail(now_us)

    def _fail(self, now_us: int) -> None:
        """Tries are spent: a recovery begins; who should have accepted the token is a suspect."""
        if self.state.phase is not RingPhase.IN:
            self.state.frozen = True
            return
        named = self.state.epoch.queue.highest.next
        self.recovery.begin(now_us, {named} if self.token.pass_retry.running else set())

    # Recovery.

    def _commit(self, packet: NewListPacket, now_us: int) -> None:
        """The list of a recovery is in force, here as at all its members."""
        self.absorbing.note_lost(self.state.present, packet.list)
        commit_list(self.state, self.delivery, packet, now_us)
        self.recovery.clear()
        self.token.begin()
        self.token.hurry = packet.source == self.state.me
        for retry in (self.asking.retry, self.own.retry, self.requests.retry):
            retry.stop()

    def _removed(self) -> None:
        """Others went on without this member, or it leaves for a greater ring."""
        self.state.emit(RemovedFromRing(self.own.abandon()))
        self._end_stay()

    # The pass at the end of each step.

    def _settle(self, now_us: int) -> None:
        if self.state.in_epoch and self.state.frozen:
            self._settle_recovery(now_us)
        if self.state.in_epoch and not self.state.frozen:
            self._settle_order(now_us)

    def _settle_recovery(self, now_us: int) -> None:
        """Takes in what comes, and goes on with the attempt."""
        for retry in (self.token.pass_retry, self.asking.retry, self.own.retry, self.requests.retry):
            retry.stop()
        self.own.paced_until_us = NEVER
        self.intake.take_in()
        self._serve(now_us)
        if self.state.phase is not RingPhase.IN:
            return
        if self.state.my_member is None:  # The own leave is in the order: nobody waits for this member.
            self.state.phase = RingPhase.SERVING
            self.state.installed = None
            self.recovery.clear()
            self.state.emit(RingLeft())
            self._serve(now_us)
            return
        chosen = self.recovery.settle(now_us)
        if chosen is not None:
            self._commit(chosen, now_us)
        elif self.recovery.removed:
            self._removed()

    def _settle_order(self, now_us: int) -> None:
        """Delivers, orders if this is the token site, and sends what is due."""
        for _ in range(ORDERINGS_A_STEP_MAX):
            self.intake.take_in()
            if not self.state.present.members and self.state.phase is RingPhase.SERVING:
                self._end_stay()  # The last member has left: nobody needs anything.
                self.state.was_member = False
                return
            self._send_own(now_us)
            self._ask_to_leave()
            self.clients.settle(self.requests, self.token.here, now_us)
            request = self.requests.settle(now_us)
            if request is not None:
                self.token.keep_request(request)
                self.state.multicast(request)
            ordering = self.token.order(now_us)
            if ordering is None:
                break
            self._order(ordering, now_us)
        self._serve(now_us)
        if not self.state.in_epoch:
            return
        if self.state.phase is RingPhase.IN:
            self.absorbing.ask_lost(now_us)
        self.token.settle(now_us)
        self.asking.settle(now_us)
        self.own.watch(now_us, self._progress)
        self._progress = False

    def _send_own(self, now_us: int) -> None:
        """Sends own packets while the window is open."""
        self.own.paced_until_us = NEVER
        if self.state.frozen or self.state.phase is not RingPhase.IN or self.state.my_member is None:
            return
        if self.state.installed is None:
            return
        while (packet := self.own.next_packet(now_us)) is not None:
            self.state.multicast(packet)
            if packet.service.loose:
                self.delivery.arrived_loose(packet)
            elif self.state.data.add(packet):
                self.delivery.arrived(packet)

    def _order(self, ordering: Ordering, now_us: int) -> None:
        """Makes an ordering as the token site, and sends it."""
        self._add_ordering(ordering, now_us)
        joiner = ordering.next if isinstance(ordering, NewListPacket) else self.state.me
        self.state.multicast(ordering, (joiner,) if joiner != self.state.me else ())
        self.token.passed(ordering, now_us)
        self.intake.take_in()

    def _serve(self, now_us: int) -> None:
        """After the own leave: answers others until they have everything, or for so long at most."""
        if self.state.phase is not RingPhase.SERVING:
            return
        if self.serve_until_us == NEVER:
            self.serve_until_us = now_us + self.state.options.serve_us
            self.requests.clear()
            self.serve_line = self.state.epoch.delivered
        busy = (
            self.state.frozen or self.token.here or self.token.pass_retry.running or self.clients.owes_replies
        )
        if not busy and self.state.epoch.present_line >= self.serve_line:
            self._end_stay()


def open_ring(me: PeerProcess, group: str, options: PeerRingOptions, random: RandomNumbers) -> GroupRing:
    """A ring that nobody has joined yet; its process has one for each group, for life."""
    state = PeerRingState(me, group, options, random, DataList(options.data_per_source_max))
    own = OwnData(state)
    delivery = Delivery(state, own)
    requests = OwnRequests(state)
    clients = ClientCalls(state)
    return GroupRing(
        state,
        own,
        delivery,
        Intake(state, delivery, clients),
        TokenRole(state, delivery),
        Asking(state),
        requests,
        Joiner(state),
        RingClaims(state, requests),
        clients,
        RingRecovery(RingAttempt(state, delivery)),
        Absorbing(state),
    )
