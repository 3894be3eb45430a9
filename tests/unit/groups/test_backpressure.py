"""Senders that wait for slow receivers at other daemons."""

from tests.unit.groups.one_daemon import ALL, BLUE, FAR, ME, NEAR, RED, FedGroups, delivers
from tests.unit.groups.submissions import group_messages

from hopring.groups.groups import NO_VIEW
from hopring.groups.messages import HELD_MAX, GroupHold
from hopring.ids import GroupName
from hopring.ordering.entry import DAEMON_SESSION
from hopring.services import Service


def sent(fed: FedGroups) -> list[int]:
    return [one.session for one in fed.taken() if one.session != DAEMON_SESSION]


def test_a_daemon_announces_held_groups_once_and_their_release() -> None:
    fed = FedGroups(*ALL)
    fed.groups.block((RED, BLUE))
    fed.groups.block((RED,))

    (group_message,) = fed.taken()
    assert (group_message.service, group_messages([group_message])) == (
        Service.FIFO,
        [GroupHold(("red", "blue"), ())],
    )

    fed.groups.unblock((RED, BLUE))
    assert group_messages(fed.taken()) == [GroupHold((), ("blue",))]
    fed.groups.unblock((RED,))
    assert group_messages(fed.taken()) == [GroupHold((), ("red",))]


def test_a_hold_that_ends_before_it_was_sent_is_not_sent() -> None:
    fed = FedGroups(*ALL)
    fed.groups.block((RED,))
    fed.groups.unblock((RED,))

    assert fed.taken() == []


def test_many_groups_are_sent_in_several_messages() -> None:
    fed = FedGroups(*ALL)
    fed.groups.block([GroupName(f"g{at}") for at in range(HELD_MAX + 1)])

    assert [len(one.on) for one in group_messages(fed.taken()) if isinstance(one, GroupHold)] == [HELD_MAX, 1]


def test_messages_wait_until_all_daemons_release_the_group_and_other_groups_do_not() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.join(2, "bob", BLUE)
    for one in (NEAR, FAR):
        fed.deliver(one, DAEMON_SESSION, GroupHold(("red",), ()))
    fed.deliver(FAR, DAEMON_SESSION, GroupHold(("red",), ()))  # A repeated message counts once.
    fed.send(1, Service.AGREED, "blue", "red")
    fed.send(2, Service.AGREED, "blue")

    assert sent(fed) == [2]
    fed.deliver(NEAR, DAEMON_SESSION, GroupHold((), ("red", "blue")))
    assert sent(fed) == []
    fed.deliver(FAR, DAEMON_SESSION, GroupHold((), ("red",)))
    assert sent(fed) == [1]


def test_a_new_view_ends_the_holds_of_lost_daemons_and_repeats_the_own_holds() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.groups.block((BLUE,))
    assert group_messages(fed.taken()) == [GroupHold(("blue",), ())]
    fed.deliver(FAR, DAEMON_SESSION, GroupHold(("red",), ()))
    fed.send(1, Service.AGREED, "red")
    assert sent(fed) == []

    fed.move((ME, NEAR), (ME, NEAR), 3)
    fed.exchange(ME, NEAR)

    taken = fed.taken()
    assert group_messages(taken) == [GroupHold(("blue",), ())]
    assert delivers(fed.delivered(ME, [one for one in taken if one.session == 1])) == [(1,)]


def test_the_own_hold_that_is_delivered_back_counts_once() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.groups.block((RED,))
    fed.delivered(ME, fed.taken())
    fed.send(1, Service.AGREED, "red")
    assert sent(fed) == []

    fed.groups.unblock((RED,))

    assert sent(fed) == [1]


def test_alone_in_the_first_view_it_holds_as_well() -> None:
    fed = FedGroups()
    assert fed.groups.views.ids.view != NO_VIEW
    fed.join(1, "ann", RED)
    fed.groups.block((RED,))
    fed.send(1, Service.AGREED, "red")

    assert sent(fed) == []
