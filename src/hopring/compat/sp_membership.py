"""Calls that decode a message: its type (`Is_regular_mess` and others), group ids, memberships. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hopring.compat import constants as c
from hopring.compat.constants import CAUSED_BY_NETWORK, Code
from hopring.compat.frames import decode_text
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

__all__ = [
    "Is_agreed_mess",
    "Is_causal_mess",
    "Is_caused_disconnect_mess",
    "Is_caused_join_mess",
    "Is_caused_leave_mess",
    "Is_caused_network_mess",
    "Is_fifo_mess",
    "Is_membership_mess",
    "Is_reg_memb_mess",
    "Is_regular_mess",
    "Is_reject_mess",
    "Is_reliable_mess",
    "Is_safe_mess",
    "Is_self_discard",
    "Is_self_leave",
    "Is_transition_mess",
    "Is_unreliable_mess",
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


def Is_unreliable_mess(service_type: int) -> bool:
    """Whether it is an Unreliable message."""
    return bool(service_type & c.UNRELIABLE_MESS)


def Is_reliable_mess(service_type: int) -> bool:
    """Whether it is a Reliable message."""
    return bool(service_type & c.RELIABLE_MESS)


def Is_fifo_mess(service_type: int) -> bool:
    """Whether it is a FIFO message."""
    return bool(service_type & c.FIFO_MESS)


def Is_causal_mess(service_type: int) -> bool:
    """Whether it is a Causal message."""
    return bool(service_type & c.CAUSAL_MESS)


def Is_agreed_mess(service_type: int) -> bool:
    """Whether it is an Agreed message."""
    return bool(service_type & c.AGREED_MESS)


def Is_safe_mess(service_type: int) -> bool:
    """Whether it is a Safe message."""
    return bool(service_type & c.SAFE_MESS)


def Is_self_discard(service_type: int) -> bool:
    """Whether its sender does not receive it."""
    return bool(service_type & c.SELF_DISCARD)


def Is_reg_memb_mess(service_type: int) -> bool:
    """Whether it is a view."""
    return bool(service_type & c.REG_MEMB_MESS)


def Is_transition_mess(service_type: int) -> bool:
    """Whether it is a transitional signal."""
    return bool(service_type & c.TRANSITION_MESS)


def Is_caused_join_mess(service_type: int) -> bool:
    """Whether its cause is a join."""
    return bool(service_type & c.CAUSED_BY_JOIN)


def Is_caused_leave_mess(service_type: int) -> bool:
    """Whether its cause is a leave."""
    return bool(service_type & c.CAUSED_BY_LEAVE)


def Is_caused_disconnect_mess(service_type: int) -> bool:
    """Whether its cause is the end of a session."""
    return bool(service_type & c.CAUSED_BY_DISCONNECT)


def Is_caused_network_mess(service_type: int) -> bool:
    """Whether its cause is a change of the daemons' view."""
    return bool(service_type & c.CAUSED_BY_NETWORK)


def Is_reject_mess(service_type: int) -> bool:
    """Whether it is a message of this session that the daemon rejected."""
    return bool(service_type & c.REJECT_MESS)


def Is_regular_mess(service_type: int) -> bool:
    """Whether it is a message of any service."""
    return bool(service_type & c.REGULAR_MESS) and not service_type & c.REJECT_MESS


def Is_membership_mess(service_type: int) -> bool:
    """Whether it is a view, a transitional signal or the session's own leave."""
    return bool(service_type & c.MEMBERSHIP_MESS) and not service_type & c.REJECT_MESS


def Is_self_leave(service_type: int) -> bool:
    """Whether it is the session's own leave."""
    views = c.REG_MEMB_MESS | c.TRANSITION_MESS
    return bool(service_type & c.CAUSED_BY_LEAVE) and not service_type & views


NO_ID: Final = GroupId(0, 0, 0)


class vs_set_info(NamedTuple):
    """A virtual-synchrony set: its size, and the offset of its names in the body."""

    num_members: int = 0
    members_offset: int = 0


class MembershipInfo(NamedTuple):
    """The contents of a membership message beside the list of members."""

    ret: int
    gid: GroupId = NO_ID
    changed_member: str = ""
    num_vs_sets: int = 0
    my_vs_set: vs_set_info = vs_set_info()


class SetsInfo(NamedTuple):
    """All sets, and the index of the receiver's."""

    ret: int
    vs_sets: tuple[vs_set_info, ...] = ()
    my_vs_set_index: int = 0


class SetMembers(NamedTuple):
    """The members of a set."""

    ret: int
    member_names: tuple[str, ...] = ()


def membership_info(body: bytes, bits: int) -> MembershipInfo:
    """Decodes a membership message; `ret` is 1, or the code of an error."""
    if not is_membership(bits):
        return MembershipInfo(Code.ILLEGAL_MESSAGE)
    try:
        if is_view(bits):
            return _view_info(body, decode_view(body, NATIVE), bits)
        # The session's own leave has no body.
        return MembershipInfo(1, decode_id(body, NATIVE) if body else NO_ID)
    except PeerError:
        return MembershipInfo(Code.ILLEGAL_MESSAGE)


def sets_info(body: bytes, count_max: int | None) -> SetsInfo:
    """Decodes all sets; `ret` is their number, or the code of an error."""
    try:
        view = decode_view(body, NATIVE)
    except PeerError:
        return SetsInfo(Code.ILLEGAL_MESSAGE)
    if count_max is not None and count_max < len(view.sets):
        return SetsInfo(Code.BUFFER_TOO_SHORT)
    return SetsInfo(len(view.sets), tuple([vs_set_info(*one) for one in view.sets]), view.own)


def set_members(body: bytes, one: vs_set_info, count_max: int | None) -> SetMembers:
    """Decodes the names of a set; `ret` is their number, or the code of an error."""
    if count_max is not None and count_max < one.num_members:
        return SetMembers(Code.BUFFER_TOO_SHORT)
    try:
        names = names_at(body, SetAt(*one))
    except PeerError:
        return SetMembers(Code.ILLEGAL_MESSAGE)
    return SetMembers(len(names), tuple(map(decode_text, names)))


def _view_info(body: bytes, view: SpreadViewBody, bits: int) -> MembershipInfo:
    # Every change except the network's is that of one member: the only one of the only set.
    changed = () if bits & CAUSED_BY_NETWORK else names_at(body, view.sets[0])[:1]
    own = vs_set_info(*view.sets[view.own])
    return MembershipInfo(1, view.group_id, "".join(map(decode_text, changed)), len(view.sets), own)


Bytes = bytes | bytearray | memoryview


def SP_equal_group_ids(g1: group_id, g2: group_id) -> int:
    """1 if both are the id of the same view."""
    return int(tuple(g1) == tuple(g2))


def SP_get_memb_info(memb_mess: Bytes, service_type: int) -> MembershipInfo:
    """The group id, the member that joined or left, and the receiver's virtual-synchrony set."""
    return membership_info(bytes(memb_mess), service_type)


def SP_get_vs_sets_info(memb_mess: Bytes, num_vs_sets: int | None = None) -> SetsInfo:
    """All sets of a view, if there are at most this many."""
    return sets_info(bytes(memb_mess), num_vs_sets)


def SP_get_vs_set_members(
    memb_mess: Bytes, vs_set: vs_set_info, member_names_count: int | None = None
) -> SetMembers:
    """The names in a set, if there are at most this many."""
    return set_members(bytes(memb_mess), vs_set, member_names_count)


def SP_scat_get_memb_info(memb_mess_scat: Sequence[Bytes], service_type: int) -> MembershipInfo:
    """Like SP_get_memb_info, for the buffers of SP_scat_receive."""
    return SP_get_memb_info(b"".join(memb_mess_scat), service_type)


def SP_scat_get_vs_sets_info(memb_mess_scat: Sequence[Bytes], num_vs_sets: int | None = None) -> SetsInfo:
    """Like SP_get_vs_sets_info, for the buffers of SP_scat_receive."""
    return SP_get_vs_sets_info(b"".join(memb_mess_scat), num_vs_sets)


def SP_scat_get_vs_set_members(
    memb_mess_scat: Sequence[Bytes], vs_set: vs_set_info, member_names_count: int | None = None
) -> SetMembers:
    """Like SP_get_vs_set_members, for the buffers of SP_scat_receive."""
    return SP_get_vs_set_members(b"".join(memb_mess_scat), vs_set, member_names_count)


def SP_get_gid_offset_memb_mess() -> int:
    """The offset of the group id in a membership message."""
    return ID_AT


def SP_get_num_vs_sets_offset_memb_mess() -> int:
    """The offset of the number of sets."""
    return SETS_COUNT_AT


def SP_get_offset_to_local_vs_set_offset() -> int:
    """The offset of the field with the offset of the receiver's own set."""
    return OWN_OFFSET_AT


def SP_get_first_vs_set_offset_memb_mess() -> int:
    """The offset of the first set."""
    return SETS_AT


def SP_get_vs_set_size_offset_vs_set() -> int:
    """The offset of the number of members in a set."""
    return 0


def SP_get_vs_set_members_offset_vs_set() -> int:
    """The offset of the names in a set."""
    return COUNT_BYTES
