"""Joining: asks who is there, and asks one ring to be taken in; or founds one (paper 4.3, traps 9, 16, 26).

Invariants  a join is of one epoch; a ring is founded only if nobody answers, and with a minimum of majority or
            all only if that was asked for.
Deviations  the paper's joiner sends its request without asking first, and two rings may answer it. Here it
            asks, takes the ring with the most members, of equals the one with the lowest id, and asks only
            that one to be taken in.
"""

from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.rmp.events import JoinFailed, JoinFailure, MulticastPacket
from hopring.rmp.lists.changes import founded
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.wire.rmp.ids import Ballot
from hopring.wire.rmp.lists import MEMBERS_MAX, MINIMUM_MAJORITY, ListId, PeerList
from hopring.wire.rmp.packets import ListChange, ListChangeRequest, NewListKind, NewListPacket, SyncPoint

ASKED_MAX = 8
"""Limit of the rings whose requests are remembered."""

DEFERRED_MAX = 2
"""How often a process leaves it to others, which ask too, to found a ring."""


def is_greater(one: PeerList, other: PeerList) -> bool:
    """Whether the first of two rings of one name absorbs the other: more members, or the lower id."""
    return (-len(one), one.id.epoch) < (-len(other), other.id.epoch)


@dataclass(slots=True)
class Joiner:
    """The way of a process into a ring."""

    state: PeerRingState
    rings: dict[Ballot, PeerList] = field(default_factory=dict)  # Those that answered.
    chosen: PeerList | None = None
    request: ListChangeRequest | None = None
    asked: dict[Ballot, ListChangeRequest] = field(default_factory=dict)
    """By epoch, the request to join that it has sent there, since it was a member last."""
    tries: int = 0
    heard: bool = False  # Some ring of this name is heard: it is not founded anew.
    known: PeerList | None = (
        None  # A ring for which this process left its own: not all of it may hear multicasts.
    )
    deferred: int = 0  # How often founding was put off, because another process asks too.
    seq: int = 0  # The number of this process's last Data packet.
    due_us: int = NEVER

    def begin(self, now_us: int) -> None:
        """Begins by asking who is there."""
        self.state.phase = RingPhase.ASKING
        self.rings.clear()
        self.chosen, self.request = None, None
        self.tries, self.deferred, self.heard = 0, 0, False
        self.due_us = now_us

    def on_who(self, request: ListChangeRequest) -> None:
        """Another process asks as well: the lower one founds first, and the others find its ring."""
        if self.state.phase is RingPhase.ASKING and request.source < self.state.me:
            self.heard = True

    def on_answer(self, packet: NewListPacket) -> None:
        """A ring shows its list."""
        self.state.fence_heard = max(self.state.fence_heard, packet.list.locks.fence)
        if self.state.phase is RingPhase.ASKING:
            self.rings[packet.list.id.epoch] = packet.list
            if len(self.rings) > MEMBERS_MAX:
                self.rings.pop(next(iter(self.rings)))

    def tick(self, now_us: int) -> NewListPacket | None:
        """Asks again, or goes on to the next step; the first list of a ring that it founds."""
        if now_us < self.due_us:
            return None
        if self.state.phase is RingPhase.ASKING:
            return self._ask(now_us)
        self._ask_to_join(now_us)
        return None

    def _ask(self, now_us: int) -> NewListPacket | None:
        options = self.state.options
        if self.tries and self.rings:
            self._choose(now_us)
            return None
        if self.tries >= options.who_tries:
            if not self.heard or self.deferred >= DEFERRED_MAX:
                return self._found()
            self.tries, self.heard = 0, False
            self.deferred += 1
        self.tries += 1
        self.due_us = now_us + options.who_us // 2 + self.state.random.randrange(options.who_us)
        self._send(
            ListChangeRequest(self.state.me, ListChange.WHO, self.state.next_request(), self.state.group)
        )
        return None

    def _choose(self, now_us: int) -> None:
        chosen = next(iter(self.rings.values()))
        for one in self.rings.values():
            if is_greater(one, chosen):
                chosen = one
        if len(chosen) >= MEMBERS_MAX and self.state.me not in chosen:
            self._fail(JoinFailure.FULL)
            return
        self.chosen, self.tries = chosen, 0
        self.state.phase = RingPhase.JOINING
        epoch = chosen.id.epoch
        # The ring may have carried its request out already, and wait for this member, which asked others since.
        self.request = self.asked.pop(epoch, None) or self._join_request()
        self.asked[epoch] = self.request
        while len(self.asked) > ASKED_MAX:
            del self.asked[next(iter(self.asked))]
        self._ask_to_join(now_us)

    def _join_request(self) -> ListChangeRequest:
        state, wish = self.state, self.state.wish
        return ListChangeRequest(
            state.me,
            ListChange.JOIN,
            state.next_request(),
            state.group,
            wish.minimum,
            wish.ttl,
            wish.capable,
            self.seq,
            wish.name,
            self.state.fence_heard,
        )

    def list_before(self, members: PeerList) -> PeerList:
        """The list that took this process in, without it: that list has to agree to the change."""
        others = tuple([one for one in members.members if one.process != self.state.me])
        return PeerList(ListId(members.id.epoch, members.id.timestamp - 1), others)

    def _ask_to_join(self, now_us: int) -> None:
        if self.tries >= self.state.options.join_tries:
            self.begin(now_us)
            return
        assert self.request is not None, "who joins has a request"
        self.tries += 1
        self.due_us = now_us + self.state.options.join_us
        self._send(self.request, self.chosen)

    def _send(self, request: ListChangeRequest, to: PeerList | None = None) -> None:
        generation = 0 if to is None else to.id.epoch.generation
        ring = self.known if to is None else to
        known = () if ring is None else ring.members
        # Members that hear no multicast are asked by unicast; all of them by who was told whom to ask.
        every = to is not None and bool(self.state.wish.via)
        asked = [one.process for one in known if every or not one.capable]
        targets = dict.fromkeys([one for one in (*self.state.wish.via, *asked) if one != self.state.me])
        self.state.emit(MulticastPacket(request, generation, tuple(targets)))

    def _found(self) -> NewListPacket | None:
        wish = self.state.wish
        # Who was a member of a ring that may go on would be a second majority, of one.
        if not wish.found or (self.state.was_member and wish.minimum >= MINIMUM_MAJORITY):
            self._fail(JoinFailure.NOBODY)
            return None
        self.state.version += 1
        epoch = Ballot(self.state.version, self.state.me)
        members = founded(epoch, self._join_request(), wish.fence)
        me = self.state.me
        return NewListPacket(NewListKind.ORDERED, me, me, members, SyncPoint(0))

    def _fail(self, failure: JoinFailure) -> None:
        self.due_us = NEVER
        self.state.phase = RingPhase.OUT
        self.state.emit(JoinFailed(failure))

    def accepts(self, packet: NewListPacket) -> bool:
        """Whether a New List takes this joiner in, and names it next."""
        request = self.request
        if self.state.phase is not RingPhase.JOINING or request is None:
            return False
        member = packet.list.member(self.state.me)
        named = packet.next == self.state.me and packet.kind is NewListKind.ORDERED
        return named and member is not None and member.joined == request.number
