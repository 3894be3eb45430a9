"""Locks in the client protocol: the checks of claims, and what clients are told."""

from hopring.errors import Drop, PeerError
from hopring.groups.events import ClaimLock, LeaseRenewed, LockEnded, LockGranted, ReleaseLock
from hopring.groups.locks import CLAIMS_MAX, SESSION_CLAIMS_MAX, LockEnd
from hopring.groups.names import is_legal_group, is_legal_lock
from hopring.ids import GroupName
from hopring.session.grants import ClientRights
from hopring.session.options import NOT_ALLOWED
from hopring.session.protocol import (
    LeaseNotice,
    LockedNotice,
    LockRequest,
    UnlockedNotice,
    UnlockRequest,
)

LockOutput = LockGranted | LockEnded | LeaseRenewed

REMEDIES = {
    LockEnd.RELEASED: "",
    LockEnd.NOT_A_MEMBER: "join the group first",
    LockEnd.TOO_MANY: f"a lock has {CLAIMS_MAX} claims at most, a session {SESSION_CLAIMS_MAX}: release some",
    LockEnd.NOT_PRIMARY: "connect to a daemon on the primary side, wait for one, or lock with partial=True",
    LockEnd.VIEW: "lock it again",
    LockEnd.LEASE: "lock it again",
    LockEnd.FULL: "release locks of other names, or use fewer names in this group",
}


def claim_of(
    session: int, request: LockRequest | UnlockRequest, rights: ClientRights | None
) -> ClaimLock | ReleaseLock | UnlockedNotice:
    """The claim of a client or its end, or the refusal of a claim by the grants."""
    if isinstance(request, UnlockRequest):
        return ReleaseLock(session, request.serial)
    group = GroupName(request.group)
    if not is_legal_group(group) or not is_legal_lock(request.lock):
        raise PeerError(Drop.INCONSISTENT, f"LOCK of {request.lock!r} in {group!r}, which is no legal name")
    if rights is not None and not rights.may_lock(group):
        remedy = f"add the group to lock in [grants] for {rights.identity}"
        return UnlockedNotice(request.serial, NOT_ALLOWED, remedy)
    return ClaimLock(session, group, request.lock, request.serial, request.partial)


def notice_of(output: LockOutput) -> LockedNotice | UnlockedNotice | LeaseNotice:
    """The message for a client about its locks; it passes all events."""
    if isinstance(output, LockGranted):
        return LockedNotice(output.serial, output.fence, output.place, output.lease_us)
    if isinstance(output, LockEnded):
        return UnlockedNotice(output.serial, output.end.value, REMEDIES[output.end])
    return LeaseNotice(output.lease_us)
