"""Senders that wait for receivers elsewhere."""

from tests.unit.groups.one_daemon import ALL, BLUE, FAR, ME, NEAR, RED, FedGroups, delivers
from tests.unit.groups.submissions import words

from hopring.groups.backpressure import TOLD_MAX
from hopring.groups.groups import NOWHERE
from hopring.groups.messages import GroupHold
from hopring.ids import GroupName
from hopring.ordering.entry import CONTROL_SESSION
from hopring.services import Service


def sent(desk: FedGroups) -> list[int]:
    return [one.session for one in desk.taken() if one.session != CONTROL_SESSION]


def test_a_daemon_tells_the_others_whom_to_wait_for_once_and_when_it_is_over() -> None:
    desk = FedGroups(*ALL)
    desk.groups.block((RED, BLUE))
    desk.groups.block((RED,))

    (word,) = desk.taken()
    assert (word.service, words([word])) == (Service.FIFO, [GroupHold(("red", "blue"), ())])

    desk.groups.unblock((RED, BLUE))
    assert words(desk.taken()) == [GroupHold((), ("blue",))]
    desk.groups.unblock((RED,))
    assert words(desk.taken()) == [GroupHold((), ("red",))]


def test_what_is_over_before_it_was_told_is_not_told() -> None:
    desk = FedGroups(*ALL)
    desk.groups.block((RED,))
    desk.groups.unblock((RED,))

    assert desk.taken() == []


def test_many_groups_go_in_several_words() -> None:
    desk = FedGroups(*ALL)
    desk.groups.block([GroupName(f"g{at}") for at in range(TOLD_MAX + 1)])

    assert [len(one.on) for one in words(desk.taken()) if isinstance(one, GroupHold)] == [TOLD_MAX, 1]


def test_messages_wait_until_all_who_are_behind_have_caught_up_and_other_groups_do_not() -> None:
    desk = FedGroups(*ALL)
    desk.join(1, "ann", RED)
    desk.join(2, "bob", BLUE)
    for one in (NEAR, FAR):
        desk.deliver(one, CONTROL_SESSION, GroupHold(("red",), ()))
    desk.deliver(FAR, CONTROL_SESSION, GroupHold(("red",), ()))  # Said twice, meant once.
    desk.send(1, Service.AGREED, "blue", "red")
    desk.send(2, Service.AGREED, "blue")

    assert sent(desk) == [2]
    desk.deliver(NEAR, CONTROL_SESSION, GroupHold((), ("red", "blue")))
    assert sent(desk) == []
    desk.deliver(FAR, CONTROL_SESSION, GroupHold((), ("red",)))
    assert sent(desk) == [1]


def test_with_a_new_view_nobody_waits_for_who_is_gone_and_what_is_meant_is_said_again() -> None:
    desk = FedGroups(*ALL)
    desk.join(1, "ann", RED)
    desk.groups.block((BLUE,))
    assert words(desk.taken()) == [GroupHold(("blue",), ())]
    desk.deliver(FAR, CONTROL_SESSION, GroupHold(("red",), ()))
    desk.send(1, Service.AGREED, "red")
    assert sent(desk) == []

    desk.move((ME, NEAR), (ME, NEAR), 3)
    desk.exchange(ME, NEAR)

    taken = desk.taken()
    assert words(taken) == [GroupHold(("blue",), ())]
    assert delivers(desk.delivered(ME, [one for one in taken if one.session == 1])) == [(1,)]


def test_what_a_daemon_says_of_itself_comes_back_and_counts_once() -> None:
    desk = FedGroups(*ALL)
    desk.join(1, "ann", RED)
    desk.groups.block((RED,))
    desk.delivered(ME, desk.taken())
    desk.send(1, Service.AGREED, "red")
    assert sent(desk) == []

    desk.groups.unblock((RED,))

    assert sent(desk) == [1]


def test_alone_in_the_first_view_it_holds_as_well() -> None:
    desk = FedGroups()
    assert desk.groups.views.ids.view != NOWHERE
    desk.join(1, "ann", RED)
    desk.groups.block((RED,))
    desk.send(1, Service.AGREED, "red")

    assert sent(desk) == []
