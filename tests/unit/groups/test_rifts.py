"""Groups that close at a rift, before the daemons' signal: daemons ME and NEAR in site 0, FAR in site 1."""

from tests.unit.groups.one_daemon import (
    ALL,
    BLUE,
    FAR,
    ME,
    NEAR,
    RED,
    FedGroups,
    member,
    signals,
    view_id,
    views,
)

from hopring.engine import Installed, Rift
from hopring.errors import Drop
from hopring.groups.events import JoinGroup, LeaveGroup, Output
from hopring.groups.groups import GroupsState
from hopring.groups.messages import GroupJoin, GroupKill, GroupLeave, GroupsPart, decode_group_message
from hopring.groups.names import GroupViewId
from hopring.groups.views import ViewNumbering
from hopring.ids import DaemonId, GroupName, Incarnation, SiteMask, ViewId
from hopring.ordering.entry import Position

SITE_0, BOTH = SiteMask(0b01), SiteMask(0b11)
GREEN = GroupName("green")
TOGETHER = (ME, FAR)  # NEAR is lost.
RIFT = ViewId(0, DaemonId(0), Incarnation(50))
ASIDE = (view_id(3), RIFT, RIFT)


def at_work() -> FedGroups:
    """Red has members in site 0 only, blue in both, and green only at this daemon."""
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.deliver(NEAR, 5, GroupJoin("near", "red"))
    fed.join(2, "bob", BLUE)
    fed.deliver(NEAR, 5, GroupJoin("near", "blue"))
    fed.deliver(FAR, 7, GroupJoin("far", "blue"))
    fed.join(3, "cat", GREEN)
    return fed


def rift(fed: FedGroups, mask: SiteMask = SITE_0, lost: bool = False) -> list[Output]:
    fed.at = 50
    return fed.step(Rift(fed.view, Position(50, 0), mask, TOGETHER, view_id(3), lost))


def installed(fed: FedGroups) -> list[Output]:
    fed.view = view_id(3)
    return fed.step(Installed(fed.view, TOGETHER, TOGETHER, "test", uneven=True))


def told(fed: FedGroups) -> GroupsPart:
    (group_message,) = [decode_group_message(one.payload, one.service) for one in fed.taken()]
    assert isinstance(group_message, GroupsPart)
    return group_message


def test_a_rift_closes_affected_groups_that_lose_members() -> None:
    """Blue has members in both sites, so no message to it was for site 0 only; green loses nobody."""
    (signal,) = signals(rift(at_work()))

    assert (signal.sessions, signal.group) == ((1,), RED)
    assert signal.together == (member(ME, "ann", 1),)


def test_a_rift_with_a_lost_message_closes_even_groups_that_lose_nobody() -> None:
    """A daemon that was bound to the same attempt may drop out of it, and find the lost message elsewhere."""
    fed = at_work()

    assert [one.group for one in signals(rift(fed, lost=True))] == [GREEN, RED]
    assert [one.group for one in signals(fed.signal(TOGETHER, 3))] == [BLUE]
    installed(fed)
    said = told(fed)
    assert {one.group: one.closing_path for one in said.groups} == dict.fromkeys(
        ("blue", "green", "red"), (view_id(2),)
    )


def test_a_second_rift_and_the_daemons_signal_close_only_open_groups() -> None:
    fed = at_work()
    rift(fed)

    assert [one.group for one in signals(rift(fed, BOTH))] == [BLUE]
    assert signals(fed.signal(TOGETHER, 3)) == []


def test_a_join_after_the_rift_has_a_view_id_that_names_the_rift() -> None:
    fed = at_work()
    rift(fed)

    shown, signal = fed.deliver(FAR, 8, GroupJoin("eve", "red"))

    (only,) = views([shown])
    assert only.view.id == GroupViewId(view_id(2), ASIDE, 1)
    assert only.view.together == (member(ME, "ann", 1),)
    assert signals([signal])[0].id == only.view.id
    assert [one.view.id for one in views(fed.deliver(FAR, 9, GroupJoin("fay", "red")))] == [
        GroupViewId(view_id(2), ASIDE, 2)
    ]


def test_an_id_after_a_rift_differs_from_every_id_that_the_order_assigns() -> None:
    """The stamps and the steps of the rift and of the join may be the same."""
    fed = at_work()
    rift(fed)
    (shown, _) = fed.deliver(FAR, 8, GroupJoin("eve", "red"))
    ids = ViewNumbering(view_id(2))
    ids.close(view_id(3))

    assert ids.after(None, Position(50, 0)) != views([shown])[0].view.id


def test_other_groups_continue_with_the_ids_of_daemons_before_the_rift() -> None:
    """Changes of red count for the steps of later groups, as they do on the other side."""
    aside, front = at_work(), at_work()
    rift(aside)
    for fed in (aside, front):
        fed.at = 50
        fed.deliver(FAR, 8, GroupJoin("eve", "red"))
        fed.deliver(FAR, 8, GroupLeave("red"))
        fed.deliver(NEAR, 5, GroupKill())
        fed.deliver(ME, 1, GroupLeave("red"))
        fed.deliver(FAR, 8, GroupJoin("eve", "new"))
        fed.deliver(FAR, 8, GroupJoin("eve", "red"))

    for name in ("new", "blue", "red"):
        ours, theirs = [fed.groups.table.groups[GroupName(name)] for fed in (aside, front)]
        assert (ours.id, ours.members) == (theirs.id, theirs.members)


def test_a_group_that_closed_at_a_rift_and_comes_back_goes_on_above_its_last_id() -> None:
    fed = at_work()
    rift(fed)
    fed.deliver(FAR, 8, GroupJoin("eve", "red"))
    fed.deliver(FAR, 8, GroupKill())
    fed.deliver(NEAR, 5, GroupKill())
    fed.step(LeaveGroup(1, RED))
    fed.deliver(ME, 1, GroupLeave("red"))
    fed.step(JoinGroup(1, RED))

    (shown, signal) = fed.deliver(ME, 1, GroupJoin("ann", "red"))

    assert [one.view.id for one in views([shown])] == [GroupViewId(view_id(2), ASIDE, 4)]
    assert [one.id for one in signals([signal])] == [GroupViewId(view_id(2), ASIDE, 4)]


def test_after_rifts_even_daemons_that_lost_nobody_exchange_groups() -> None:
    fed = at_work()
    rift(fed)
    fed.deliver(FAR, 8, GroupJoin("eve", "red"))
    fed.signal(TOGETHER, 3)
    installed(fed)

    assert fed.groups.state is GroupsState.GGATHER
    red = next(one for one in told(fed).groups if one.group == "red")
    assert (red.id, red.closing_path) == (GroupViewId(view_id(2), ASIDE, 1), (view_id(2),))


def test_a_rift_before_groups_are_complete_is_a_peers_mistake() -> None:
    fed = at_work()
    fed.move((ME, NEAR), ALL, 3)

    assert rift(fed) == []
    assert fed.groups.drops[Drop.INCONSISTENT] == 1
