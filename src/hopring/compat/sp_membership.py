"""The toolkit's calls for group ids and for the bodies of membership messages. Pure."""

from collections.abc import Sequence

from hopring.compat import views
from hopring.compat.views import MembershipInfo, SetMembers, SetsInfo, vs_set_info
from hopring.spread import view_bodies
from hopring.spread.membership import GroupId as group_id

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
    return views.membership_info(bytes(memb_mess), service_type)


def SP_get_vs_sets_info(memb_mess: Bytes, num_vs_sets: int | None = None) -> SetsInfo:
    """All sets of a view, if there are at most so many."""
    return views.sets_info(bytes(memb_mess), num_vs_sets)


def SP_get_vs_set_members(
    memb_mess: Bytes, vs_set: vs_set_info, member_names_count: int | None = None
) -> SetMembers:
    """The names in one of them, if there are at most so many."""
    return views.set_members(bytes(memb_mess), vs_set, member_names_count)


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
    return view_bodies.ID_AT


def SP_get_num_vs_sets_offset_memb_mess() -> int:
    """Where the number of sets is."""
    return view_bodies.SETS_COUNT_AT


def SP_get_offset_to_local_vs_set_offset() -> int:
    """Where it says at which byte of the sets the receiver's own begins."""
    return view_bodies.OWN_OFFSET_AT


def SP_get_first_vs_set_offset_memb_mess() -> int:
    """Where the sets begin."""
    return view_bodies.SETS_AT


def SP_get_vs_set_size_offset_vs_set() -> int:
    """Where in a set the number of its members is."""
    return 0


def SP_get_vs_set_members_offset_vs_set() -> int:
    """Where in a set its names begin."""
    return view_bodies.COUNT_BYTES
