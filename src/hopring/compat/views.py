"""What a program asks of the body of a membership message. Pure.

Bodies come from `SP_receive`, with words in this machine's order. One that says what does not fit into it is
ILLEGAL_MESSAGE.
"""

from typing import Final, NamedTuple

from hopring.compat.asking import decode_text
from hopring.compat.constants import CAUSED_BY_NETWORK, Code
from hopring.errors import PeerError
from hopring.spread.deliveries import NATIVE, is_membership, is_view
from hopring.spread.membership import GroupId
from hopring.spread.view_bodies import SetAt, ViewBody, decode_id, decode_view, names_at

NO_ID: Final = GroupId(0, 0, 0)


class vs_set_info(NamedTuple):
    """A virtual-synchrony set: how many came together, and where their names are in the body."""

    num_members: int = 0
    members_offset: int = 0


class MembershipInfo(NamedTuple):
    """What a membership message says beside the list of members."""

    ret: int
    gid: GroupId = NO_ID
    changed_member: str = ""
    num_vs_sets: int = 0
    my_vs_set: vs_set_info = vs_set_info()


class SetsInfo(NamedTuple):
    """All sets, and which of them is the receiver's."""

    ret: int
    vs_sets: tuple[vs_set_info, ...] = ()
    my_vs_set_index: int = 0


class SetMembers(NamedTuple):
    """Who is in a set."""

    ret: int
    member_names: tuple[str, ...] = ()


def membership_info(body: bytes, bits: int) -> MembershipInfo:
    """1 in front if it could be read."""
    if not is_membership(bits):
        return MembershipInfo(Code.ILLEGAL_MESSAGE)
    try:
        if is_view(bits):
            return _view_info(body, decode_view(body, NATIVE), bits)
        # The own leave has no body at all.
        return MembershipInfo(1, decode_id(body, NATIVE) if body else NO_ID)
    except PeerError:
        return MembershipInfo(Code.ILLEGAL_MESSAGE)


def sets_info(body: bytes, count_max: int | None) -> SetsInfo:
    """Their number in front, if there is room for as many."""
    try:
        view = decode_view(body, NATIVE)
    except PeerError:
        return SetsInfo(Code.ILLEGAL_MESSAGE)
    if count_max is not None and count_max < len(view.sets):
        return SetsInfo(Code.BUFFER_TOO_SHORT)
    return SetsInfo(len(view.sets), tuple([vs_set_info(*one) for one in view.sets]), view.own)


def set_members(body: bytes, one: vs_set_info, count_max: int | None) -> SetMembers:
    """Their number in front, if there is room for as many."""
    if count_max is not None and count_max < one.num_members:
        return SetMembers(Code.BUFFER_TOO_SHORT)
    try:
        names = names_at(body, SetAt(*one))
    except PeerError:
        return SetMembers(Code.ILLEGAL_MESSAGE)
    return SetMembers(len(names), tuple(map(decode_text, names)))


def _view_info(body: bytes, view: ViewBody, bits: int) -> MembershipInfo:
    # Beside the network's, every change is one member's: the only one of the only set.
    changed = () if bits & CAUSED_BY_NETWORK else names_at(body, view.sets[0])[:1]
    own = vs_set_info(*view.sets[view.own])
    return MembershipInfo(1, view.group_id, "".join(map(decode_text, changed)), len(view.sets), own)
