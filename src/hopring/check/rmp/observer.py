"""Watches the rings of all peers, and writes what they do as events that R1 to R17 judge.

Below       inputs and outputs of rings, as their drivers carry them; nothing of their insides.
Above       `check.rmp`, which judges the history.
Invariants  what is written depends on packets and news only, so a ring cannot lie about itself.
"""

from bisect import insort
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from hopring.check.rmp.peer_events import (
    BodySeen,
    DataShown,
    FenceEnded,
    FenceGiven,
    ListClosed,
    ListSeen,
    OrderingSeen,
    PassConfirmed,
    PeerEvent,
    PeerSuspended,
    QueueSeen,
    RingStayEnded,
    SlotsOrdered,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
)
from hopring.ids import NEVER
from hopring.rmp.events import (
    AnswerRequested,
    DataDelivered,
    ListClosing,
    ListInstalled,
    RemovedFromRing,
    RingLeft,
    RingLockEnded,
    RingLockGranted,
    RingNews,
    RingSuspended,
)
from hopring.rmp.lists.locks import handler_holder
from hopring.rmp.recovery.sync import has_reached
from hopring.rmp.snapshot import PeerRingSnapshot
from hopring.services import Service
from hopring.wire.rmp.ids import Ballot, DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.locks import HANDLERS
from hopring.wire.rmp.packets import (
    NO_HANDLER,
    AbortReason,
    AckPacket,
    ConfirmPacket,
    DataPacket,
    NewListKind,
    NewListPacket,
    NonMemberAck,
    NonMemberData,
    RecoveryAbort,
    RecoveryAckNewList,
    RecoveryVote,
    RmpPacket,
    SyncPoint,
)

_WITH_EPOCH: Final = (*(ListSeen, SlotsOrdered, OrderingSeen, PassConfirmed, DataShown, QueueSeen, FenceGiven),)


class RingMoment(StrEnum):
    """What a peer has just come to; faults wait for such moments."""

    NAMED = "named"  # It was named as the next token site.
    JOINED = "joined"  # It was named by the list that it joins with.
    PASSING = "passing"  # It has ordered, and named the next one.
    PREPARED = "prepared"  # It has acknowledged the list of a recovery.
    COMMITTED = "committed"  # It has installed the list of a recovery.
    SUSPENDED = "suspended"


class ObserverClock(Protocol):
    """The clock of what is observed."""

    @property
    def now_us(self) -> int:
        """The present time, in microseconds."""


@dataclass(slots=True)
class RingObserver:
    """The history of one group, written as it happens."""

    engine: ObserverClock
    events: list[PeerEvent] = field(default_factory=list)
    wrong_bodies: list[str] = field(default_factory=list)
    names: dict[PeerProcess, str] = field(default_factory=dict)
    partial: set[tuple[str, int]] = field(default_factory=set)  # Claims that need no primary list.
    # What faults wait for: peers by the moment that they have come to since the last look.
    reached: list[tuple[RingMoment, str]] = field(default_factory=list)
    strangers: dict[tuple[int, int], str] = field(default_factory=dict)  # By address: who calls from there now.
    onward: list[tuple[int, str, str]] = field(default_factory=list)  # Loose calls: when, by whom, which.
    _calls: dict[str, bytes] = field(default_factory=dict)  # The body of each call, as it was sent first.
    _asked: dict[tuple[str, DataId], int] = field(default_factory=dict)  # Requests that were just delivered.
    wrong_attempts: list[str] = field(default_factory=list)
    _votes: dict[tuple[PeerProcess, Ballot], dict[PeerProcess, SyncPoint]] = field(default_factory=dict)
    _promises: dict[tuple[PeerProcess, int], Ballot] = field(default_factory=dict)  # By process and epoch.
    _ballots: dict[int, Ballot] = field(default_factory=dict)  # By generation.
    _members: dict[ListMembership, str] = field(default_factory=dict)
    _counts: dict[PeerProcess, int] = field(default_factory=dict)  # Memberships of each.
    _seen: set[tuple[str, object]] = field(default_factory=set)
    # By process and epoch, orderings that it has heard, and the last timestamp that each source gave in those
    # that it has no hole below: a process learns of orderings in their order.
    _unread: dict[tuple[PeerProcess, int], list[tuple[int, int, PeerProcess]]] = field(default_factory=dict)
    _heard_of: dict[tuple[PeerProcess, int], dict[PeerProcess, int]] = field(default_factory=dict)
    _lists: dict[tuple[PeerProcess, int], dict[int, tuple[PeerProcess, ...]]] = field(default_factory=dict)
    _begun: dict[tuple[PeerProcess, int], list[int]] = field(default_factory=dict)  # Their timestamps, sorted.

    def note(self, event: PeerEvent) -> None:
        """Adds an event to the history."""
        self.events.append(event)

    @property
    def now_us(self) -> int:
        """The present time of the run."""
        return self.engine.now_us

    def history(self) -> list[PeerEvent]:
        """All events; epochs are numbered in the order of their ballots."""
        ballots = sorted((ballot, generation) for generation, ballot in self._ballots.items())
        ranks = {generation: rank for rank, (_, generation) in enumerate(ballots, start=1)}
        return [
            msgspec.structs.replace(event, epoch=ranks.get(event.epoch, 0))
            if isinstance(event, _WITH_EPOCH)
            else event
            for event in self.events
        ]

    # Names.

    def name(self, process: PeerProcess) -> str:
        """The name of a process; a stranger's is its address."""
        return self.names.get(process, str(process))

    def name_stranger(self, life: PeerProcess, label: str) -> None:
        """Names one life of a process that is no member."""
        self.names[life] = label
        self.strangers[life.address, life.port] = label

    def is_stranger(self, process: PeerProcess) -> bool:
        """Whether packets of this process are calls."""
        return (process.address, process.port) in self.strangers

    def message(self, one: DataId, service: Service) -> str:
        """The name of a message."""
        return f"{self.name(one.source)}:{'u' if service.loose else ''}{one.seq}"

    def member(self, membership: ListMembership) -> str:
        """The name of a membership: that of its process, with a mark for each earlier one."""
        if membership not in self._members:
            count = self._counts.get(membership.process, 0)
            self._counts[membership.process] = count + 1
            self._members[membership] = self.name(membership.process) + "'" * count
        return self._members[membership]

    def members(self, ring: PeerList) -> tuple[str, ...]:
        """The names of a list, in ring order."""
        self._ballots.setdefault(ring.id.epoch.generation, ring.id.epoch)
        return tuple([self.member(one.membership) for one in ring.members])

    # Packets.

    def sent(self, me: PeerProcess, packet: RmpPacket, epoch: int) -> None:
        """A process has sent a packet."""
        who = self.name(me)
        match packet:
            case AckPacket() if packet.source == me:
                messages = tuple([self.message(one, Service.AGREED) for one in packet.ordered])
                self._ordered(me, epoch, packet.timestamp, packet.next, messages)
            case NewListPacket() if packet.source == me and packet.kind is not NewListKind.INFORMS:
                members = self.members(packet.list)
                key = me, packet.list.id.epoch.generation
                self._lists.setdefault(key, {})[packet.timestamp] = packet.list.processes
                self._ordered(me, key[1], packet.timestamp, packet.next, (), members)
            case ConfirmPacket() if packet.source == me:
                if self._is_first(who, ("confirmed", epoch, packet.timestamp)):
                    self.note(PassConfirmed(who, self.now_us, epoch, packet.timestamp))
            case RecoveryAckNewList() if packet.source == me:
                self.reached.append((RingMoment.PREPARED, who))
                self._promised(me, epoch, packet.ballot)
            case NonMemberAck() if not packet.reply and not packet.body:
                # Of a life that is not known, it means the process that is there now.
                client = packet.client
                name = self.names.get(client) or self.strangers.get((client.address, client.port), str(client))
                self.note(StrangerAcknowledged(who, self.now_us, name, f"{name}:{packet.seq}"))
            case _:
                pass

    def called(self, packet: NonMemberData) -> None:
        """A process that is no member has sent a call, for the first time or again."""
        self._calls.setdefault(self.message(packet.id, packet.service), packet.body)

    def sent_on(self, me: PeerProcess, packet: RmpPacket) -> None:
        """A process has sent a packet on for another one."""
        if isinstance(packet, NonMemberData) and packet.service.loose:
            message = self.message(packet.id, packet.service)
            self.onward.append((self.now_us, self.name(me), message))

    def aborted(
        self, who: str, packet: RecoveryAbort, before: PeerRingSnapshot, after: PeerRingSnapshot
    ) -> None:
        """An Abort has come to a process; it may end the attempt that it names, and no other."""
        ends = before.attempt is not None and after.recovering == "waiting" != before.recovering
        if ends and packet.ballot != before.attempt:
            self.wrong_attempts.append(
                f"{who} ends its attempt at {self.now_us} us, by the Abort of another one"
            )

    def aborts(self, me: PeerProcess, packet: RecoveryAbort, now: PeerRingSnapshot) -> None:
        """A process tells an initiator that it knows of a higher ballot."""
        higher = now.attempt is not None and now.attempt > packet.ballot
        past = now.epoch is not None and packet.ballot <= now.epoch
        if packet.reason is AbortReason.HIGHER_BALLOT and not higher and not past:
            self.wrong_attempts.append(
                f"{self.name(me)} aborts an attempt of a higher ballot at {self.now_us} us"
            )

    def proposed(self, me: PeerProcess, packet: NewListPacket, old: tuple[PeerProcess, ...]) -> None:
        """An initiator proposes a list: whoever of the old one has voted, and has everything, is in it."""
        if not self._is_first(self.name(me), ("proposed", packet.list.id.epoch)):
            return  # Votes that came since are too late.
        for process, sync in self._votes.get((me, packet.list.id.epoch), {}).items():
            if process in old and process not in packet.list and has_reached(sync, packet.sync):
                out = f"{self.name(me)} leaves out {self.name(process)}, which has voted, at {self.now_us} us"
                self.wrong_attempts.append(out)

    def _promised(self, me: PeerProcess, epoch: int, ballot: Ballot) -> None:
        """A process acknowledges the list of an attempt: the ballots of those that it does rise."""
        last = self._promises.get((me, epoch), ballot)
        if ballot < last:
            self.wrong_attempts.append(
                f"{self.name(me)} acknowledges a lower ballot than before at {self.now_us} us"
            )
        self._promises[me, epoch] = max(last, ballot)

    def _ordered(
        self,
        me: PeerProcess,
        epoch: int,
        timestamp: int,
        named: PeerProcess,
        messages: tuple[str, ...],
        members: tuple[str, ...] = (),
    ) -> None:
        who = self.name(me)
        if self._is_first(who, ("ordered", epoch, timestamp, messages, members)):
            insort(self._begun.setdefault((me, epoch), []), timestamp)
            parts = epoch, timestamp, self.name(named), messages, members
            self.note(SlotsOrdered(who, self.now_us, *parts))
            self.reached.append((RingMoment.PASSING, who))

    def arrived(self, me: PeerProcess, packet: RmpPacket, epoch: int) -> None:
        """A packet has arrived at a process."""
        who = self.name(me)
        match packet:
            case DataPacket() | NonMemberData():
                message = self.message(packet.id, packet.service)
                if self._is_first(who, message):
                    self.note(BodySeen(who, self.now_us, message))
            case AckPacket():
                self._heard(me, epoch, packet)
            case RecoveryVote():
                self._votes.setdefault((me, packet.ballot), {})[packet.source] = packet.sync
            case NewListPacket() if packet.kind is not NewListKind.INFORMS:
                self.members(packet.list)
                self._heard(me, packet.list.id.epoch.generation, packet)
            case _:
                pass

    def _heard(self, me: PeerProcess, epoch: int, packet: AckPacket | NewListPacket) -> None:
        who = self.name(me)
        if not self._is_first(who, ("heard", epoch, packet.timestamp)):
            return
        self.note(OrderingSeen(who, self.now_us, epoch, packet.timestamp))
        self._unread.setdefault((me, epoch), []).append((packet.timestamp, packet.last, packet.source))
        insort(self._begun.setdefault((me, epoch), []), packet.timestamp)
        if isinstance(packet, NewListPacket):
            self._lists.setdefault((me, epoch), {})[packet.timestamp] = packet.list.processes
        if packet.next == me:
            joins = isinstance(packet, NewListPacket) and packet.kind is NewListKind.ORDERED
            self.reached.append((RingMoment.JOINED if joins else RingMoment.NAMED, who))

    def needed_from(self, me: PeerProcess, seen: PeerRingSnapshot) -> int:
        """The lowest slot that a process may still need: undelivered, or not known to be with all members.

        Its last ordering it keeps besides, to answer those who ask for it.
        """
        assert seen.epoch is not None, "only members keep something"
        key = me, seen.epoch.generation
        self._read(key, seen.consecutive)
        line = min(seen.delivered, self._stable_line(key)) + 1
        last = [one for one in self._begun.get(key, ()) if one <= seen.consecutive][-1:]
        return min([line, *last] if last else [line, 1])

    def _read(self, key: tuple[PeerProcess, int], consecutive: int) -> None:
        """Takes in the orderings up to this timestamp."""
        heard = self._heard_of.setdefault(key, {})
        rest: list[tuple[int, int, PeerProcess]] = []
        for one in self._unread.get(key, ()):
            if one[0] <= consecutive:
                heard[one[2]] = max(one[1], heard.get(one[2], 0))
            else:
                rest.append(one)
        self._unread[key] = rest

    def _stable_line(self, key: tuple[PeerProcess, int]) -> int:
        """Up to here all members of each slot's list, leavers too, have ordered once behind it, as heard."""
        heard, lists = self._heard_of.get(key, {}), sorted(self._lists.get(key, {}).items())
        line = 0
        for at, (timestamp, members) in enumerate(lists):
            end = lists[at + 1][0] - 1 if at + 1 < len(lists) else NEVER
            line = min([end, *[heard.get(one, 0) for one in members if one != key[0]]])
            if line < end:
                return max(line, timestamp - 1)
        return line

    def _is_first(self, who: str, what: object) -> bool:
        """Whether this process meets this for the first time; notes it."""
        if (who, what) in self._seen:
            return False
        self._seen.add((who, what))
        return True

    # News.

    def told(self, me: PeerProcess, news: RingNews, present: ListInstalled | None) -> None:
        """A ring has told its process something; `present` is the list that it has installed."""
        who, now_us = self.name(me), self.now_us
        match news:
            case ListInstalled():
                self._installed(who, news)
            case ListClosing():
                self.note(ListClosed(who, now_us, tuple(sorted(map(self.member, news.together)))))
            case DataDelivered():
                self._shown(who, news, present)
            case RingSuspended():
                self.note(PeerSuspended(who, now_us))
                self.reached.append((RingMoment.SUSPENDED, who))
            case RingLeft():
                self.note(RingStayEnded(who, now_us, "leave"))
            case RemovedFromRing():
                self.note(RingStayEnded(who, now_us, "removed"))
            case RingLockGranted() if present is not None:
                epoch = present.list.id.epoch.generation
                parts = news.lock, epoch, news.timestamp, news.fence, present.primary
                self.note(FenceGiven(who, now_us, *parts, partial=(who, news.serial) in self.partial))
            case RingLockEnded():
                self.note(FenceEnded(who, now_us, news.lock))
            case AnswerRequested():
                self._told_to_answer(who, news, present)
            case _:
                pass

    def _installed(self, who: str, news: ListInstalled) -> None:
        ring = news.list
        members = self.members(ring)
        together = tuple(sorted(map(self.member, news.together)))
        about = "" if news.who is None else self.member(news.who)
        epoch, timestamp = ring.id.epoch.generation, ring.id.timestamp
        seen = ListSeen(who, self.now_us, epoch, timestamp, members, together)
        cause = {"cause": news.cause.value, "who": about, "primary": news.primary, "minimum": ring.minimum}
        self.note(msgspec.structs.replace(seen, **cause))
        if news.cause == "failure":
            self.reached.append((RingMoment.COMMITTED, who))

    def _shown(self, who: str, news: DataDelivered, present: ListInstalled | None) -> None:
        message = self.message(news.id, news.service)
        epoch = 0 if present is None else present.list.id.epoch.generation
        call = self.is_stranger(news.id.source)
        parts = news.service, epoch, news.timestamp, news.resilience, news.withheld, call
        self.note(DataShown(who, self.now_us, message, *parts))
        if call:
            if not news.withheld:
                self.note(StrangerShown(who, self.now_us, self.name(news.id.source), message))
            right = self._calls.get(message) == news.body
        else:
            right = body_name(news.body) == message
        if not right:
            self.wrong_bodies.append(f"{who} delivered {message} with the body of {body_name(news.body)}")
        if news.handler != NO_HANDLER and not news.withheld:
            owner = self._holder(present, news.handler)
            self._asked[who, news.id] = len(self.events)
            self.note(ToldToAnswer(who, self.now_us, message, news.handler, False, owner))

    def _told_to_answer(self, who: str, news: AnswerRequested, present: ListInstalled | None) -> None:
        """The process is the holder of the request's handler, it believes: directly behind its delivery."""
        message = self.message(news.id, Service.AGREED)
        at = None if news.again else self._asked.pop((who, news.id), None)
        if at is not None:
            told = self.events[at]
            assert isinstance(told, ToldToAnswer), "this is its place"
            self.events[at] = msgspec.structs.replace(told, holder=True)
        else:
            owner = self._holder(present, news.handler)
            parts = message, news.handler, True, owner, news.again
            self.note(ToldToAnswer(who, self.now_us, *parts))

    def _holder(self, present: ListInstalled | None, handler: int) -> str:
        """The process that holds the lock of a handler in a list; nobody outside of one."""
        claim = None if present is None or handler > HANDLERS else handler_holder(present.list, handler)
        return "" if claim is None else self.name(claim.member.process)


_END: Final = b"\n"


def body_of(message: str, size: int) -> bytes:
    """A body of about this size that begins with the message's name."""
    name = message.encode() + _END
    return name + bytes(max(0, size - len(name)))


def body_name(body: bytes) -> str:
    """The name in a body."""
    return body.partition(_END)[0].decode(errors="replace")
