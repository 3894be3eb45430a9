"""Bodies of membership messages, read: group id and virtual-synchrony sets, each step within the body."""

from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.spread.deliveries import ByteOrder, cut
from hopring.spread.frames import NAME_BYTES
from hopring.spread.membership import GroupId

ID_AT: Final = 0
SETS_COUNT_AT: Final = 12
OWN_OFFSET_AT: Final = 16
SETS_AT: Final = 20
COUNT_BYTES: Final = 4

_IDS: Final = {"little": Struct("<III"), "big": Struct(">III")}
_FIXED: Final = {"little": Struct("<IIIII"), "big": Struct(">IIIII")}


class SetAt(NamedTuple):
    """Where a set's names are in the body."""

    members_count: int
    at: int


class ViewBody(NamedTuple):
    """What a regular membership message says beside its members."""

    group_id: GroupId
    sets: tuple[SetAt, ...]
    own: int  # Which of them is the receiver's.


def decode_id(body: bytes, order: ByteOrder) -> GroupId:
    """The id in front of a body; all that a transitional signal has."""
    if len(body) < SETS_COUNT_AT:
        raise PeerError(Drop.TRUNCATED, f"a group id in {len(body)} bytes")
    return GroupId(*_IDS[order].unpack_from(body))


def decode_view(body: bytes, order: ByteOrder) -> ViewBody:
    """A whole body; every set has to be in it, and the receiver's has to be one of them."""
    if len(body) < SETS_AT:
        raise PeerError(Drop.TRUNCATED, f"a view in {len(body)} bytes")
    daemon, time, step, count, offset = _FIXED[order].unpack_from(body)
    sets: list[SetAt] = []
    starts: list[int] = []
    at = SETS_AT
    # Each set has at least its count, so that this ends with the body whatever count says.
    while len(sets) < count:
        starts.append(at - SETS_AT)
        found = set_at(body, at, order)
        sets.append(found)
        at = found.at + NAME_BYTES * found.members_count
    if offset not in starts:
        raise PeerError(Drop.INCONSISTENT, f"own set at {offset}, where none begins")
    return ViewBody(GroupId(daemon, time, step), tuple(sets), starts.index(offset))


def set_at(body: bytes, at: int, order: ByteOrder) -> SetAt:
    """The set whose count stands there."""
    first = at + COUNT_BYTES
    if first > len(body):
        raise PeerError(Drop.TRUNCATED, f"a set at {at} of {len(body)} bytes")
    count = int.from_bytes(body[at:first], order)
    if count > (len(body) - first) // NAME_BYTES:
        raise PeerError(Drop.LENGTH, f"{count} names behind byte {first} of {len(body)}")
    return SetAt(count, first)


def names_at(body: bytes, names: SetAt) -> tuple[bytes, ...]:
    """The names of a set, which has to be within the body."""
    end = names.at + NAME_BYTES * names.members_count
    if names.at < 0 or names.members_count < 0 or end > len(body):
        raise PeerError(Drop.LENGTH, f"{names.members_count} names at {names.at} of {len(body)} bytes")
    return tuple([cut(body[at : at + NAME_BYTES]) for at in range(names.at, end, NAME_BYTES)])


def turned(body: bytes, order: ByteOrder, into: ByteOrder, *, view: bool) -> bytes:
    """The body with its words in another byte order; one that cannot be read stays as it came."""
    if order == into:
        return body
    try:
        ends = _word_offsets(body, order) if view else range(0, len(decode_id(body, order)) * 4, 4)
    except PeerError:
        return body
    out = bytearray(body)
    for at in ends:
        out[at : at + 4] = body[at : at + 4][::-1]
    return bytes(out)


def _word_offsets(body: bytes, order: ByteOrder) -> list[int]:
    sets = decode_view(body, order).sets
    return [*range(0, SETS_AT, 4), *[one.at - COUNT_BYTES for one in sets]]
