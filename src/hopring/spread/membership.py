"""Membership messages: regular views with their virtual-synchrony sets, transitional signals, own leaves."""

from hashlib import blake2s
from struct import Struct
from typing import Final, NamedTuple

from hopring.groups.events import Cause
from hopring.groups.names import GroupViewId
from hopring.spread.bits import CAUSES, Bits
from hopring.spread.frames import NAME_BYTES, encode_frame, encode_name, hint_of

_WORDS: Final = Struct("<III")
_SETS: Final = Struct("<II")
_COUNT: Final = Struct("<I")
_VIEW: Final = Struct("<QHQ")


class GroupId(NamedTuple):
    """The three words by which these clients compare views."""

    daemon: int
    time: int
    step: int


def group_id(view: GroupViewId) -> GroupId:
    """The same three words for the same view, wherever it is shown, and others for every other view.

    The first stands for the daemons' view and the way of those who left it together, as a hash, like the id of
    a daemon in Spread 5. The second is that view's counter, in the place of a time. The third is the step.
    """
    made = (view.view, *view.path)
    words = b"".join([_VIEW.pack(one.counter, one.representative, one.nonce) for one in made])
    return GroupId(
        int.from_bytes(blake2s(words, digest_size=4).digest(), "little"),
        view.view.counter & 0x7FFFFFFF,
        view.step & 0x7FFFFFFF,
    )


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
