"""Membership messages of Spread, encoded and decoded: views with virtual-synchrony sets, signals, own leaves.

Every step of decoding stays within the body.
"""

from hashlib import blake2s
from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.events import Cause
from hopring.groups.names import GroupViewId
from hopring.spread.bits import CAUSES, Bits
from hopring.spread.deliveries import ByteOrder, cut
from hopring.spread.frames import NAME_BYTES, encode_frame, encode_name, hint_of

_WORDS: Final = Struct("<III")
_SETS: Final = Struct("<II")
_COUNT: Final = Struct("<I")
_VIEW: Final = Struct("<QHQ")


class GroupId(NamedTuple):
    """The three integers by which Spread clients compare views."""

    daemon: int
    time: int
    step: int


def group_id(view: GroupViewId) -> GroupId:
    """The id of a view: the same at all daemons, and different for every other view.

    The first is a hash of the daemons' view and of the closing path since then, like the id of a daemon in
    Spread 5. The second is that view's counter, in the place of a time. The third is the step.
    """
    made = (view.view, *view.path)
    ids = b"".join([_VIEW.pack(one.counter, one.representative, one.nonce) for one in made])
    return GroupId(
        int.from_bytes(blake2s(ids, digest_size=4).digest(), "little"),
        view.view.counter & 0x7FFFFFFF,
        view.step & 0x7FFFFFFF,
    )


class Sets(NamedTuple):
    """The virtual-synchrony sets of a view, and the index of the receiver's own."""

    sets: tuple[tuple[str, ...], ...]
    own: int


def encode_view(group: str, group_id: GroupId, members: tuple[str, ...], cause: Cause, sets: Sets) -> bytes:
    """Encodes a regular membership message."""
    offset = sum(_COUNT.size + NAME_BYTES * len(one) for one in sets.sets[: sets.own])
    body = [_WORDS.pack(*group_id), _SETS.pack(len(sets.sets), offset)]
    for one in sets.sets:
        body.append(_COUNT.pack(len(one)))
        body.extend(map(encode_name, one))
    return encode_frame(Bits.REG_MEMB | CAUSES[cause], group, members, hint_of(0), b"".join(body))


def encode_signal(group: str, group_id: GroupId) -> bytes:
    """Encodes a transitional message: the view of this id is closing."""
    return encode_frame(Bits.TRANSITION, group, (), hint_of(0), _WORDS.pack(*group_id))


def encode_own_leave(group: str) -> bytes:
    """Encodes the message for a session's own leave."""
    return encode_frame(Bits.CAUSED_BY_LEAVE, group, (), hint_of(0), b"")


ID_AT: Final = 0
SETS_COUNT_AT: Final = 12
OWN_OFFSET_AT: Final = 16
SETS_AT: Final = 20
COUNT_BYTES: Final = 4

_IDS: Final = {"little": Struct("<III"), "big": Struct(">III")}
_FIXED: Final = {"little": Struct("<IIIII"), "big": Struct(">IIIII")}


class SetAt(NamedTuple):
    """The position of a set's names in the body."""

    members_count: int
    at: int


class SpreadViewBody(NamedTuple):
    """The body of a regular membership message."""

    group_id: GroupId
    sets: tuple[SetAt, ...]
    own: int  # The index of the receiver's set.


def decode_id(body: bytes, order: ByteOrder) -> GroupId:
    """Decodes the id at the start of a body; a transitional signal has nothing else."""
    if len(body) < SETS_COUNT_AT:
        raise PeerError(Drop.TRUNCATED, f"a group id in {len(body)} bytes")
    return GroupId(*_IDS[order].unpack_from(body))


def decode_view(body: bytes, order: ByteOrder) -> SpreadViewBody:
    """Decodes a body; every set has to be within it, and the receiver's has to be one of them."""
    if len(body) < SETS_AT:
        raise PeerError(Drop.TRUNCATED, f"a view in {len(body)} bytes")
    daemon, time, step, count, offset = _FIXED[order].unpack_from(body)
    sets: list[SetAt] = []
    starts: list[int] = []
    at = SETS_AT
    # Each set has at least its count, so the loop ends with the body whatever `count` is.
    while len(sets) < count:
        starts.append(at - SETS_AT)
        found = set_at(body, at, order)
        sets.append(found)
        at = found.at + NAME_BYTES * found.members_count
    if offset not in starts:
        raise PeerError(Drop.INCONSISTENT, f"own set at {offset}, where none begins")
    return SpreadViewBody(GroupId(daemon, time, step), tuple(sets), starts.index(offset))


def set_at(body: bytes, at: int, order: ByteOrder) -> SetAt:
    """Decodes the position and size of the set at this offset."""
    first = at + COUNT_BYTES
    if first > len(body):
        raise PeerError(Drop.TRUNCATED, f"a set at {at} of {len(body)} bytes")
    count = int.from_bytes(body[at:first], order)
    if count > (len(body) - first) // NAME_BYTES:
        raise PeerError(Drop.LENGTH, f"{count} names behind byte {first} of {len(body)}")
    return SetAt(count, first)


def names_at(body: bytes, names: SetAt) -> tuple[bytes, ...]:
    """Decodes the names of a set, which has to be within the body."""
    end = names.at + NAME_BYTES * names.members_count
    if names.at < 0 or names.members_count < 0 or end > len(body):
        raise PeerError(Drop.LENGTH, f"{names.members_count} names at {names.at} of {len(body)} bytes")
    return tuple([cut(body[at : at + NAME_BYTES]) for at in range(names.at, end, NAME_BYTES)])


def in_byte_order(body: bytes, order: ByteOrder, into: ByteOrder, *, view: bool) -> bytes:
    """Converts a body to another byte order; an invalid one stays as it is."""
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
