"""The toolkit's calls for group ids and for the bodies of membership messages. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hopring.compat.constants import CAUSED_BY_NETWORK, Code
from hopring.compat.requests import decode_text
from hopring.errors import PeerError
from hopring.spread.deliveries import NATIVE, is_membership, is_view
from hopring.spread.membership import (
    COUNT_BYTES,
    ID_AT,
    OWN_OFFSET_AT,
    SETS_AT,
    SETS_COUNT_AT,
    GroupId,
    SetAt,
    SpreadViewBody,
    decode_id,
    decode_view,
    names_at,
)
from hopring.spread.membership import GroupId as group_id

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


def _view_info(body: bytes, view: SpreadViewBody, bits: int) -> MembershipInfo:
    # Beside the network's, every change is one member's: the only one of the only set.
    changed = () if bits & CAUSED_BY_NETWORK else names_at(body, view.sets[0])[:1]
    own = vs_set_info(*view.sets[view.own])
    return MembershipInfo(1, view.group_id, "".join(map(decode_text, changed)), len(view.sets), own)


__all__ = [
    "MembershipInfo",
    "SP_equal_group_ids",
    "SP_get_first_vs_set_offset_memb_mess",
    "SP_get_gid_offset_memb_mess",
    "SP_get_memb_info",
    "SP_get_num_vs_sets_offset_memb_mess",
    "SP_get_offset_to_local_vs_set_offset",
    "SP_get_vs_set_members",
    "SP_get_vs_set_members_offset_vs_set",
    "SP_get_vs_set_size_offset_vs_set",
    "SP_get_vs_sets_info",
    "SP_scat_get_memb_info",
    "SP_scat_get_vs_set_members",
    "SP_scat_get_vs_sets_info",
    "SetMembers",
    "SetsInfo",
    "group_id",
    "vs_set_info",
]

Bytes = bytes | bytearray | memoryview


def SP_equal_group_ids(g1: group_id, g2: group_id) -> int:
    """1 if they are ids of the same view."""
    return int(tuple(g1) == tuple(g2))


def SP_get_memb_info(memb_mess: Bytes, service_type: int) -> MembershipInfo:
    """The group id, who joined or left, and the set of those who came with this session."""
    return membership_info(bytes(memb_mess), service_type)


def SP_get_vs_sets_info(memb_mess: Bytes, num_vs_sets: int | None = None) -> SetsInfo:
    """All sets of a view, if there are at most so many."""
    return sets_info(bytes(memb_mess), num_vs_sets)


def SP_get_vs_set_members(
    memb_mess: Bytes, vs_set: vs_set_info, member_names_count: int | None = None
) -> SetMembers:
    """The names in one of them, if there are at most so many."""
    return set_members(bytes(memb_mess), vs_set, member_names_count)


def SP_scat_get_memb_info(memb_mess_scat: Sequence[Bytes], service_type: int) -> MembershipInfo:
    """As SP_get_memb_info, of the buffers of SP_scat_receive."""
    return SP_get_memb_info(b"".join(memb_mess_scat), service_type)


def SP_scat_get_vs_sets_info(memb_mess_scat: Sequence[Bytes], num_vs_sets: int | None = None) -> SetsInfo:
    """As SP_get_vs_sets_info."""
    return SP_get_vs_sets_info(b"".join(memb_mess_scat), num_vs_sets)


def SP_scat_get_vs_set_members(
    memb_mess_scat: Sequence[Bytes], vs_set: vs_set_info, member_names_count: int | None = None
) -> SetMembers:
    """As SP_get_vs_set_members."""
    return SP_get_vs_set_members(b"".join(memb_mess_scat), vs_set, member_names_count)


def SP_get_gid_offset_memb_mess() -> int:
    """Where the group id is in a membership message."""
    return ID_AT


def SP_get_num_vs_sets_offset_memb_mess() -> int:
    """Where the number of sets is."""
    return SETS_COUNT_AT


def SP_get_offset_to_local_vs_set_offset() -> int:
    """Where it says at which byte of the sets the receiver's own begins."""
    return OWN_OFFSET_AT


def SP_get_first_vs_set_offset_memb_mess() -> int:
    """Where the sets begin."""
    return SETS_AT


def SP_get_vs_set_size_offset_vs_set() -> int:
    """Where in a set the number of its members is."""
    return 0


def SP_get_vs_set_members_offset_vs_set() -> int:
    """Where in a set its names begin."""
    return COUNT_BYTES
