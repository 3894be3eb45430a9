"""One daemon's groups, event by event."""

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
    view_id,
    views,
)

from hopring.engine import Delivered, Resume, SubmitMessage, Withdraw
from hopring.errors import Drop
from hopring.groups.events import (
    Cause,
    Connect,
    Disconnect,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    RefusalReason,
    SessionConnected,
    SessionGone,
    ShowSignal,
)
from hopring.groups.groups import GroupsState
from hopring.groups.messages import (
    GroupInterest,
    GroupJoin,
    GroupKill,
    GroupLeave,
    GroupsPart,
    LocalGroup,
    decode_group_message,
    encode_group_message,
)
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, ViewId
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position
from hopring.services import Service


def group_messages(submits: list[SubmitMessage]) -> list[object]:
    return [decode_group_message(one.payload, one.service) for one in submits]


# Sessions.


def test_a_session_gets_its_private_group() -> None:
    assert FedGroups().step(Connect(1, "ann")) == [SessionConnected(1, GroupName("#ann#d0"))]


@pytest.mark.parametrize("name", ["", "a#b", "x" * 65, "nul\0", "\ud800"])
def test_an_illegal_name_is_refused(name: str) -> None:
    assert FedGroups().step(Connect(1, name)) == [GroupRequestRefused(1, RefusalReason.ILLEGAL_NAME, name)]


def test_a_name_is_taken_until_its_holders_end_is_ordered() -> None:
    fed = FedGroups()
    fed.step(Connect(1, "ann"))
    assert fed.step(Connect(2, "ann")) == [GroupRequestRefused(2, RefusalReason.NAME_IN_USE, "ann")]

    fed.step(Disconnect(1))
    submits = fed.taken()
    assert fed.step(Connect(3, "ann")) == [GroupRequestRefused(3, RefusalReason.NAME_IN_USE, "ann")]
    assert fed.delivered(ME, submits) == [SessionGone(1, "ann")]

    assert fed.step(Connect(4, "ann")) == [SessionConnected(4, GroupName("#ann#d0"))]


@pytest.mark.parametrize("name", ["", "#ann#d0", "x" * 129, "nul\0"])
def test_an_illegal_group_is_refused(name: str) -> None:
    fed = FedGroups()
    fed.step(Connect(1, "ann"))

    assert fed.step(JoinGroup(1, GroupName(name))) == [
        GroupRequestRefused(1, RefusalReason.ILLEGAL_GROUP, name)
    ]


def test_joining_twice_and_leaving_without_a_join_are_refused() -> None:
    fed = FedGroups()
    fed.step(Connect(1, "ann"))
    assert fed.step(LeaveGroup(1, RED)) == [GroupRequestRefused(1, RefusalReason.NOT_A_MEMBER, "red")]
    assert fed.step(JoinGroup(1, RED)) == []
    assert fed.step(JoinGroup(1, RED)) == [GroupRequestRefused(1, RefusalReason.ALREADY_MEMBER, "red")]


def test_a_session_whose_queue_is_full_has_to_wait() -> None:
    fed = FedGroups(*ALL)
    fed.signal((ME, NEAR), 3)
    fed.step(Connect(1, "ann"))
    while fed.groups.requests.accepts(1):
        fed.send(1, Service.AGREED, "red")

    with pytest.raises(AssertionError):
        fed.send(1, Service.AGREED, "red")


# Joins, leaves, ends.


def test_a_join_is_one_agreed_message_in_a_view_of_one_site() -> None:
    fed = FedGroups(ME, NEAR)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))

    (submit,) = fed.taken()

    assert (submit.service, submit.session, group_messages([submit])) == (
        Service.AGREED,
        1,
        [GroupJoin("ann", "red")],
    )


def test_the_transitional_set_of_a_joiner_is_itself_and_the_others_have_each_other() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)

    mine, others = views(fed.join(2, "bob", RED))

    ann, bob = member(ME, "ann", 1), member(ME, "bob", 2)
    assert (mine.sessions, mine.view.members, mine.view.together) == ((2,), (ann, bob), (bob,))
    assert (others.sessions, others.view.members, others.view.together) == ((1,), (ann, bob), (ann,))
    assert (others.view.cause, others.view.who) == (Cause.JOIN, bob)
    assert mine.view.id == others.view.id == GroupViewId(view_id(2), (), 2)


def test_members_are_listed_by_daemon_and_then_by_name() -> None:
    fed = FedGroups(ME, NEAR)
    fed.deliver(NEAR, 7, GroupJoin("ann", "red"))
    fed.join(1, "zoe", RED)

    (shown,) = views(fed.join(2, "bob", RED))[:1]

    assert [one.name for one in shown.view.members] == ["bob", "zoe", "ann"]


def test_a_leaver_sees_the_place_of_its_leave_and_the_others_see_a_view() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", RED)
    fed.step(LeaveGroup(1, RED))

    left, shown = fed.delivered(ME, fed.taken())

    assert left == LeftGroup(1, RED)
    (only,) = views([shown])
    assert (only.sessions, only.view.cause, only.view.who) == ((2,), Cause.LEAVE, member(ME, "ann", 1))
    assert only.view.members == only.view.together == (member(ME, "bob", 2),)


def test_a_kill_removes_a_session_from_all_groups_by_its_number_and_not_its_name() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.join(1 + 1, "bob", BLUE)
    fed.deliver(NEAR, 7, GroupJoin("ann", "red"))
    fed.deliver(NEAR, 7, GroupJoin("ann", "blue"))
    fed.deliver(NEAR, 8, GroupJoin("zoe", "blue"))

    shown = views(fed.deliver(NEAR, 7, GroupKill()))

    assert [(one.view.group, one.view.cause, len(one.view.members)) for one in shown] == [
        ("blue", Cause.DISCONNECT, 2),
        ("red", Cause.DISCONNECT, 1),
    ]


def test_a_group_that_comes_back_goes_on_above_its_last_id() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.step(LeaveGroup(1, RED))
    fed.delivered(ME, fed.taken())
    fed.step(JoinGroup(1, RED))

    (shown,) = views(fed.delivered(ME, fed.taken()))

    assert shown.view.id == GroupViewId(view_id(2), (), 2)


def test_join_then_send_then_leave_go_out_in_that_order() -> None:
    fed = FedGroups(ME, NEAR)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    fed.send(1, Service.RELIABLE, "red")
    fed.step(LeaveGroup(1, RED))

    assert [one.service for one in fed.taken()] == [Service.AGREED, Service.RELIABLE, Service.AGREED]


def test_a_kill_follows_all_requests_but_does_not_wait_for_an_announced_join() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    fed.send(1, Service.RELIABLE, "red")
    (announcement,) = fed.taken()

    fed.step(Disconnect(1))
    sent, end = fed.taken()

    assert group_messages([announcement]) == [GroupInterest(1, ("red",))]
    assert (sent.service, group_messages([end])) == (Service.RELIABLE, [GroupKill()])


def test_sessions_take_turns() -> None:
    fed = FedGroups(ME, NEAR)
    for session in (1, 2):
        fed.step(Connect(session, f"s{session}"))
        for service in (Service.AGREED, Service.SAFE, Service.AGREED):  # So that they are not merged.
            fed.send(session, service, "red")

    assert [one.session for one in fed.taken()] == [1, 2, 1, 2, 1, 2]


# Messages.


def test_a_session_in_several_of_the_groups_gets_a_message_once() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.step(JoinGroup(1, BLUE))
    fed.delivered(ME, fed.taken())
    fed.join(2, "bob", BLUE)

    (out,) = fed.message(FAR, Service.AGREED, "red", "blue", "#ann#d0", "#ann#d1")

    assert delivers([out]) == [(1, 2)]


def test_a_message_without_local_members_is_not_delivered() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)

    assert fed.message(FAR, Service.AGREED, "blue", "#ann#d1", "#bob#d0") == []


def test_self_discard_spares_only_the_sending_session() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", RED)

    assert delivers(fed.message(ME, Service.AGREED, "red", session=1, discard=True, name="ann")) == [(2,)]
    assert delivers(fed.message(NEAR, Service.AGREED, "red", session=1, discard=True)) == [(1, 2)]


def test_a_message_names_its_senders_private_group() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)

    (out,) = fed.message(NEAR, Service.AGREED, "red")

    assert getattr(out, "sender", None) == "#sender#d1"


def test_a_bundle_of_another_session_than_its_message_is_dropped() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.send(1, Service.AGREED, "red")
    (submit,) = fed.taken()
    message = OrderedMessage(Service.AGREED, NEAR.daemon, 1, submit.payload)

    assert fed.step(Delivered(fed.view, message, NEAR, Position(99, 0))) == []
    assert fed.groups.drops == {Drop.FOREIGN_SENDER: 1}


@pytest.mark.parametrize(
    "payload", [b"", b"\x05", b"\x05" * 40, b"\x95\xa1J", b"\xff" * 9, b"\x93\xa1J\xa0\xa1g"]
)
def test_invalid_messages_are_dropped_and_counted(payload: bytes) -> None:
    fed = FedGroups(ME, NEAR)

    assert (
        fed.step(
            Delivered(fed.view, OrderedMessage(Service.AGREED, NEAR.daemon, 3, payload), NEAR, Position(9, 0))
        )
        == []
    )
    assert sum(fed.groups.drops.values()) == 1


def test_a_client_cannot_send_group_messages_and_these_need_their_own_service() -> None:
    fed = FedGroups(ME, NEAR)
    for service, session, group_message in (
        (Service.SAFE, 5, GroupInterest(1, ("red",))),
        (Service.RELIABLE, 5, GroupJoin("ann", "red")),
        (Service.AGREED, DAEMON_SESSION, GroupKill()),
        (Service.AGREED, 5, GroupJoin("ann", "#ann#d0")),
    ):
        message = OrderedMessage(service, NEAR.daemon, session, encode_group_message(group_message))
        assert fed.step(Delivered(fed.view, message, NEAR, Position(9, 0))) == []

    assert fed.groups.drops == {Drop.INCONSISTENT: 4}


# The daemons' views.


def test_a_view_that_only_loses_daemons_waits_for_all_installs_without_an_exchange() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", BLUE)
    fed.deliver(FAR, 7, GroupJoin("far", "red"))

    (signal,) = fed.signal((ME, NEAR), 3)
    assert fed.installed((ME, NEAR), (ME, NEAR), 3) == []
    (group_message,) = taken = fed.taken()
    assert decode_group_message(group_message.payload, group_message.service) == GroupsPart(
        view_id(3), 0, 1, fed.groups.own.version
    )
    assert fed.delivered(ME, taken) == []
    shown, resume = fed.deliver(NEAR, DAEMON_SESSION, GroupsPart(view_id(3), 0, 1, 0))

    ann = member(ME, "ann", 1)
    assert signal == ShowSignal((1,), RED, GroupViewId(view_id(2), (), 2), (ann,))
    (only,) = views([shown])
    assert (only.view.group, only.view.members, only.view.together) == (RED, (ann,), (ann,))
    assert (only.view.id, only.view.cause) == (GroupViewId(view_id(3), (), 0), Cause.NETWORK)
    assert resume == Resume(view_id(3))
    assert fed.taken() == []


def test_a_daemon_that_is_left_alone_does_not_wait() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)

    assert fed.move((ME,), (ME,), 3) == [Resume(view_id(3))]


@pytest.mark.parametrize("service", [Service.CAUSAL, Service.AGREED, Service.SAFE])
def test_after_the_signal_an_ordered_message_closes_even_a_group_that_loses_nobody(service: Service) -> None:
    """Daemons that did not come along may have delivered something before it."""
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", BLUE)
    assert signals(fed.signal((ME, NEAR), 3)) == []

    assert signals(fed.message(NEAR, Service.RELIABLE, "red")) == []
    assert signals(fed.message(NEAR, Service.FIFO, "red")) == []
    signal, delivered = fed.message(NEAR, service, "red", "other")
    again = fed.message(NEAR, service, "red")
    fed.installed((ME, NEAR), (ME, NEAR), 3)
    shown, _ = fed.exchange(ME, NEAR)

    ann = member(ME, "ann", 1)
    assert signal == ShowSignal((1,), RED, GroupViewId(view_id(2), (), 1), (ann,))
    assert delivers([delivered]) == delivers(again) == [(1,)]
    assert signals(again) == []
    (only,) = views([shown])
    assert (only.view.group, only.view.id, only.view.together) == (RED, GroupViewId(view_id(3), (), 0), (ann,))


def test_requests_wait_from_the_signal_until_groups_are_complete_and_keep_their_order() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.signal((ME,), 3)
    fed.send(1, Service.RELIABLE, "red")
    assert fed.taken() == []
    fed.installed((ME,), (ME, FAR), 3)
    fed.step(LeaveGroup(1, RED))

    (groups,) = fed.taken()
    assert (groups.service, groups.session) == (Service.SAFE, DAEMON_SESSION)
    fed.delivered(ME, [groups])
    assert fed.taken() == []
    fed.deliver(FAR, DAEMON_SESSION, GroupsPart(view_id(3), 0, 1, 0))

    assert [one.service for one in fed.taken()] == [Service.RELIABLE, Service.AGREED]


def test_a_merge_shows_a_group_that_both_sides_have_and_leaves_alone_one_that_only_one_has() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", BLUE)
    assert signals(fed.move((ME, NEAR), ALL, 3)) == []
    theirs = GroupViewId(view_id(1), (), 4)
    said = GroupsPart(view_id(3), 0, 1, 0, (LocalGroup("red", theirs, (), ((7, "far"),)),))

    out = fed.exchange(*ALL, said={FAR: said})

    (shown,) = views(out)
    ann, far = member(ME, "ann", 1), member(FAR, "far", 7)
    assert (shown.view.group, shown.view.members, shown.view.together) == (RED, (ann, far), (ann,))
    assert shown.view.sets == ((far,), (ann,))
    assert fed.groups.table.groups[BLUE].id == GroupViewId(view_id(2), (), 1)
    assert out[-1] == Resume(view_id(3))


def test_groups_in_parts_are_one_unit() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.move((ME,), (ME, FAR), 3)
    fed.delivered(ME, fed.taken())
    theirs = GroupViewId(view_id(1), (), 4)
    parts = [
        GroupsPart(view_id(3), at, 2, 0, (LocalGroup("red", theirs, (), ((at, f"far{at}"),)),)) for at in (1, 0)
    ]

    assert fed.deliver(FAR, DAEMON_SESSION, parts[0]) == []
    (shown,) = views(fed.deliver(FAR, DAEMON_SESSION, parts[1]))

    assert len(shown.view.members) == 3


def test_groups_of_an_older_view_are_ignored() -> None:
    fed = FedGroups(ME, NEAR)
    fed.move((ME,), (ME, FAR), 3)
    fed.delivered(ME, fed.taken())

    fed.deliver(FAR, DAEMON_SESSION, GroupsPart(view_id(2), 0, 1, 0))

    assert fed.groups.state is GroupsState.GGATHER


def test_two_sides_that_both_lost_members_of_one_view_are_not_together() -> None:
    """If their ids were overwritten with the new membership and -1, they would look alike."""
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.deliver(FAR, 7, GroupJoin("far", "red"))
    last = GroupViewId(view_id(2), (), 2)
    fed.move((ME,), ALL, 4)
    # The others went through view 3 before, and had no time to exchange their groups there.
    said = GroupsPart(view_id(4), 0, 1, 0, (LocalGroup("red", last, (view_id(2), view_id(3)), ((7, "far"),)),))

    parted, merged = views(fed.exchange(*ALL, said={FAR: said}))

    ann, far = member(ME, "ann", 1), member(FAR, "far", 7)
    assert (parted.view.members, parted.view.together) == ((ann,), (ann,))
    assert (merged.view.members, merged.view.together) == ((ann, far), (ann,))
    assert last < parted.view.id < merged.view.id == GroupViewId(view_id(4), (), 0)


def test_a_join_after_the_signal_is_shown_with_an_id_of_this_side_and_closed_at_once() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.deliver(FAR, 7, GroupJoin("far", "red"))
    fed.signal((ME, NEAR), 3)

    shown, signal = fed.deliver(NEAR, 5, GroupJoin("near", "red"))

    (only,) = views([shown])
    assert only.view.id == GroupViewId(view_id(2), (view_id(3), ViewId(0, DaemonId(0), Incarnation(fed.at))), 1)
    assert only.view.id.closing
    assert only.view.together == (member(ME, "ann", 1),)
    assert [one.name for one in only.view.members] == ["ann", "near", "far"]
    assert signals([signal])[0].together == (member(ME, "ann", 1), member(NEAR, "near", 5))


def test_a_leave_after_the_signal_is_not_undone_by_the_view_that_follows() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", RED)
    fed.deliver(FAR, 7, GroupJoin("far", "red"))
    fed.signal((ME, NEAR), 3)

    left, closing, signal = fed.deliver(ME, 2, GroupLeave("red"))
    fed.installed((ME, NEAR), (ME, NEAR), 3)
    (shown,) = views(fed.exchange(ME, NEAR))

    ann, far = member(ME, "ann", 1), member(FAR, "far", 7)
    assert left == LeftGroup(2, RED)
    (only,) = views([closing])
    assert (only.view.members, only.view.together, only.view.id.closing) == ((ann, far), (ann,), True)
    assert signal == ShowSignal((1,), RED, only.view.id, (ann,))
    assert shown.view.members == (ann,)


def test_a_signal_before_groups_are_complete_waits_for_their_outcome() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.deliver(NEAR, 5, GroupJoin("near", "red"))
    fed.move((ME, NEAR), ALL, 3)
    last = GroupViewId(view_id(2), (), 2)
    near = GroupsPart(view_id(3), 0, 1, 0, (LocalGroup("red", last, (), ((5, "near"),)),))
    far = GroupsPart(
        view_id(3), 0, 1, 0, (LocalGroup("red", GroupViewId(view_id(1), (), 1), (), ((7, "far"),)),)
    )
    fed.delivered(ME, fed.taken())
    fed.deliver(NEAR, DAEMON_SESSION, near)

    assert fed.signal((ME, FAR), 4) == []
    assert fed.groups.state.name == "GGT"
    shown, signal = fed.deliver(FAR, DAEMON_SESSION, far)

    # A member may have had them before its signal: the same view, and only then the signal.
    assert [one.name for one in views([shown])[0].view.members] == ["ann", "near", "far"]
    assert signals([signal])[0].together == (member(ME, "ann", 1), member(FAR, "far", 7))
    assert fed.groups.state.name == "GTRANS"
    fed.installed((ME, FAR), (ME, FAR), 4)
    (shown, _) = fed.exchange(ME, FAR)
    assert [one.name for one in views([shown])[0].view.members] == ["ann", "far"]


def test_a_second_change_before_groups_are_complete_restarts_the_exchange() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.deliver(NEAR, 5, GroupJoin("near", "red"))
    fed.move((ME, NEAR), ALL, 3)
    fed.delivered(ME, fed.taken())
    assert fed.signal((ME, FAR), 4) == []

    signal, withdraw = fed.installed((ME, FAR), (ME, FAR), 4)

    assert signals([signal])[0].group == RED
    assert withdraw == Withdraw()
    assert fed.groups.state is GroupsState.GGATHER
    (group_message,) = group_messages(fed.taken())
    assert group_message == GroupsPart(
        view_id(4), 0, 1, 0, (LocalGroup("red", GroupViewId(view_id(2), (), 2), (view_id(3),), ((1, "ann"),)),)
    )


def test_a_join_before_groups_are_complete_is_a_peers_mistake() -> None:
    fed = FedGroups(ME, NEAR)
    fed.move((ME,), (ME, FAR), 3)

    assert fed.deliver(FAR, 7, GroupJoin("far", "red")) == []
    assert fed.groups.drops == {Drop.INCONSISTENT: 1}


@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO])
def test_messages_of_daemons_that_have_all_groups_wait_for_the_view_that_groups_bring(service: Service) -> None:
    """Otherwise they came in the view before, where other members may never get them (clients, seed 2490)."""
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.move((ME, NEAR), ALL, 3)

    assert delivers(fed.message(FAR, service, "red")) == []
    assert delivers(fed.exchange(*ALL)) == [(1,)]


def test_messages_that_wait_for_groups_that_never_come_are_delivered_before_the_next_view() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.move((ME, NEAR), ALL, 3)
    fed.message(FAR, Service.RELIABLE, "red")

    out = fed.move((ME, NEAR), (ME, NEAR), 4)

    assert delivers(out) == [(1,)]
    assert delivers(fed.exchange(ME, NEAR)) == []
