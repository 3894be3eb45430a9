"""Membership messages, against what a real daemon was seen to send."""

from struct import unpack_from

from hopring.groups.events import Cause
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.spread.frames import NAME_BYTES, head_of
from hopring.spread.membership import GroupId, Sets, group_id, own_leave, signal, view

ID = GroupId(0x0A000001, 1_700_000_000, 3)


def field(name: str) -> bytes:
    return name.encode().ljust(NAME_BYTES, b"\0")


def test_a_join_names_the_joiner_in_its_only_set() -> None:
    data = view("grp", ID, ("#alice#d1",), Cause.JOIN, Sets((("#alice#d1",),), 0))

    word, name, count, hint, size = head_of(data)
    assert (word, name, count, hint, size) == (0x1100, field("grp"), 1, bytes.fromhex("80 00 00 80"), 56)
    assert data[48:80] == field("#alice#d1")
    assert unpack_from("<IIIII", data, 80) == (*ID, 1, 0)
    assert data[100:] == (1).to_bytes(4, "little") + field("#alice#d1")


def test_after_a_merge_everybody_gets_the_same_sets_and_its_own_offset() -> None:
    mine = ("#c1#d1", "#c1b#d1", "#c2#d2")
    members = (*mine, "#c3#d3")
    sets = (("#c3#d3",), mine)

    ours = view("grp", ID, members, Cause.NETWORK, Sets(sets, 1))
    theirs = view("grp", ID, members, Cause.NETWORK, Sets(sets, 0))

    assert head_of(ours)[0] == 0x1800
    assert head_of(ours)[4] == 156
    body = 48 + 4 * NAME_BYTES
    assert unpack_from("<II", ours, body + 12) == (2, 36)
    assert unpack_from("<II", theirs, body + 12) == (2, 0)
    at = body + 20 + 36
    assert unpack_from("<I", ours, at) == (3,)
    assert ours[at + 4 : at + 4 + 32] == field("#c1#d1")
    assert ours[:body] == theirs[:body]
    assert ours[body + 20 :] == theirs[body + 20 :]


def test_causes() -> None:
    words = [head_of(view("g", ID, ("#a#d",), cause, Sets((("#a#d",),), 0)))[0] for cause in Cause]

    assert sorted(words) == [0x1100, 0x1200, 0x1400, 0x1800]


def test_a_signal_has_the_id_of_the_view_that_closes() -> None:
    data = signal("grp", ID)

    assert head_of(data) == (0x2000, field("grp"), 0, bytes.fromhex("80 00 00 80"), 12)
    assert unpack_from("<III", data, 48) == ID


def test_the_own_leave_has_nothing_in_it() -> None:
    assert head_of(own_leave("grp")) == (0x200, field("grp"), 0, bytes.fromhex("80 00 00 80"), 0)


def test_every_view_has_an_id_of_its_own() -> None:
    one, other = (ViewId(7, DaemonId(daemon), Incarnation(99)) for daemon in (0, 1))
    ids = [
        GroupViewId(one, (), 1),
        GroupViewId(one, (), 2),
        GroupViewId(other, (), 1),
        GroupViewId(one, (other,), 1),
        GroupViewId(one, (other, one), 1),
        GroupViewId(ViewId(8, DaemonId(0), Incarnation(99)), (), 1),
    ]

    assert len({group_id(one) for one in ids}) == len(ids)
    assert group_id(ids[1]) == group_id(GroupViewId(one, (), 2))
    assert group_id(ids[1])[1:] == (7, 2)
