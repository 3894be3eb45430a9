"""Claims: the locks that this member asks for, as requests, and what becomes of them, as its lists tell.

Below       requests for a change of the list; the news of the ring, of which some change what it holds.
Above       the process, which is told of each grant and of each end once.
Invariants  a claim is asked for once and ends once. Grants and ends come directly behind the list that makes
            them, and losses directly before the news of a suspension or of the end of the stay.
Deviations  a suspended member gives up its claims at once (trap 24): if its ring returns with the same list, it
            releases them there before it asks for any again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hopring.groups.locks import LockEnd
from hopring.rmp.events import (
    ClaimRingLock,
    ListInstalled,
    ReleaseRingLock,
    RemovedFromRing,
    RingLeft,
    RingLockEnded,
    RingOutput,
    RingSuspended,
)
from hopring.rmp.lists.locks import claims_of, lock_news, refusal
from hopring.rmp.requests import OwnRequests
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.wire.rmp.ids import ListMembership
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.locks import MemberClaim
from hopring.wire.rmp.packets import ListChange

PENDING_CLAIMS_MAX: Final = 1024
"""Limit of the claims that are not in the list yet."""


@dataclass(slots=True)
class RingClaims:
    """The claims of one member."""

    state: PeerRingState
    requests: OwnRequests
    pending: dict[int, ClaimRingLock] = field(default_factory=dict)  # Not in a list yet, by serial.
    asked: dict[int, int] = field(default_factory=dict)  # Numbers of their requests.
    given_up: set[int] = field(default_factory=set)  # Ended here, and perhaps still in the list.
    shown: PeerList | None = None  # The list that the process knows.

    def claim(self, event: ClaimRingLock) -> None:
        """Asks for a lock as soon as this process is a member."""
        assert event.serial not in self.pending, "a serial is used once"
        if self.state.phase in (RingPhase.OUT, RingPhase.SERVING):
            self.state.emit(RingLockEnded(event.lock, event.serial, LockEnd.NOT_A_MEMBER.value))
        elif len(self.pending) >= PENDING_CLAIMS_MAX:
            self.state.emit(RingLockEnded(event.lock, event.serial, LockEnd.TOO_MANY.value))
        else:
            self.pending[event.serial] = event

    def release(self, event: ReleaseRingLock) -> None:
        """Gives up a claim; one that nobody has heard of ends at once."""
        claim = self.pending.get(event.serial)
        if claim is not None and event.serial not in self.asked:
            del self.pending[event.serial]
            self.state.emit(RingLockEnded(claim.lock, event.serial, LockEnd.RELEASED.value))
        elif claim is not None or event.serial in self._listed():
            self.requests.ask(ListChange.RELEASE, serial=event.serial)

    def settle(self) -> None:
        """Hands claims on as requests, now that this process is a member."""
        if self.state.phase is not RingPhase.IN or self.shown is None:
            return
        for serial, claim in self.pending.items():
            if serial not in self.asked:
                self.asked[serial] = self.requests.ask(
                    ListChange.LOCK, lock=claim.lock, serial=serial, partial=claim.partial
                )

    def follow(self, outputs: Sequence[RingOutput]) -> list[RingOutput]:
        """The outputs of a step, with the news of locks at their places."""
        out: list[RingOutput] = []
        for one in outputs:
            if isinstance(one, ListInstalled):
                out.append(one)
                out += self._installed(one.list)
            elif isinstance(one, RingSuspended):
                out += self._give_up(LockEnd.NOT_PRIMARY)
                self.given_up |= set(self._listed())
                out.append(one)
            elif isinstance(one, RingLeft | RemovedFromRing):
                out += self._give_up(LockEnd.NOT_A_MEMBER)
                self._forget()
                out.append(one)
            else:
                out.append(one)
        return out

    def _installed(self, members: PeerList) -> list[RingOutput]:
        before, self.shown = self.shown, members
        self.state.fence_heard = max(self.state.fence_heard, members.locks.fence)
        me = self._me(members)
        if me is None:
            return []
        news = lock_news(before, members, me)
        listed = claims_of(members, me)
        out: list[RingOutput] = [one for one in news if one.serial not in self.given_up]
        for serial in [serial for serial in self.given_up if serial in listed]:
            self.requests.ask(ListChange.RELEASE, serial=serial)
        self.given_up &= set(listed)
        return out + self._carried_out(before, members, me)

    def _carried_out(self, before: PeerList | None, after: PeerList, me: ListMembership) -> list[RingOutput]:
        """Claims whose requests are in the order are in the list, or were refused."""
        member, listed = after.member(me.process), claims_of(after, me)
        out: list[RingOutput] = []
        for serial, number in list(self.asked.items()):
            if member is None or member.request < number:
                continue
            claim = self.pending.pop(serial)
            del self.asked[serial]
            if serial not in listed:
                wanted = MemberClaim(me, serial, claim.partial)
                end = None if before is None else refusal(before, claim.lock, wanted)
                out.append(RingLockEnded(claim.lock, serial, (end or LockEnd.RELEASED).value))
        return out

    def _give_up(self, end: LockEnd) -> list[RingOutput]:
        """Ends everything that the process believes to have or to wait for."""
        out: list[RingOutput] = [
            RingLockEnded(lock, serial, end.value)
            for serial, lock in self._listed().items()
            if serial not in self.given_up
        ]
        out += [RingLockEnded(claim.lock, serial, end.value) for serial, claim in self.pending.items()]
        self.given_up |= set(self.asked)
        self.pending.clear()
        self.asked.clear()
        return out

    def _forget(self) -> None:
        """The stay has ended: the next one is that of another member."""
        self.shown = None
        self.given_up.clear()

    def _listed(self) -> dict[int, str]:
        """The own claims in the list that the process knows, with the names of their locks."""
        me = None if self.shown is None else self._me(self.shown)
        if self.shown is None or me is None:
            return {}
        return {serial: lock for serial, (lock, _, _) in claims_of(self.shown, me).items()}

    def _me(self, members: PeerList) -> ListMembership | None:
        member = members.member(self.state.me)
        return None if member is None else member.membership
