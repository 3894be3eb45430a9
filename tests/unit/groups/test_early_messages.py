"""Reliable and FIFO messages that overtake a join."""

from tests.unit.groups.one_daemon import BLUE, ME, NEAR, RED, FedGroups, delivers

from hopring.engine import Stamped, SubmitMessage
from hopring.groups.events import Connect, DeliverBundle, JoinGroup, LeaveGroup, Output, ShowView
from hopring.ids import GroupName
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service


def stamped(fed: FedGroups, submits: list[SubmitMessage]) -> None:
    """Stamps messages at the next positions, where they will be delivered."""
    for at, submit in enumerate(submits, fed.at + 1):
        message = OrderedMessage(submit.service, ME.daemon, submit.session, submit.payload)
        fed.step(Stamped(fed.view, message, Position(at, 0)))


def joining(*groups: GroupName, before: GroupName | None = None) -> tuple[FedGroups, list[SubmitMessage]]:
    fed = FedGroups(ME, NEAR)
    fed.step(Connect(1, "ann"))
    if before is not None:
        fed.step(JoinGroup(1, before))
        fed.delivered(ME, fed.taken())
    for group in groups:
        fed.step(JoinGroup(1, group))
    submits = fed.taken()
    stamped(fed, submits)
    return fed, submits


def early(
    fed: FedGroups, service: Service, *groups: str, at: int, session: int = 9, discard: bool = False
) -> list[Output]:
    before = fed.at
    out = fed.message(ME if discard else NEAR, service, *groups, at=at, session=session, discard=discard)
    fed.at = before
    return out


def test_a_joiner_gets_what_overtook_its_join_right_after_its_view() -> None:
    fed, submits = joining(RED)
    assert early(fed, Service.RELIABLE, "red", at=50) == []

    shown, message = fed.delivered(ME, submits)

    assert isinstance(shown, ShowView)
    assert isinstance(message, DeliverBundle)
    assert (message.sessions, message.position) == ((1,), Position(50, 0))


def test_a_message_ordered_before_the_join_is_not_owed() -> None:
    fed, submits = joining(RED)
    early(fed, Service.RELIABLE, "red", at=1)

    assert delivers(fed.delivered(ME, submits)) == []


def test_messages_that_overtook_a_join_come_in_order() -> None:
    fed, submits = joining(RED)
    early(fed, Service.RELIABLE, "red", at=60)
    early(fed, Service.RELIABLE, "red", at=50)

    out = [one for one in fed.delivered(ME, submits) if isinstance(one, DeliverBundle)]

    assert [one.position.lts for one in out] == [50, 60]


def test_a_session_that_joins_two_groups_of_a_message_gets_it_once() -> None:
    fed, submits = joining(RED, BLUE)
    early(fed, Service.RELIABLE, "red", "blue", at=50)

    assert delivers(fed.delivered(ME, submits)) == [(1,)]


def test_a_session_that_got_it_through_another_group_does_not_get_it_again() -> None:
    fed, submits = joining(BLUE, before=RED)
    assert delivers(early(fed, Service.RELIABLE, "red", "blue", at=50)) == [(1,)]

    assert delivers(fed.delivered(ME, submits)) == []


def test_the_sender_is_not_owed_what_it_discards() -> None:
    fed, submits = joining(RED)
    early(fed, Service.RELIABLE, "red", at=50, session=1, discard=True)

    assert delivers(fed.delivered(ME, submits)) == []


def test_fifo_through_another_group_waits_for_what_its_sender_sent_before() -> None:
    fed, submits = joining(BLUE, before=RED)
    assert early(fed, Service.RELIABLE, "blue", at=50) == []
    assert early(fed, Service.FIFO, "red", at=51) == []
    assert delivers(early(fed, Service.FIFO, "red", at=52, session=8)) == [(1,)]

    out = [one for one in fed.delivered(ME, submits) if isinstance(one, DeliverBundle)]

    assert [(one.sessions, one.position.lts) for one in out] == [((1,), 50), ((1,), 51)]


def test_a_session_that_has_left_does_not_get_messages_that_waited_there() -> None:
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", RED)
    fed.step(LeaveGroup(1, RED))
    fed.step(JoinGroup(1, BLUE))
    submits = fed.taken()
    stamped(fed, submits)
    early(fed, Service.RELIABLE, "blue", at=50)
    early(fed, Service.FIFO, "red", at=51)

    out = [one for one in fed.delivered(ME, submits) if isinstance(one, DeliverBundle)]

    assert [one.position.lts for one in out] == [50]


def test_a_session_that_rejoins_a_group_gets_messages_that_waited_for_another_join() -> None:
    """A session in blue leaves it, joins red, and joins blue again (clients, seed 3738)."""
    fed = FedGroups(ME, NEAR)
    fed.join(1, "ann", BLUE)
    fed.step(LeaveGroup(1, BLUE))
    fed.step(JoinGroup(1, RED))
    fed.step(JoinGroup(1, BLUE))
    submits = fed.taken()
    stamped(fed, submits)
    early(fed, Service.FIFO, "red", at=50)
    assert early(fed, Service.FIFO, "blue", at=51) == []

    out = fed.delivered(ME, submits)

    places = [one.position for one in out if isinstance(one, DeliverBundle)]
    assert places == [Position(50, 0), Position(51, 0)]
