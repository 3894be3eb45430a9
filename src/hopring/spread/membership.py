"""Membership messages: regular views with their virtual-synchrony sets, transitional signals, own leaves."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from hopring.groups.events import Cause
from hopring.spread.bits import CAUSES, Bits
from hopring.spread.frames import NAME_BYTES, encode_frame, encode_name, hint_of

_WORDS: Final = Struct("<III")
_SETS: Final = Struct("<II")
_COUNT: Final = Struct("<I")


class GroupId(NamedTuple):
    """The three words by which these clients compare views."""

    daemon: int
    time: int
    step: int


class Sets(NamedTuple):
    """Who came from where, and which of the sets is the receiver's own."""

    sets: tuple[tuple[str, ...], ...]
    own: int


def view(group: str, group_id: GroupId, members: tuple[str, ...], cause: Cause, sets: Sets) -> bytes:
    """A regular membership message."""
    offset = sum(_COUNT.size + NAME_BYTES * len(one) for one in sets.sets[: sets.own])
    body = [_WORDS.pack(*group_id), _SETS.pack(len(sets.sets), offset)]
    for one in sets.sets:
        body.append(_COUNT.pack(len(one)))
        body.extend(map(encode_name, one))
    return encode_frame(Bits.REG_MEMB | CAUSES[cause], group, members, hint_of(0), b"".join(body))


def signal(group: str, group_id: GroupId) -> bytes:
    """A transitional message: the view of this id is closing."""
    return encode_frame(Bits.TRANSITION, group, (), hint_of(0), _WORDS.pack(*group_id))


def own_leave(group: str) -> bytes:
    """What a session is told of its own leave."""
    return encode_frame(Bits.CAUSED_BY_LEAVE, group, (), hint_of(0), b"")


def names_of(fields: Sequence[str]) -> tuple[str, ...]:
    """Only names that fit: of others these clients could not speak."""
    return tuple([one for one in fields if len(one.encode()) < NAME_BYTES and one.isascii()])
