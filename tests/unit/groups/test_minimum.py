"""Minimum sizes: a group is suspended below the largest minimum of its members, and goes on when it is met."""

import pytest
from tests.unit.groups.one_daemon import (
    ALL,
    BLUE,
    FAR,
    ME,
    NEAR,
    RED,
    FedGroups,
    delivers,
    member,
    signals,
    views,
)

from hopring.engine import Delivered, PrimaryBasis
from hopring.errors import Drop
from hopring.groups.events import (
    ClaimLock,
    Disconnect,
    JoinGroup,
    LeaveGroup,
    LockGranted,
    Output,
    Send,
    SessionGone,
)
from hopring.groups.messages import (
    GroupJoin,
    GroupLeave,
    GroupMessage,
    GroupsPart,
    LocalGroup,
    LocalMinimum,
    LostMember,
)
from hopring.groups.minimum import GroupMinimum
from hopring.groups.names import GroupViewId
from hopring.groups.payloads import append_sender, is_group_message
from hopring.groups.renumbering import renumber
from hopring.ids import NEVER, DaemonId, GroupName, Incarnation, Process, SiteId
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY


def suspended(outputs: list[Output]) -> list[tuple[bool, int]]:
    """Of each view shown: whether it is suspended, and the minimum in force."""
    return [(one.view.suspended, one.view.minimum) for one in views(outputs)]


def three(minimum: int = 0, of_near: int = 0, of_far: int = 0, primary: bool = False) -> FedGroups:
    """One member of red at each of three daemons, with what they state."""
    fed = FedGroups(*ALL)
    if primary:
        fed.signal(ALL, 3, primary=True)
        fed.installed(ALL, ALL, 3, PrimaryBasis.ALL)
        fed.exchange(*ALL)
    fed.join(1, "anna", RED, minimum)
    fed.deliver(NEAR, 2, GroupJoin("ben", RED, of_near))
    fed.deliver(FAR, 3, GroupJoin("cleo", RED, of_far))
    return fed


def near_says(fed: FedGroups, last: GroupViewId, minimum: LocalMinimum | None = None) -> GroupsPart:
    entry = LocalGroup(RED, last, (), ((2, "ben"),))
    return GroupsPart(fed.view, 0, 1, 0, (entry,), minimums=() if minimum is None else (minimum,))


# Joins and leaves.


def test_a_group_is_suspended_until_enough_have_joined() -> None:
    fed = FedGroups(*ALL)

    first = fed.join(1, "anna", RED, 2)
    second = fed.deliver(NEAR, 2, GroupJoin("ben", RED))

    assert suspended(first) == [(True, 2)]
    assert suspended(second) == [(False, 2)]
    assert not fed.groups.suspended


def test_the_largest_minimum_of_the_members_counts() -> None:
    fed = three(minimum=2)

    out = fed.deliver(NEAR, 4, GroupJoin("dora", RED, 5))

    assert suspended(out) == [(True, 5)]


def test_one_and_none_are_no_minimum() -> None:
    fed = FedGroups(*ALL)

    assert suspended(fed.join(1, "anna", RED, 1)) == [(False, 0)]
    assert fed.groups.table.groups[RED].minimum is None


def test_a_leave_below_the_minimum_suspends_and_the_leave_of_who_stated_it_resumes() -> None:
    fed = three(of_near=3)

    below = fed.deliver(FAR, 3, GroupLeave(RED))
    without = fed.deliver(NEAR, 2, GroupLeave(RED))

    assert suspended(below) == [(True, 3)]
    assert suspended(without) == [(False, 0)]


def test_a_group_that_ends_is_not_suspended_any_more() -> None:
    fed = FedGroups(*ALL)
    fed.deliver(NEAR, 2, GroupJoin("ben", RED, 2))
    assert fed.groups.suspended == {RED}

    fed.deliver(NEAR, 2, GroupLeave(RED))

    assert not fed.groups.suspended
    assert suspended(fed.join(1, "anna", RED)) == [(False, 0)]


# Messages.


@pytest.mark.parametrize("service", [Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_nothing_ordered_is_delivered_in_a_suspended_group(service: Service) -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)

    assert delivers(fed.message(NEAR, service, RED)) == []
    fed.deliver(NEAR, 2, GroupJoin("ben", RED))
    assert delivers(fed.message(NEAR, service, RED, session=2, name="ben")) == [(1,)]


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO])
def test_what_was_sent_without_a_place_in_the_order_is_delivered(service: Service) -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)

    assert delivers(fed.message(NEAR, service, RED)) == [(1,)]


def test_other_groups_of_a_message_get_it() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.join(2, "bert", BLUE)

    assert delivers(fed.message(NEAR, Service.AGREED, RED, BLUE)) == [(2,)]


# Senders here.


def bundles(fed: FedGroups) -> int:
    return len([one for one in fed.taken() if not is_group_message(one.payload)])


def test_messages_wait_until_the_group_goes_on() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.send(1, Service.AGREED, RED)

    assert bundles(fed) == 0
    fed.deliver(NEAR, 2, GroupJoin("ben", RED))
    assert bundles(fed) == 1


def test_messages_whose_time_to_live_ends_while_they_wait_are_dropped_and_the_rest_goes_on() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    for group, deadline_us in ((RED, 700), (BLUE, 500), (BLUE, NEVER)):
        key = BundleKey(ME.daemon, 1, Service.AGREED, (GroupName(group),))
        fed.step(Send(1, key, encode_bundle(key, [b"x"], [7], [0]), deadline_us))
    assert fed.taken() == []
    assert fed.groups.wake_at_us == 500

    assert fed.groups.next_submission(True, now_us=600) is None
    assert [one.key.groups for one in fed.groups.take_expired()] == [(BLUE,)]
    assert fed.groups.wake_at_us == 700

    assert fed.groups.next_submission(True, now_us=700) is not None, "nothing is before it any more"
    assert [one.key.groups for one in fed.groups.take_expired()] == [(RED,)]
    assert bundles(fed) == 0
    assert fed.groups.queued_bytes(1) == 0
    assert fed.groups.wake_at_us == NEVER


def test_messages_of_an_impatient_session_are_refused() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.groups.requests.sessions.by_number[1].impatient = True
    fed.send(1, Service.AGREED, RED)
    fed.send(1, Service.AGREED, BLUE)

    assert bundles(fed) == 1
    assert fed.groups.has_dropped
    (refused,) = fed.groups.take_refused()
    assert refused.key.groups == (RED,)


def test_a_session_that_ends_gives_up_what_waits() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.send(1, Service.AGREED, RED)
    fed.taken()

    fed.step(Disconnect(1))
    out = fed.delivered(ME, fed.taken())

    assert any(isinstance(one, SessionGone) for one in out)
    assert len(fed.groups.take_refused()) == 1
    assert not fed.groups.suspended


def test_a_leave_does_not_wait_for_the_group_that_is_left() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.send(1, Service.AGREED, RED)
    fed.taken()

    fed.step(LeaveGroup(1, RED))
    fed.delivered(ME, fed.taken())

    assert RED not in fed.groups.table.groups
    assert len(fed.groups.take_refused()) == 1


def test_a_join_passes_messages_to_the_group_that_waits_for_it() -> None:
    fed = FedGroups(*ALL)
    fed.deliver(NEAR, 2, GroupJoin("ben", RED, 2))
    fed.join(1, "anna", BLUE)
    fed.send(1, Service.AGREED, RED)
    fed.send(1, Service.AGREED, RED)
    assert bundles(fed) == 0

    fed.step(JoinGroup(1, RED))
    while submits := fed.taken():
        fed.delivered(ME, submits)

    assert not fed.groups.suspended
    assert fed.groups.table.groups[RED].local
    assert fed.groups.requests.idle


# Splits.


def test_a_side_that_is_too_small_is_suspended_from_the_signal_on() -> None:
    fed = three(minimum=3)

    out = fed.signal((ME, NEAR), 3)
    (signal,) = signals(out)

    assert (signal.suspended, signal.minimum) == (True, 3)
    assert delivers(fed.message(NEAR, Service.AGREED, RED, session=2, name="ben")) == []
    assert suspended(fed.installed((ME, NEAR), (ME, NEAR), 3)) == []
    assert suspended(fed.exchange(ME, NEAR)) == [(True, 3)]


def test_a_side_that_is_large_enough_goes_on() -> None:
    fed = three(minimum=2)

    (signal,) = signals(fed.signal((ME, NEAR), 3))
    assert not signal.suspended
    assert delivers(fed.message(NEAR, Service.AGREED, RED, session=2, name="ben")) == [(1,)]
    fed.installed((ME, NEAR), (ME, NEAR), 3)
    assert suspended(fed.exchange(ME, NEAR)) == [(False, 2)]


def test_the_minimum_of_a_lost_member_stays_in_force_until_it_is_met() -> None:
    fed = three(of_far=3)
    fed.move((ME, NEAR), (ME, NEAR), 3)
    assert suspended(fed.exchange(ME, NEAR)) == [(True, 3)]

    met = fed.deliver(NEAR, 4, GroupJoin("dora", RED))
    left = fed.deliver(NEAR, 4, GroupLeave(RED))

    assert suspended(met) == [(False, 0)]
    assert suspended(left) == [(False, 0)]


def test_a_side_without_who_stated_it_goes_on_when_it_is_met() -> None:
    fed = three(of_far=2)
    fed.move((ME, NEAR), (ME, NEAR), 3)

    assert suspended(fed.exchange(ME, NEAR)) == [(False, 0)]


def test_a_merge_brings_the_members_back() -> None:
    fed = three(of_near=3)
    fed.move((ME, FAR), (ME, FAR), 3)
    assert suspended(fed.exchange(ME, FAR)) == [(True, 3)]
    last = fed.groups.table.groups[RED].id
    fed.move((ME, FAR), ALL, 5)
    other = GroupViewId(last.view._replace(counter=4), (), 0)
    lost = (LostMember(0, "anna", 10, 1, 0), LostMember(2, "cleo", 12, 3, 0))
    said: dict[Process, GroupMessage] = {
        NEAR: near_says(fed, other, LocalMinimum(RED, True, ((2, 3),), lost)),
        FAR: GroupsPart(
            fed.view,
            0,
            1,
            0,
            (LocalGroup(RED, last, (), ((3, "cleo"),)),),
            minimums=(LocalMinimum(RED, True, (), (LostMember(1, "ben", 11, 2, 3),)),),
        ),
    }
    out = fed.exchange(*ALL, said=said)

    assert suspended(out) == [(False, 3)]
    minimum = fed.groups.table.groups[RED].minimum
    assert minimum == GroupMinimum({member(NEAR, "ben", 2): 3}, {})


# MAJORITY.


def test_majority_is_met_in_primary_views_only() -> None:
    fed = three(minimum=MINIMUM_MAJORITY)
    assert fed.groups.suspended == {RED}

    primary = three(minimum=MINIMUM_MAJORITY, primary=True)
    assert not primary.groups.suspended


def test_the_side_that_stays_primary_goes_on_and_the_other_is_suspended() -> None:
    fed = three(of_far=MINIMUM_MAJORITY, primary=True)
    (signal,) = signals(fed.signal((ME, NEAR), 4, primary=True))
    fed.installed((ME, NEAR), (ME, NEAR), 4, PrimaryBasis.MAJORITY)
    assert not signal.suspended
    assert suspended(fed.exchange(ME, NEAR)) == [(False, 0)]

    other = three(of_far=MINIMUM_MAJORITY, primary=True)
    (signal,) = signals(other.signal((ME,), 4, primary=False))
    out = other.installed((ME,), (ME,), 4)
    assert (signal.suspended, signal.minimum) == (True, MINIMUM_MAJORITY)
    assert suspended(out) == [(True, MINIMUM_MAJORITY)]


def test_a_group_that_loses_nobody_is_suspended_before_a_message_behind_the_signal() -> None:
    fed = FedGroups(*ALL)
    fed.signal(ALL, 3, primary=True)
    fed.installed(ALL, ALL, 3, PrimaryBasis.ALL)
    fed.exchange(*ALL)
    fed.join(1, "anna", RED, MINIMUM_MAJORITY)
    assert signals(fed.signal((ME,), 4, primary=False)) == []

    out = fed.message(FAR, Service.AGREED, RED)

    assert [one.suspended for one in signals(out)] == [True]
    assert delivers(out) == []


def test_it_goes_on_when_the_view_is_primary_again_though_nobody_came_or_went() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, MINIMUM_MAJORITY)

    fed.signal(ALL, 3)
    fed.installed(ALL, ALL, 3, PrimaryBasis.ALL)

    assert suspended(fed.exchange(*ALL)) == [(False, MINIMUM_MAJORITY)]


# ALL.


def test_all_are_missing_when_one_is_lost_and_not_when_one_leaves() -> None:
    left = three(minimum=MINIMUM_ALL)
    assert suspended(left.deliver(FAR, 3, GroupLeave(RED))) == [(False, MINIMUM_ALL)]

    lost = three(minimum=MINIMUM_ALL)
    (signal,) = signals(lost.signal((ME, NEAR), 3))
    lost.installed((ME, NEAR), (ME, NEAR), 3)
    assert signal.suspended
    assert suspended(lost.exchange(ME, NEAR)) == [(True, MINIMUM_ALL)]


def test_all_are_back_when_the_lost_one_joins_again_at_its_daemon() -> None:
    fed = three(minimum=MINIMUM_ALL)
    fed.move((ME, NEAR), (ME, NEAR), 3)
    fed.exchange(ME, NEAR)
    again = Process(FAR.daemon, Incarnation(99))
    fed.move((ME, NEAR), (ME, NEAR, again), 4)
    last = fed.groups.table.groups[RED].id
    lost = LocalMinimum(RED, True, (), (LostMember(2, "cleo", 12, 3, 0),))
    fed.exchange(ME, NEAR, again, said={NEAR: near_says(fed, last, lost)})
    assert fed.groups.suspended == {RED}

    other = fed.deliver(NEAR, 5, GroupJoin("cleo", RED))
    same = fed.deliver(again, 6, GroupJoin("cleo", RED))

    assert suspended(other) == [(True, MINIMUM_ALL)]
    assert suspended(same) == [(False, MINIMUM_ALL)]


def test_a_lost_member_whose_daemon_says_that_it_has_left_is_not_missing() -> None:
    fed = three(minimum=MINIMUM_ALL)
    fed.move((ME, NEAR), (ME, NEAR), 3)
    fed.exchange(ME, NEAR)
    fed.move((ME, NEAR), ALL, 4)
    last = fed.groups.table.groups[RED].id
    lost = LocalMinimum(RED, True, (), (LostMember(2, "cleo", 12, 3, 0),))

    out = fed.exchange(*ALL, said={NEAR: near_says(fed, last, lost)})

    assert suspended(out) == [(False, MINIMUM_ALL)]


# What else groups have.


def test_locks_of_a_suspended_group_are_granted_when_it_goes_on() -> None:
    fed = FedGroups(*ALL)
    fed.groups.primary, fed.groups.epoch = True, 3
    fed.signal(ALL, 3, primary=True)
    fed.installed(ALL, ALL, 3, PrimaryBasis.ALL)
    fed.groups.epoch = 3
    fed.exchange(*ALL)
    fed.join(1, "anna", RED, 2)
    fed.step(ClaimLock(1, RED, "row", 7))
    fed.delivered(ME, fed.taken())
    assert fed.groups.locks.locks[RED, "row"].fence is None

    fed.deliver(NEAR, 2, GroupJoin("ben", RED))
    out = fed.delivered(ME, fed.taken())

    assert [one.serial for one in out if isinstance(one, LockGranted)] == [7]


def test_a_message_that_is_not_delivered_is_not_retained() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED, 2)
    key = BundleKey(NEAR.daemon, 9, Service.AGREED, (RED,), retained=True)
    payload = append_sender(encode_bundle(key, [b"x"], [7], [0]), "sender")
    message = OrderedMessage(Service.AGREED, NEAR.daemon, 9, payload)
    fed.step(Delivered(fed.view, message, NEAR, Position(90, 0)))
    fed.at = 90
    fed.deliver(NEAR, 2, GroupJoin("ben", RED))

    assert fed.groups.retained.by_group == {}


def test_another_number_of_the_daemon_changes_the_minimum_too() -> None:
    fed = three(minimum=MINIMUM_ALL)
    fed.move((ME,), (ME,), 3)
    me = Process(DaemonId(1), ME.incarnation)

    renumber(fed.groups, me, {DaemonId(0): SiteId(0), DaemonId(1): SiteId(0)}, ["d2", "d0"])

    minimum = fed.groups.table.groups[RED].minimum
    assert minimum is not None
    assert minimum.stated == {member(me, "anna", 1): MINIMUM_ALL}
    assert list(minimum.lost) == [member(Process(DaemonId(0), FAR.incarnation), "cleo", 3)]
    assert fed.groups.suspended == {RED}


# Wrong GROUPS.


@pytest.mark.parametrize(
    "minimum",
    [
        LocalMinimum(GroupName("blue"), False, (), ()),
        LocalMinimum(RED, False, ((9, 2),), ()),
        LocalMinimum(RED, False, ((2, 1),), ()),
        LocalMinimum(RED, False, ((2, 3), (2, 4)), ()),
        LocalMinimum(RED, False, (), (LostMember(70_000, "x", 1, 1, 0),)),
    ],
)
def test_minimums_that_cannot_be_are_refused(minimum: LocalMinimum) -> None:
    fed = FedGroups(ME)
    fed.move((ME,), (ME, NEAR), 3)
    part = near_says(fed, GroupViewId(fed.view._replace(counter=1), (), 0), minimum)

    fed.exchange(ME, NEAR, said={NEAR: part})

    assert sum(fed.groups.drops.values()) == 1
    assert set(fed.groups.drops) <= {Drop.INCONSISTENT, Drop.LIMIT}


def test_a_join_with_an_impossible_minimum_is_refused() -> None:
    fed = FedGroups(*ALL)

    fed.deliver(NEAR, 2, GroupJoin("ben", RED, 256))

    assert RED not in fed.groups.table.groups
    assert fed.groups.drops[Drop.INCONSISTENT] == 1
