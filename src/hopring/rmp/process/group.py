"""One group at one process: a ring below, and the one session of the process above.

Implements  what a group of daemons shows to its sessions, on a ring: lists become views, closing lists signals.
Below       a ring, which knows members and packets.
Above       `PeerGroups`, which has all groups of the process.
Invariants  requests of the session are carried out in their order; a leave waits until everything that the
            session has sent to the group has its place; what is sent has room in the ring.
Deviations  a process that sends to a group and has not joined it is a member without a name: it takes part in
            the ring, and views do not show it. A member that the others went on without comes back by itself:
            its session sees a signal and a view in which it is together with nobody, as after a split.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hopring.engine import Delivered
from hopring.errors import PeerError
from hopring.groups.events import (
    ClaimLock,
    DeliverBundle,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    LockEnded,
    LockGranted,
    OwnDelivered,
    ReleaseLock,
    RequestDenied,
    Send,
    ShowSignal,
    ShowView,
)
from hopring.groups.group_table import GroupEntry, GroupTable
from hopring.groups.locks import LockEnd, LockState
from hopring.groups.minimum import GroupMinimum
from hopring.groups.names import STEP_BITS, Fence, GroupMember, GroupViewId
from hopring.groups.payloads import append_sender
from hopring.groups.private_groups import private_group
from hopring.groups.sessions import REQUEST_COST_BYTES, BundleMerger, first_deadline_us, without_late
from hopring.ids import NEVER, GroupName, Incarnation, Place, Process
from hopring.links.events import Tick
from hopring.ordering.entry import OrderedMessage, Position
from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import (
    ClaimRingLock,
    DataDelivered,
    DataOrdered,
    JoinFailed,
    JoinFailure,
    JoinRing,
    LeaveRing,
    ListClosing,
    ListInstalled,
    MulticastPacket,
    ReleaseRingLock,
    RemovedFromRing,
    RingInput,
    RingLeft,
    RingLockEnded,
    RingLockGranted,
    RingOutput,
    RingSuspended,
    SubmitData,
    UnicastPacket,
)
from hopring.rmp.lists.locks import first_fence
from hopring.rmp.process.bundles import decode_body, tickets_of
from hopring.rmp.process.events import PeerOutputs, RingLayer
from hopring.rmp.process.flight import BundleFlight
from hopring.rmp.process.numbers import SESSION, ProcessNumbers
from hopring.rmp.process.views import ListViews, too_few, view_id_of
from hopring.rmp.snapshot import PeerRingSnapshot
from hopring.wire.bundle import decode_bundle
from hopring.wire.rmp.ids import NO_BALLOT, PeerProcess
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY, PeerList

LINGER_US: Final = 2_000_000
"""How long a process that only sends stays in a ring after its last message."""

RETURN_US: Final = 500_000
"""Between two tries of a removed member to come back to a ring that nobody answers for."""

LOCK_LEASE_US: Final = 1 << 45
"""Locks of a ring have no lease that its members renew: the ring tells their ends."""

NOT_PRIMARY: Final = "the daemons' view is not primary"
WAIT_FOR_PRIMARY: Final = "let all members join with minimum=majority, or send without resilience=MAJORITY"
SUSPENDED: Final = "the group is suspended"
WAIT_FOR_MEMBERS: Final = "send it again when a view of the group is not suspended any more"
"""The same as in session/, which is above."""
IN_DOUBT: Final = "in doubt"
"""The reason for which a message may be delivered or not: the others went on without this member."""

REMEDIES: Final = {
    JoinFailure.NOBODY: "start another member first, or found the ring with &found=yes",
    JoinFailure.FULL: "use another group, or daemons (hop://)",
    JoinFailure.LOCKS: "release some locks",
}

GroupRequest = JoinGroup | LeaveGroup | ClaimLock | ReleaseLock | Send


class GroupPhase(StrEnum):
    """The stay of the process in the ring."""

    OUT = "out"
    JOINING = "joining"
    IN = "in"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class PeerTerms:
    """What a process states when it joins a ring."""

    minimum: int = 1
    ttl: int = 0
    capable: bool = True
    found: bool | None = None  # None: unless the minimum is a majority or all.
    via: tuple[PeerProcess, ...] = ()
    wall_ms: Callable[[], int] = lambda: 0  # The driver's wall clock: fences of founded rings begin there.


class PeerGroup:
    """A group that the session of this process is in, or sends to."""

    def __init__(
        self,
        name: GroupName,
        me: PeerProcess,
        ring: RingLayer,
        terms: PeerTerms,
        numbers: ProcessNumbers,
        table: GroupTable,
        box: PeerOutputs,
    ) -> None:
        self.name = name
        self.phase = GroupPhase.OUT
        self.list: PeerList | None = None
        self.primary = False
        self.suspended = False
        self.closing = False
        self.session_name = ""  # Of the session here; it is set before any request.
        self.queue: deque[GroupRequest] = deque()
        self.queued_bytes = 0
        self.drops: list[PeerError] = []
        self._me, self._ring, self._terms = me, ring, terms
        self._numbers, self._table, self._box = numbers, table, box
        self._views = ListViews(name, numbers)
        self._flight = BundleFlight()
        self._minimum = terms.minimum
        self._shown = False  # The session is a member, or asked to be one: the ring knows its name.
        self._returning = False
        self._retry_us = NEVER
        self._idle_us = NEVER  # When to leave a ring that only was sent to.
        self.impatient = False  # Messages are refused while the ring is suspended.
        self.expired: list[Send] = []
        self._expires_us = NEVER  # When messages in the queue may have to be dropped.
        self.refused: list[Send] = []
        self.claims: set[int] = set()  # Serials of claims that have not ended.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min(self._ring.wake_at_us, self._retry_us, self._idle_us, self._expires_us)

    @property
    def idle(self) -> bool:
        """Whether nothing of the session is left to do."""
        return not self.queue and not self._flight.unordered

    @property
    def is_out(self) -> bool:
        """Whether the process is in no list, and nothing waits for one."""
        return self.phase is GroupPhase.OUT and not self.queue

    @property
    def is_over(self) -> bool:
        """Whether the ring is of no use any more, to this process or to others."""
        return self.is_out and not self._shown and not self._ring.serving

    @property
    def is_member(self) -> bool:
        """Whether the session is shown as a member."""
        return self._shown and self.phase is GroupPhase.IN

    def snapshot(self) -> PeerRingSnapshot:
        """The state of the ring."""
        return self._ring.snapshot()

    def lock_states(self) -> list[LockState] | None:
        """The locks of the list that was installed last."""
        if self.list is None:
            return None
        out: list[LockState] = []
        for one in self.list.locks.locks:
            held = one.holder
            entry = None if held is None else self.list.member(held.member.process)
            holder = None if entry is None else self._views.member(entry)
            fence = None if held is None else _fence(one.fence)
            out.append(LockState(one.name, holder, fence, len(one.claims) - (held is not None)))
        return sorted(out)

    def take_expired(self) -> list[Send]:
        """The messages whose time to live has ended here."""
        expired, self.expired = self.expired, []
        return expired

    def take_refused(self) -> list[Send]:
        """The messages that the session did not want to wait for a suspended ring."""
        refused, self.refused = self.refused, []
        return refused

    # Requests.

    def request(self, request: GroupRequest, now_us: int) -> None:
        """A request of the session, which is checked."""
        if isinstance(request, ClaimLock):
            self.claims.add(request.serial)
        elif isinstance(request, LeaveGroup):
            self._refuse_waiting()
        if isinstance(request, JoinGroup) and self.suspended:
            self.queue.appendleft(request)  # The ring may wait for this member, and the messages for the ring.
        else:
            self.queue.append(request)
        self.queued_bytes += _cost(request)
        if isinstance(request, Send):
            self._expires_us = min(self._expires_us, request.deadline_us)
        self.advance(now_us)

    def _refuse_waiting(self) -> None:
        """The session leaves: what waits for a suspended ring is not sent."""
        while self.suspended and self.queue and isinstance(send := self.queue[0], Send):
            self._pop()
            self.refused.append(send)

    def look(self, now_us: int) -> bool:
        """Whether the members are known; if not, the process joins the ring without a name."""
        if self.phase is GroupPhase.IN:
            if not self._shown:
                self._idle_us = now_us + LINGER_US
            return True
        if self.phase is GroupPhase.OUT and self._retry_us == NEVER:
            self._join("", now_us)
        return False

    def end(self, now_us: int) -> None:
        """The session ends: leaves behind all its requests."""
        self.request(LeaveGroup(SESSION, self.name), now_us)

    def step(self, event: RingInput, now_us: int) -> None:
        """An event for the ring, and what follows from it; a peer's mistake is counted."""
        try:
            self._step_ring(event, now_us)
        except PeerError as error:
            self.drops.append(error)
        self.advance(now_us)

    def tick(self, now_us: int) -> None:
        """Does what is due by now: the ring's timers, a return, a leave."""
        if now_us >= self._retry_us:
            self._retry_us = NEVER
            self._join(self.session_name if self._shown else "", now_us)
        if now_us >= self._idle_us:
            self._idle_us = NEVER
            if self.phase is GroupPhase.IN and not self._shown and self.idle:
                self._leave(now_us)
        self.step(Tick(), now_us)

    def advance(self, now_us: int) -> None:
        """Carries out requests as far as possible, in their order."""
        if now_us >= self._expires_us:
            self._drop_late(now_us)
        while self.queue and self._carry_out(self.queue[0], now_us):
            pass

    def _drop_late(self, now_us: int) -> None:
        """Drops messages whose time to live has ended in the queue; `_send` drops those that have just come."""
        late, self.queue = without_late(self.queue, now_us)
        self.expired.extend(late)
        self.queued_bytes -= sum(map(_cost, late))
        self._expires_us = first_deadline_us(self.queue)

    def _carry_out(self, request: GroupRequest, now_us: int) -> bool:
        """Carries out the first request; False if it has to wait."""
        if isinstance(request, Send):
            return self._send(request, now_us)
        if isinstance(request, JoinGroup):
            if self.phase is GroupPhase.OUT:
                self._shown, self._minimum = True, request.minimum or self._terms.minimum
                self._join(self.session_name, now_us)
            elif self.phase is GroupPhase.IN and not self._shown and not self._flight.unordered:
                self._leave(now_us)
            return False  # It ends with the first view, or with a refusal.
        if isinstance(request, LeaveGroup):
            return self._carry_out_leave(now_us)
        if self.phase is GroupPhase.IN:
            self._pop()
            if isinstance(request, ClaimLock):
                self._step_ring(ClaimRingLock(request.lock, request.serial, request.partial), now_us)
            else:
                self._step_ring(ReleaseRingLock(request.serial), now_us)
            return True
        return False

    def _carry_out_leave(self, now_us: int) -> bool:
        if self.phase is GroupPhase.IN and not self._flight.unordered:
            self._leave(now_us)
        elif self.phase is GroupPhase.OUT:
            self._pop()
            self._retry_us = NEVER
            self._left()
            return True
        return False

    def _pop(self) -> None:
        self.queued_bytes -= _cost(self.queue.popleft())

    def _join(self, name: str, now_us: int) -> None:
        terms = self._terms
        self.phase = GroupPhase.JOINING
        # With a quorum an automatic return never founds: two sides could.
        minimum = self._minimum if name else 1
        if minimum in (MINIMUM_MAJORITY, MINIMUM_ALL):
            found = terms.found is True and not self._returning
        else:
            found = terms.found is not False
        fence = first_fence(terms.wall_ms())
        self._step_ring(JoinRing(name, minimum, terms.ttl, terms.capable, found, terms.via, fence), now_us)

    def _leave(self, now_us: int) -> None:
        self.phase = GroupPhase.LEAVING
        self._step_ring(LeaveRing(), now_us)

    def _send(self, send: Send, now_us: int) -> bool:
        if send.deadline_us <= now_us:
            self._pop()
            self.expired.append(send)
            return True
        if self.phase is GroupPhase.OUT and self._retry_us == NEVER:
            self._join("", now_us)
        if self.suspended and self.impatient:
            self._pop()
            self.refused.append(send)
            return True
        if self.phase is not GroupPhase.IN or self.suspended or not self._flight.has_room:
            return False
        self._pop()
        if send.key.resilience == MAJORITY and not self.primary:
            self._deny(send, NOT_PRIMARY, WAIT_FOR_PRIMARY)
            return True
        self._submit(self._merged(send), now_us)
        return True

    def _merged(self, first: Send) -> Send:
        """Merges a bundle with those behind it in the queue."""
        merger = BundleMerger(first)
        while self.queue:
            following = self.queue[0]
            if not isinstance(following, Send) or not merger.add(following):
                break
            self._pop()
        return merger.send()

    def _submit(self, send: Send, now_us: int) -> None:
        key, body = send.key, append_sender(send.bundle, self.session_name)
        ticket = 0
        if key.service.reliable:
            ticket = self._flight.add(len(body), key.groups[0], tickets_of(decode_bundle(send.bundle)))
        if not self._shown:
            self._idle_us = now_us + LINGER_US
        self._step_ring(SubmitData(key.service, body, key.resilience, ticket=ticket), now_us)

    def _deny(self, send: Send, reason: str, remedy: str) -> None:
        tickets = tickets_of(decode_bundle(send.bundle))
        denied = RequestDenied(SESSION, "send", send.key.groups[0], reason, remedy, tickets)
        self._box.outputs.append(denied)

    # The ring.

    def _step_ring(self, event: RingInput, now_us: int) -> None:
        for output in self._ring.step(event, now_us):
            self._handle(output, now_us)

    def _handle(self, output: RingOutput, now_us: int) -> None:
        if isinstance(output, (MulticastPacket, UnicastPacket)):
            self._box.packets.append((self.name, output))
        elif isinstance(output, DataDelivered):
            self._delivered(output)
        elif isinstance(output, DataOrdered):
            self._flight.ordered(output.ticket)
        elif isinstance(output, ListInstalled):
            self._installed(output, now_us)
        elif isinstance(output, ListClosing):
            self._signalled(output)
        elif isinstance(output, RingSuspended):
            self._suspended(output)
        elif isinstance(output, RingLeft):
            self._left()
        elif isinstance(output, RemovedFromRing):
            self._removed(now_us)
        elif isinstance(output, JoinFailed):
            self._failed(output.failure, now_us)
        elif isinstance(output, RingLockGranted):
            self._granted(output)
        elif isinstance(output, RingLockEnded):
            self.claims.discard(output.serial)
            end = LockEnd(output.reason) if output.reason in set(LockEnd) else LockEnd.VIEW
            self._box.outputs.append(LockEnded(SESSION, output.serial, self.name, output.lock, end))

    # Members.

    def _installed(self, event: ListInstalled, now_us: int) -> None:
        first = self.phase is not GroupPhase.IN
        self.list, self.primary = event.list, event.primary
        self.suspended, self.closing = too_few(event.list), False
        self.phase = GroupPhase.IN if self.phase is GroupPhase.JOINING else self.phase
        self._enter()
        mine = event.list.member(self._me)
        assert mine is not None, "a ring shows lists with this member"
        if self._shown and mine.name:
            view = self._views.view(event, mine.membership, self._returning)
            if view is not None:
                self._box.outputs.append(ShowView((SESSION,), view))
        elif first:
            self._idle_us = now_us + LINGER_US
        if self.queue and isinstance(self.queue[0], JoinGroup) and self._shown and mine.name:
            self._pop()
        self._returning = False

    def _enter(self) -> None:
        """Puts the members into the table of groups."""
        assert self.list is not None, "there is a list"
        members = self._views.members_of(self.list)
        if not members:
            self._table.groups.pop(self.name, None)
            return
        view_id = GroupViewId(view_id_of(self.list.id.epoch), (), self.list.id.timestamp)
        mine = any(one.name and one.process == self._me for one in self.list.members)
        local = (SESSION,) if mine else ()
        entry = GroupEntry(self.name, view_id, set(members), local)
        stated = {
            member: one.minimum
            for one in self.list.members
            if one.minimum > 1 and (member := self._views.member(one)) is not None
        }
        entry.minimum, entry.suspended = GroupMinimum(stated) if stated else None, self.suspended
        self._table.groups[self.name] = entry

    def holder(self, private: GroupName) -> GroupMember | None:
        """The member of this ring that a private group stands for, also one that is not shown."""
        if self.list is None or self.phase is not GroupPhase.IN:
            return None
        for one in self.list.members:
            own = one.process == self._me
            name = self.session_name if own else one.name
            if private == private_group(name, str(one.process)):
                return self._numbers.member(one.process, name)
            if not name and private.endswith(f"#{one.process}"):
                return self._numbers.member(one.process, private.split("#")[1])
        return None

    def _suspended(self, event: RingSuspended) -> None:
        """Too few are left: nothing ordered is delivered until the ring goes on, or this member comes back."""
        self.suspended, self.primary = True, False
        if self.name in self._table.groups:
            self._table.groups[self.name].suspended = True
        if self._shown and self._views.shown is not None and self.list is not None:
            together = self._views.signal(self.list, event.present)
            parts = self.name, self._views.shown.id, together, True, self.list.minimum
            self._box.outputs.append(ShowSignal((SESSION,), *parts))

    def _signalled(self, event: ListClosing) -> None:
        self.closing = True
        if self._shown and self._views.shown is not None:
            together = self._views.signal(event.list, event.together)
            self._box.outputs.append(ShowSignal((SESSION,), self.name, self._views.shown.id, together))

    def _left(self) -> None:
        """The stay has ended: the session is told if it was a member, and asked for it."""
        shown, self._shown = self._shown, False
        self._gone()
        if shown:
            self._box.outputs.append(LeftGroup(SESSION, self.name))

    def _gone(self) -> None:
        self.phase, self.list = GroupPhase.OUT, None
        self.primary = self.suspended = self.closing = False
        self._idle_us = NEVER
        self._views = ListViews(self.name, self._numbers)
        self._table.groups.pop(self.name, None)
        for one in self._flight.end():
            if one.tickets:
                remedy = "ask the receivers"
                denied = RequestDenied(SESSION, "send", one.group, IN_DOUBT, remedy, one.tickets)
                self._box.outputs.append(denied)

    def _removed(self, now_us: int) -> None:
        """The others went on without this member: it comes back as another one."""
        shown, own = self._views.shown, None
        if self.list is not None and self._shown and not self.closing and shown is not None:
            member = self.list.member(self._me)
            own = None if member is None else frozenset([member.membership])
            together = () if own is None else self._views.signal(self.list, own)
            self._box.outputs.append(ShowSignal((SESSION,), self.name, shown.id, together))
        self._gone()
        if self._shown:
            self._returning = True
            self._join(self.session_name, now_us)

    def _failed(self, failure: JoinFailure, now_us: int) -> None:
        self.phase = GroupPhase.OUT
        if self._returning:
            self._retry_us = now_us + RETURN_US
            return
        self._shown = False
        remedy = REMEDIES[failure]
        while self.queue and not isinstance(self.queue[0], LeaveGroup):
            request = self.queue[0]
            self._pop()
            if isinstance(request, JoinGroup):
                denied = RequestDenied(SESSION, "join", self.name, failure.value, remedy)
                self._box.outputs.append(denied)
                return
            if isinstance(request, Send):
                self._deny(request, failure.value, remedy)
            elif isinstance(request, ClaimLock):
                ended = LockEnded(SESSION, request.serial, self.name, request.lock, LockEnd.NOT_A_MEMBER)
                self._box.outputs.append(ended)

    # Messages.

    def _delivered(self, event: DataDelivered) -> None:
        own = event.id.source == self._me
        if own:
            self._flight.delivered(event.ticket)
        try:
            name, bundle = decode_body(event, self.name, self._name_of(event.id.source))
        except PeerError as error:
            self.drops.append(error)
            return
        if event.withheld:
            if own and (tickets := tickets_of(bundle)):
                parts = bundle.key.groups[0], NOT_PRIMARY, WAIT_FOR_PRIMARY, tickets
                self._box.outputs.append(RequestDenied(SESSION, "send", *parts))
            return
        if self._is_held_back(event):
            if own and (tickets := tickets_of(bundle)):
                parts = bundle.key.groups[0], SUSPENDED, WAIT_FOR_MEMBERS, tickets
                self._box.outputs.append(RequestDenied(SESSION, "send", *parts))
            return
        view = view_id_of(NO_BALLOT if self.list is None else self.list.id.epoch)
        position = Position(event.timestamp, 0)
        group = bundle.key.groups[0]
        mine = group == private_group(self.session_name, str(self._me))
        gets = mine or (group == self.name and self.is_member)
        if gets and not (own and bundle.key.self_discard):
            sender = private_group(name, str(event.id.source))
            self._box.outputs.append(DeliverBundle((SESSION,), sender, bundle, view, position))
        if own and tickets_of(bundle):
            me = Process(self._numbers.number(self._me), Incarnation(self._me.nonce))
            message = OrderedMessage(event.service, me.daemon, SESSION, event.body, event.resilience)
            self._box.outputs.append(OwnDelivered(Delivered(view, message, me, position, event.holders)))

    def _is_held_back(self, event: DataDelivered) -> bool:
        """Whether a message had its turn below the minimum: its place is the same at all members."""
        return self.list is not None and too_few(self.list) and event.service.total and bool(event.timestamp)

    def _name_of(self, source: PeerProcess) -> str:
        if source == self._me:
            return self.session_name
        member = None if self.list is None else self.list.member(source)
        return "" if member is None else member.name

    def _granted(self, event: RingLockGranted) -> None:
        assert self.list is not None, "locks are granted to members"
        place = Place(view_id_of(self.list.id.epoch), event.timestamp, 0)
        parts = SESSION, event.serial, self.name, event.lock
        self._box.outputs.append(LockGranted(*parts, _fence(event.fence), place, LOCK_LEASE_US))


def _fence(fence: int) -> Fence:
    """A fence of a ring in two parts; one of a list that is not primary is negative as it is."""
    return Fence(fence >> STEP_BITS, fence & (1 << STEP_BITS) - 1)


def _cost(request: GroupRequest) -> int:
    return REQUEST_COST_BYTES + (len(request.bundle) if isinstance(request, Send) else 0)
