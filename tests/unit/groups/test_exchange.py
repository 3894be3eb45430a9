"""GROUPS in parts, and ids of group views."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.groups.one_daemon import FAR, ME, NEAR, member, view_id

from hopring.errors import PeerError
from hopring.groups.exchange import GroupsExchange, groups_parts
from hopring.groups.group_table import GroupEntry, GroupTable
from hopring.groups.messages import GroupsPart, LocalGroup, decode_group_message, encode_group_message
from hopring.groups.names import GroupViewId
from hopring.groups.payloads import append_sender, split_sender
from hopring.groups.views import ViewNumbering, parting_id
from hopring.ids import NUMBER_MAX, SITES_MAX, GroupName
from hopring.ordering.entry import Position
from hopring.services import Service

names = st.text(st.characters(codec="utf-8", exclude_characters="\0#"), min_size=1, max_size=20)


def gathered(*parts: GroupsPart) -> GroupsExchange:
    one = GroupsExchange(view_id(3), frozenset([ME, FAR]))
    for part in parts:
        one.add(FAR, part)
    return one


@given(
    st.dictionaries(names, st.sets(st.integers(0, 50), min_size=1, max_size=20), max_size=8),
    st.sets(names, max_size=8),
    st.integers(200, 2_000),
)
def test_groups_in_parts_are_the_same_as_in_one(
    groups: dict[str, set[int]], wanted: set[str], bytes_max: int
) -> None:
    table = GroupTable(ME)
    for name, sessions in groups.items():
        group = GroupEntry(GroupName(name), GroupViewId(view_id(2), (), 1))
        for session in sessions:
            table.add(group, member(ME, f"s{session}", session))
        table.add(group, member(NEAR, "near", 1))
    interested = {GroupName(name) for name in wanted}
    group_messages = groups_parts(view_id(3), ME, table.in_order(), interested, 4, bytes_max, primary=False)
    whole = GroupsExchange(view_id(3), frozenset([ME]))
    for group_message in reversed(group_messages):
        assert not whole.complete
        whole.add(ME, group_message)

    assert whole.complete
    assert all(len(encode_group_message(group_message)) < 2 * bytes_max for group_message in group_messages)
    assert {one.name: {each.session for each in one.members} for one in whole.merge()} == groups
    assert whole.interests() == [(ME, 4, interested | {GroupName(name) for name in groups})]


@pytest.mark.parametrize(
    "parts",
    [
        (GroupsPart(view_id(3), 2, 2, 0),),
        (GroupsPart(view_id(3), 0, 2, 0), GroupsPart(view_id(3), 0, 2, 0)),
        (GroupsPart(view_id(3), 0, 2, 0), GroupsPart(view_id(3), 1, 3, 0)),
        (GroupsPart(view_id(3), 0, 2, 0), GroupsPart(view_id(3), 1, 2, 1)),
        (GroupsPart(view_id(3), 0, 1 << 20, 0),),
    ],
)
def test_parts_that_do_not_agree_are_refused(parts: tuple[GroupsPart, ...]) -> None:
    with pytest.raises(PeerError):
        gathered(*parts)


def test_groups_of_a_daemon_outside_the_view_are_refused() -> None:
    with pytest.raises(PeerError):
        gathered().add(NEAR, GroupsPart(view_id(3), 0, 1, 0))


def test_members_with_the_same_last_view_and_path_are_together() -> None:
    last = GroupViewId(view_id(1), (), 2)
    one = GroupsExchange(view_id(3), frozenset([ME, NEAR, FAR]))
    for process, way in ((ME, (view_id(1),)), (NEAR, (view_id(1),)), (FAR, (view_id(1), view_id(2)))):
        one.add(process, GroupsPart(view_id(3), 0, 1, 0, (LocalGroup("red", last, way, ((1, "ann"),)),)))

    (merged,) = one.merge()

    assert (merged.changed, merged.is_torn(last)) == (True, True)
    assert [len(some) for some in merged.sets] == [2, 1]


def test_ids_rise_from_view_to_view_through_a_closing_one() -> None:
    """Thesis definition 6.1: negative indexes are later than positive ones, then larger ones than smaller."""
    ids = ViewNumbering(view_id(1))
    first = ids.after(None, Position(1, 0))
    second = ids.after(first, Position(3, 1))
    ids.close(view_id(2))
    third = ids.after(second, Position(5, 0))
    fourth = ids.after(third, Position(5, 1))
    again = ViewNumbering(view_id(2))
    fifth = again.network
    sixth = again.after(fifth, Position(9, 0))

    rising = [first, second, third, fourth, fifth, sixth]
    assert sorted(rising) == rising
    assert [one.signed for one in rising] == [1, 2, -1, -2, 0, 1]


def test_ids_go_on_as_far_as_stamps_do() -> None:
    ids = ViewNumbering(view_id(1))
    ids.close(view_id(2))
    last = ids.after(None, Position(NUMBER_MAX, SITES_MAX - 1))
    group_message = GroupsPart(view_id(2), 0, 1, 0, (LocalGroup("red", last, (view_id(1),), ((1, "ann"),)),))

    assert decode_group_message(encode_group_message(group_message), Service.SAFE) == group_message
    assert ids.after(None, Position(NUMBER_MAX - 1, SITES_MAX - 1)) < last < ViewNumbering(view_id(2)).network


def test_a_daemon_that_does_not_know_of_a_closed_view_assigns_the_same_ids() -> None:
    """A message after the daemons' signal closes a group, and is not for all sites."""
    knows, knows_not = ViewNumbering(view_id(2)), ViewNumbering(view_id(2))
    before = GroupViewId(view_id(1), (), 7)

    assert knows.after(knows.network, Position(1, 0)) == knows_not.after(before, Position(1, 0))

    knows.retire(knows.network)
    knows_not.retire(before)
    assert knows == knows_not

    gone = knows.after(None, Position(2, 0))
    for ids in (knows, knows_not):
        ids.retire(gone)
    assert knows.after(knows.network, Position(3, 0)) == knows_not.after(before, Position(3, 0))


def test_sides_of_a_split_give_different_ids() -> None:
    one, other = ViewNumbering(view_id(1)), ViewNumbering(view_id(1))
    one.close(view_id(2))
    other.close(view_id(3))

    assert one.after(None, Position(1, 0)) != other.after(None, Position(1, 0))


def test_a_parting_id_is_above_the_last_and_below_the_next_view() -> None:
    last = GroupViewId(view_id(1), (view_id(2),), 4)
    for way in ((view_id(1),), (view_id(1), view_id(2))):
        assert last < parting_id(way, view_id(5), last.step + 1) < GroupViewId(view_id(5), (), 1)


@given(st.binary(min_size=1, max_size=100), names)
def test_a_sealed_bundle_comes_back_with_its_senders_name(bundle: bytes, name: str) -> None:
    sender, view = split_sender(append_sender(bundle, name[:10]))

    assert (sender, bytes(view)) == (name[:10], bundle)
