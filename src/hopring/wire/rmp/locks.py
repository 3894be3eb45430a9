"""Locks of a list: numbered, with the claims of members and the fences of those that hold them (paper 3.3).

A list has all its locks, so a New List tells every member of each grant. Claims name their members by their
places in the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.wire.fields import Reader, text, u8, u16, u64
from hopring.wire.rmp.ids import ListMembership

HANDLERS: Final = 6
"""The locks with the numbers 1 to 6 are handler locks: a packet may name one, and its holder answers."""

LOCKS_MAX: Final = HANDLERS + 250
"""Limit of the locks that a list has at one time."""

LOCK_CLAIMS_MAX: Final = 256
"""Limit of the claims of one lock, the holder's included."""

LOCKS_BYTES_MAX: Final = 17_000
"""Limit of all locks of a list, encoded: they are in every New List. 250 names of 40 bytes fit."""

SERIALS_MAX: Final = 2**40
"""The highest number of a member's claims."""


FENCE_MAX: Final = 2**63 - 1
"""The highest fence; a list that has granted it grants no more."""

_LOCKS_HEAD_BYTES: Final = 10
_LOCK_HEAD_BYTES: Final = 12
_CLAIM_BYTES: Final = 11


class MemberClaim(NamedTuple):
    """A claim of a member; it may claim a lock more than once."""

    member: ListMembership
    serial: int  # Chosen by the member, which does not use it twice.
    partial: bool = False  # A grant in a list that is not primary is welcome, too.


@dataclass(frozen=True, slots=True)
class ListLock:
    """A lock that somebody claims; the first claim holds it if there is a fence."""

    number: int  # 1 to 6 are the handler locks of these names.
    name: str
    claims: tuple[MemberClaim, ...]
    fence: int = 0  # 0: nobody holds it. Negative: granted in a list that was not primary.

    @property
    def holder(self) -> MemberClaim | None:
        """The claim that holds the lock."""
        return self.claims[0] if self.fence else None


@dataclass(frozen=True, slots=True)
class ListLocks:
    """All locks of a list, by rising numbers, and the highest fence that was granted or heard."""

    locks: tuple[ListLock, ...] = ()
    fence: int = 0

    def named(self, name: str) -> ListLock | None:
        """The lock of this name, if somebody claims it."""
        return next((one for one in self.locks if one.name == name), None)

    @property
    def encoded_bytes(self) -> int:
        """The bytes that they take in a list."""
        return _LOCKS_HEAD_BYTES + sum(
            _LOCK_HEAD_BYTES + _name_bytes(one) + len(one.claims) * _CLAIM_BYTES for one in self.locks
        )


NO_LOCKS: Final = ListLocks()


def partial_fence(number: int) -> int:
    """A fence of a list that is not primary: below all others, and it counts within its side only."""
    return number - FENCE_MAX - 1


def fence_number(fence: int) -> int:
    """The number of a fence among all that its list has granted."""
    return fence if fence > 0 else fence + FENCE_MAX + 1


def is_handler(name: str) -> bool:
    """Whether this is the name of a handler lock."""
    return len(name) == 1 and "1" <= name <= str(HANDLERS)


def encode_locks(locks: ListLocks, places: dict[ListMembership, int]) -> bytes:
    """The locks of a list whose members have these places."""
    assert locks.encoded_bytes <= LOCKS_BYTES_MAX, "the locks of a list have a limit"
    parts = [u64(locks.fence), u16(len(locks.locks))]
    for lock in locks.locks:
        name = "" if lock.number <= HANDLERS else lock.name
        parts += [u8(lock.number - 1), text(name), u64(lock.fence & 2**64 - 1)]
        parts.append(u16(len(lock.claims)))
        parts += [u16(places[one.member]) + u64(one.serial) + u8(one.partial) for one in lock.claims]
    return b"".join(parts)


def read_locks(reader: Reader, members: Sequence[ListMembership]) -> ListLocks:
    """Reads locks; all claims are of these members, and no claim, name, number or fence is there twice."""
    highest = reader.number(FENCE_MAX)
    locks = ListLocks(
        tuple([_read_lock(reader, members, highest) for _ in range(reader.count(LOCKS_MAX))]), highest
    )
    numbers = [one.number for one in locks.locks]
    claims = [claim[:2] for one in locks.locks for claim in one.claims]
    fences = [one.fence for one in locks.locks if one.fence]
    if numbers != sorted(set(numbers)) or len({one.name for one in locks.locks}) != len(numbers):
        raise PeerError(Drop.INCONSISTENT, "a lock is in a list twice, or out of its place")
    if len(set(claims)) != len(claims) or len(set(fences)) != len(fences):
        raise PeerError(Drop.INCONSISTENT, "a claim or a fence is in a list twice")
    if locks.encoded_bytes > LOCKS_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"locks of {locks.encoded_bytes} bytes in a list")
    return locks


def _read_lock(reader: Reader, members: Sequence[ListMembership], highest: int) -> ListLock:
    number, name, raw = reader.u8() + 1, reader.text(), reader.nonce()
    fence = raw - 2**64 if raw >= 2**63 else raw
    if number <= HANDLERS:
        if name:
            raise PeerError(Drop.INCONSISTENT, f"handler lock {number} with the name {name!r}")
        name = str(number)
    elif not name or "\0" in name or is_handler(name):
        raise PeerError(Drop.INCONSISTENT, f"lock {number} with the name {name!r}")
    if fence and not 0 < fence_number(fence) <= highest:
        raise PeerError(Drop.INCONSISTENT, f"fence {fence} in a list whose highest is {highest}")
    claims = tuple([_read_claim(reader, members) for _ in range(reader.count(LOCK_CLAIMS_MAX))])
    if not claims:
        raise PeerError(Drop.INCONSISTENT, f"lock {name!r} that nobody claims")
    return ListLock(number, name, claims, fence)


def _read_claim(reader: Reader, members: Sequence[ListMembership]) -> MemberClaim:
    place, serial, partial = reader.u16(), reader.number(SERIALS_MAX), reader.flag()
    if place >= len(members):
        raise PeerError(Drop.INCONSISTENT, f"a claim of member {place} of {len(members)}")
    return MemberClaim(members[place], serial, partial)


def _name_bytes(lock: ListLock) -> int:
    return 0 if lock.number <= HANDLERS else len(lock.name.encode())
