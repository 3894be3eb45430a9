"""Lists: the membership views of RMP, in the order in which the token is passed (paper 3.1).

A list also has what changes with it in the order: locks, and the sources that are not members (paper 4.5). A
vote tells lists in a *bare* form, of which members, their minimum and the highest fence are left: all the lists
of a vote fit in one packet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.wire.fields import MEMBER_NAME_BYTES_MAX, Reader, text, u8, u16, u64
from hopring.wire.rmp.ids import (
    SEQ_MAX,
    TIMESTAMP_MAX,
    Ballot,
    ListMembership,
    PeerProcess,
    encode_ballot,
    encode_process,
    read_ballot,
    read_process,
)
from hopring.wire.rmp.locks import FENCE_MAX, NO_LOCKS, ListLocks, encode_locks, read_locks

MEMBERS_MAX: Final = 256
"""The longest list. It is in every New List packet, so a longer one would not fit a train."""

STRANGERS_MAX: Final = 128
"""Limit of the sources in a list that are not members."""

REQUESTS_MAX: Final = 2**40
"""The highest number of a process's requests."""

MINIMUM_MAJORITY: Final = 254
"""Instead of a number: a majority of the list that broke."""

MINIMUM_ALL: Final = 255
"""Instead of a number: all of the list that broke."""


@dataclass(frozen=True, slots=True)
class ListMember:
    """A member of a list, with what it stated when it joined."""

    process: PeerProcess
    joined: int  # The number of the request by which it joined.
    minimum: int  # The fewest members that may go on, or MINIMUM_MAJORITY or MINIMUM_ALL.
    ttl: int
    capable: bool  # It receives multicasts.
    request: int  # The number of its last request that was carried out (trap 9).
    seq: int  # The number of its last Data packet in the order, before this list.
    name: str = ""  # Of its session; empty if it only sends, and is not shown in views.

    @property
    def membership(self) -> ListMembership:
        """The process with the number of its join."""
        return ListMembership(self.process, self.joined)


@dataclass(frozen=True, slots=True)
class ListId:
    """The id of a list: its epoch, and its timestamp there."""

    epoch: Ballot
    timestamp: int


@dataclass(frozen=True, slots=True)
class ListStranger:
    """A source that is not a member, of which the order has packets."""

    process: PeerProcess
    seq: int  # The number of its last packet in the order, before this list.


@dataclass(frozen=True, slots=True)
class PeerList:
    """A list of members in ring order."""

    id: ListId
    members: tuple[ListMember, ...]
    locks: ListLocks = NO_LOCKS
    strangers: tuple[ListStranger, ...] = ()  # The one that was ordered least recently is the first.

    @property
    def processes(self) -> tuple[PeerProcess, ...]:
        """The members' processes in ring order."""
        return tuple([member.process for member in self.members])

    @property
    def memberships(self) -> frozenset[ListMembership]:
        """The members, as a set of memberships."""
        return frozenset([member.membership for member in self.members])

    def __contains__(self, process: PeerProcess) -> bool:
        return any(member.process == process for member in self.members)

    def __len__(self) -> int:
        return len(self.members)

    def member(self, process: PeerProcess) -> ListMember | None:
        """The member with this process, if there is one."""
        return next((member for member in self.members if member.process == process), None)

    @property
    def minimum(self) -> int:
        """The largest minimum of the members; MAJORITY and ALL are above all numbers."""
        return max([member.minimum for member in self.members], default=1)

    @property
    def ttl(self) -> int:
        """The largest TTL that a member asked for."""
        return max([member.ttl for member in self.members], default=0)


def encode_list_id(one: ListId) -> bytes:
    """The id of a list in 30 bytes."""
    return encode_ballot(one.epoch) + u64(one.timestamp)


def read_list_id(reader: Reader) -> ListId:
    """Reads the id of a list."""
    return ListId(read_ballot(reader), reader.number(TIMESTAMP_MAX))


def encode_list(one: PeerList) -> bytes:
    """A list with all its members, locks and strangers."""
    assert len(one) <= MEMBERS_MAX, "a list has a limit"
    parts = [encode_list_id(one.id), u16(len(one))]
    for member in one.members:
        parts += [encode_process(member.process), u64(member.joined), u64(member.request), u64(member.seq)]
        parts += [u8(member.minimum), u8(member.ttl), u8(member.capable), text(member.name)]
    places = {member.membership: place for place, member in enumerate(one.members)}
    parts += [encode_locks(one.locks, places), u16(len(one.strangers))]
    parts += [encode_process(stranger.process) + u64(stranger.seq) for stranger in one.strangers]
    return b"".join(parts)


def read_list(reader: Reader) -> PeerList:
    """Reads a list; nobody is in it twice, and no member is a stranger."""
    list_id = read_list_id(reader)
    members = tuple([_read_member(reader) for _ in range(reader.count(MEMBERS_MAX))])
    locks = read_locks(reader, [member.membership for member in members])
    strangers = tuple([_read_stranger(reader) for _ in range(reader.count(STRANGERS_MAX))])
    _check_processes([*members, *strangers])
    return PeerList(list_id, members, locks, strangers)


def encode_bare_list(one: PeerList) -> bytes:
    """A list with memberships and minimum only."""
    assert len(one) <= MEMBERS_MAX, "a list has a limit"
    parts = [encode_list_id(one.id), u8(one.minimum), u64(one.locks.fence), u16(len(one))]
    parts += [encode_process(member.process) + u64(member.joined) for member in one.members]
    return b"".join(parts)


def read_bare_list(reader: Reader) -> PeerList:
    """Reads a bare list; all its members have its minimum."""
    list_id, minimum, fence = read_list_id(reader), _read_minimum(reader), reader.number(FENCE_MAX)
    members: list[ListMember] = []
    for _ in range(reader.count(MEMBERS_MAX)):
        process, joined = read_process(reader), reader.number(REQUESTS_MAX)
        members.append(ListMember(process, joined, minimum, 0, False, joined, 0))
    _check_processes(members)
    return PeerList(list_id, tuple(members), ListLocks(fence=fence))


def bare(one: PeerList) -> PeerList:
    """A list as a vote tells it."""
    members = [
        ListMember(*member.membership, one.minimum, 0, False, member.joined, 0) for member in one.members
    ]
    return PeerList(one.id, tuple(members), ListLocks(fence=one.locks.fence))


def _check_processes(sources: Sequence[ListMember | ListStranger]) -> None:
    if len({one.process for one in sources}) != len(sources):
        raise PeerError(Drop.INCONSISTENT, "a process is in a list twice")


def _read_member(reader: Reader) -> ListMember:
    process = read_process(reader)
    joined, request, seq = reader.number(REQUESTS_MAX), reader.number(REQUESTS_MAX), reader.number(SEQ_MAX)
    minimum, ttl, capable = _read_minimum(reader), reader.u8(), reader.flag()
    return ListMember(process, joined, minimum, ttl, capable, request, seq, reader.text(MEMBER_NAME_BYTES_MAX))


def _read_minimum(reader: Reader) -> int:
    minimum = reader.u8()
    if not minimum:
        raise PeerError(Drop.INCONSISTENT, "a member with a minimum of 0")
    return minimum


def _read_stranger(reader: Reader) -> ListStranger:
    return ListStranger(read_process(reader), reader.number(SEQ_MAX))
