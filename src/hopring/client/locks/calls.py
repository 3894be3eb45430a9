"""The calls for locks as generators, shared by the asyncio and the blocking session, with their checks."""

from hopring.client.arguments import check_flag, check_seconds, got
from hopring.client.calls import Call, Wait, until_us
from hopring.client.core import ClientCore
from hopring.client.errors import (
    LockLost,
    LockNotHeld,
    LockRefused,
    LockTimedOut,
    NotAllowed,
    NotMember,
    NotPrimary,
    WrongType,
    WrongValue,
)
from hopring.client.locks.claims import ClaimedLock
from hopring.groups.locks import LockEnd
from hopring.groups.names import LOCK_NAME_BYTES_MAX, is_legal_lock
from hopring.session.options import NOT_ALLOWED


def claim_of(group: str, name: object, seconds: object, partial: object) -> ClaimedLock:
    """Checks the arguments of `lock`."""
    check_name(name)
    check_seconds("timeout_seconds", seconds)
    check_flag("partial", partial)
    return ClaimedLock(group, str(name), bool(partial))


def check_name(name: object) -> None:
    """Checks the name of a lock."""
    remedy = f"give a str of 1 to {LOCK_NAME_BYTES_MAX} bytes of UTF-8 without NUL"
    if not isinstance(name, str):
        raise WrongType("name", got(name), remedy)
    if not is_legal_lock(name):
        raise WrongValue("name", f"got {name!r}", remedy)


def lock(core: ClientCore, claim: ClaimedLock, now_us: int, seconds: float | None) -> Call[int]:
    """Waits until the claim holds its lock; returns the fence. Otherwise the claim is given up."""
    end_us = until_us(now_us, seconds)
    try:
        while claim.fence is None:
            now_us = yield from _wait_for(core, claim, now_us, end_us, seconds or 0.0)
        if claim.ended:
            raise lost(claim)
        return claim.fence.number
    except BaseException:
        core.unlock(claim)
        raise


def _wait_for(core: ClientCore, claim: ClaimedLock, now_us: int, end_us: int, seconds: float) -> Call[int]:
    """Makes the claim and waits for its answer; returns early if it has to be made again."""
    while not _may_lock(core, claim):
        if now_us >= end_us:
            raise LockTimedOut(claim.group, claim.lock, seconds)
        now_us = yield Wait(lambda: _may_lock(core, claim), end_us)
    core.lock(claim)
    while not claim.settled and claim.serial:
        if core.ended is not None:
            raise core.ended
        if now_us >= end_us:
            raise LockTimedOut(claim.group, claim.lock, seconds)
        now_us = yield Wait(lambda: claim.settled or not claim.serial or core.ended is not None, end_us)
    if claim.ended == LockEnd.VIEW.value:
        claim.ended, claim.fence = "", None
    if claim.ended and claim.fence is None:
        raise _refusal(core, claim)
    return now_us


def _may_lock(core: ClientCore, claim: ClaimedLock) -> bool:
    if claim.group not in core.groups:
        raise NotMember(claim.group, "not a member", "join the group first")
    return core.may_ask()


def _refusal(core: ClientCore, claim: ClaimedLock) -> Exception:
    if claim.ended == LockEnd.NOT_PRIMARY.value:
        reason = f"lock {claim.lock!r} of group {claim.group!r}: the daemon's view is not primary"
        return NotPrimary(reason, claim.remedy)
    if claim.ended == LockEnd.NOT_A_MEMBER.value:
        return NotMember(claim.group, claim.ended, claim.remedy)
    if claim.ended == NOT_ALLOWED:
        return NotAllowed(core.connection.url, claim.ended, claim.remedy, "lock", claim.group)
    return LockRefused(claim.group, claim.lock, claim.ended, claim.remedy)


def lost(claim: ClaimedLock) -> LockLost:
    """The error for a lock that was lost."""
    fence = claim.fence
    return LockLost(claim.group, claim.lock, 0 if fence is None else fence.number, claim.ended)


def claim_held(core: ClientCore, group: str, name: object, fence: object) -> ClaimedLock:
    """The claim of this session that holds this lock with this fence."""
    check_name(name)
    if not isinstance(fence, int) or isinstance(fence, bool):
        raise WrongType("fence", got(fence), "give the int that the lock returned")
    mine = [one for one in core.state.locks.claims.values() if one.fence is not None]
    found = [one for one in mine if one.fence is not None and one.fence.number == fence]
    if any((one.group, one.lock) == (group, name) for one in found):
        return found[0]
    reason = "this session does not hold it"
    if found:
        reason = f"the fence is that of {found[0].lock!r} of group {found[0].group!r}"
    elif any((one.group, one.lock) == (group, name) for one in mine):
        reason = "the fence is that of another grant"
    raise LockNotHeld(group, str(name), reason)
