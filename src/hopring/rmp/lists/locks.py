"""Locks as pure functions from list to list: claims, releases, and grants with fences.

Implements  Whetten, Montgomery, Kaplan, 3.3 and 4.5: six handler locks, and locks of other names.
Below       locks as lists have them (wire.rmp.locks); whether a list is primary (quorum).
Above       changes.py, which settles the locks of every new list; the ring, which tells its process.
Invariants  a lock has one holder in each list: its first claim, if it has a fence. Every grant has a fence
            above all that the list ever granted or heard of. Claims are of members. A list that is not primary
            grants to claims that accept that only, and a holder of one kind of list loses its lock in one of
            the other kind. A lock without claims is in no list, and its number is free.
Deviations  the paper refuses a lock that is taken, which costs every waiter a request for each release; here
            claims wait, as many as LOCK_CLAIMS_MAX. It does not say what becomes of locks of the dead and of
            the parted (trap 24): the list that drops a holder releases them.
"""

from dataclasses import replace
from typing import Final

from hopring.groups.locks import LockEnd
from hopring.rmp.events import RingLockEnded, RingLockGranted
from hopring.rmp.lists.quorum import is_quorate
from hopring.wire.rmp.ids import ListMembership
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.locks import (
    FENCE_MAX,
    HANDLERS,
    LOCK_CLAIMS_MAX,
    LOCKS_BYTES_MAX,
    LOCKS_MAX,
    ListLock,
    ListLocks,
    MemberClaim,
    is_handler,
    partial_fence,
)

_FENCE_STEPS_BITS: Final = 20


def first_fence(wall_clock_ms: int, heard: int = 0) -> int:
    """Where the fences of a founded ring start: above those of earlier rings, if the clock was not set back."""
    return max(0, heard, min(wall_clock_ms << _FENCE_STEPS_BITS, FENCE_MAX >> 1))


def refusal(members: PeerList, name: str, claim: MemberClaim) -> LockEnd | None:
    """The reason why the list after this one does not have the claim, or None if it does."""
    if not is_quorate(members) and not claim.partial:
        return LockEnd.NOT_PRIMARY
    lock = members.locks.named(name)
    if lock is not None and len(lock.claims) >= LOCK_CLAIMS_MAX:
        return LockEnd.TOO_MANY
    number = _first_free(members.locks, name) if lock is None else lock.number
    if number > LOCKS_MAX or _with_claim(members.locks, number, name, claim).encoded_bytes > LOCKS_BYTES_MAX:
        return LockEnd.FULL
    return None


def claimed(members: PeerList, name: str, claim: MemberClaim) -> ListLocks:
    """The locks with one more claim, or the same ones if it is refused."""
    locks = members.locks
    again = any(claim[:2] == one[:2] for lock in locks.locks for one in lock.claims)
    if again or refusal(members, name, claim) is not None:
        return locks
    lock = locks.named(name)
    return _with_claim(locks, _first_free(locks, name) if lock is None else lock.number, name, claim)


def released(locks: ListLocks, member: ListMembership, serial: int) -> ListLocks:
    """The locks without a claim, whether it held its lock or waited."""
    return replace(locks, locks=tuple([_without(lock, member, serial) for lock in locks.locks]))


def settled_locks(members: PeerList) -> PeerList:
    """The same list, in which those that may not claim any more do not, and free locks are granted."""
    primary, present = is_quorate(members), members.memberships
    highest, out = members.locks.fence, []
    for lock in members.locks.locks:
        held = lock.holder
        claims = [
            one
            for one in lock.claims
            if one.member in present and _may_stay(one, lock.fence if one is held else 0, primary)
        ]
        fence = lock.fence if claims and claims[0] is held else 0
        if claims and not fence and highest < FENCE_MAX:
            highest += 1
            fence = highest if primary else partial_fence(highest)
        if claims:
            out.append(replace(lock, claims=tuple(claims), fence=fence))
    return replace(members, locks=ListLocks(tuple(out), highest))


def handler_holder(members: PeerList, handler: int) -> MemberClaim | None:
    """The member that answers packets with this handler, if there is one."""
    lock = members.locks.named(str(handler))
    return None if lock is None else lock.holder


def lock_news(
    before: PeerList | None, after: PeerList, me: ListMembership
) -> list[RingLockGranted | RingLockEnded]:
    """What a new list means to one member: the locks that it holds from here on, and the claims that end."""
    had = {} if before is None else claims_of(before, me)
    has = claims_of(after, me) if me in after.memberships else {}
    out: list[RingLockGranted | RingLockEnded] = []
    for serial, (lock, fence, claim) in had.items():
        if serial not in has:
            out.append(RingLockEnded(lock, serial, _end(after, me, claim, fence).value))
    for serial, (lock, fence, _) in has.items():
        if fence and had.get(serial, (lock, 0))[1] != fence:
            out.append(RingLockGranted(lock, serial, fence, after.id.timestamp))
    return out


def claims_of(members: PeerList, me: ListMembership) -> dict[int, tuple[str, int, MemberClaim]]:
    """A member's claims by serial, each with its lock, and with the fence if it holds it."""
    return {
        one.serial: (lock.name, lock.fence if one is lock.holder else 0, one)
        for lock in members.locks.locks
        for one in lock.claims
        if one.member == me
    }


def _end(after: PeerList, me: ListMembership, claim: MemberClaim, fence: int) -> LockEnd:
    if me not in after.memberships:
        return LockEnd.NOT_A_MEMBER
    primary = is_quorate(after)
    if _may_stay(claim, fence, primary):
        return LockEnd.RELEASED
    return LockEnd.VIEW if primary else LockEnd.NOT_PRIMARY


def _may_stay(claim: MemberClaim, fence: int, primary: bool) -> bool:
    """Whether a claim, which holds its lock if it has a fence, may be in a list that is primary or not."""
    if fence:
        return primary == (fence > 0)
    return primary or claim.partial


def _first_free(locks: ListLocks, name: str) -> int:
    """The number for a new lock; above LOCKS_MAX if there is none."""
    if is_handler(name):
        return int(name)
    taken = {one.number for one in locks.locks}
    return next(number for number in range(HANDLERS + 1, LOCKS_MAX + 2) if number not in taken)


def _with_claim(locks: ListLocks, number: int, name: str, claim: MemberClaim) -> ListLocks:
    present = {one.number: one for one in locks.locks}
    lock = present.get(number, ListLock(number, name, ()))
    present[number] = replace(lock, claims=(*lock.claims, claim))
    return replace(locks, locks=tuple([present[at] for at in sorted(present)]))


def _without(lock: ListLock, member: ListMembership, serial: int) -> ListLock:
    kept = tuple([one for one in lock.claims if (one.member, one.serial) != (member, serial)])
    held = lock.holder
    return replace(lock, claims=kept, fence=lock.fence if kept and kept[0] is held else 0)
