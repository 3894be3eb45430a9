"""Daemons report, for receipts, which of their sessions existed when a message to a private group came."""

from tests.unit.groups.one_daemon import ALL, FAR, ME, NEAR, RED, FedGroups, view_id
from tests.unit.groups.submissions import group_messages

from hopring.engine import Delivered
from hopring.groups.events import Connect, Disconnect, Output, PresenceReport
from hopring.groups.messages import PRESENCES_MAX, BundlePresence, GroupPresence
from hopring.groups.payloads import append_sender
from hopring.ids import GroupName, Process
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle


def message(fed: FedGroups, at: int, *groups: str, ticket: int = 1, sender: Process = FAR) -> list[Output]:
    """Delivers a message of session 9 of that daemon."""
    key = BundleKey(sender.daemon, 9, Service.AGREED, tuple([GroupName(name) for name in groups]))
    payload = append_sender(encode_bundle(key, [b"body"], [7], [ticket]), "sender")
    whole = OrderedMessage(Service.AGREED, sender.daemon, 9, payload)
    return fed.step(Delivered(fed.view, whole, sender, Position(at, 1)))


def test_a_daemon_reports_the_sessions_that_existed_when_a_message_with_a_ticket_came() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.step(Connect(2, "bob"))
    message(fed, 20, "red", "#bob#d0", "#nobody#d0", "#ann#d0", "#ann#d1")
    fed.step(Disconnect(2))
    killed = [one for one in fed.taken() if one.session != DAEMON_SESSION]
    message(fed, 21, "#bob#d0")  # Its end is not ordered yet.
    fed.delivered(ME, killed)
    message(fed, 22, "#bob#d0")

    (group_message,) = group_messages(fed.taken())
    assert group_message == GroupPresence(
        fed.view, (BundlePresence(2, 9, 21, 1, ((0, 2),)), BundlePresence(2, 9, 22, 1, ()))
    )


def test_presence_is_reported_at_once_and_only_once() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(2, "bob"))
    message(fed, 20, "red", "#bob#d0")
    (group_message,) = fed.taken()

    assert group_message.service is Service.AGREED
    assert group_messages([group_message]) == [
        GroupPresence(fed.view, (BundlePresence(2, 9, 20, 1, ((1, 2),)),))
    ]
    assert fed.taken() == []


def test_presence_is_not_reported_without_tickets_for_other_groups_or_for_own_messages() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(9, "bob"))
    message(fed, 20, "#bob#d0", ticket=0)
    message(fed, 21, "red")
    message(fed, 22, "#bob#d1")
    message(fed, 23, "#bob#d0", sender=ME)

    assert fed.taken() == []


def test_many_reports_are_sent_in_several_messages_and_none_after_the_view() -> None:
    fed = FedGroups(*ALL)
    for at in range(PRESENCES_MAX + 1):
        message(fed, 20 + at, "#bob#d0")
    told = [one for one in group_messages(fed.taken()) if isinstance(one, GroupPresence)]
    assert [len(one.answers) for one in told] == [PRESENCES_MAX, 1]

    message(fed, 400, "#bob#d0")
    fed.move(ALL, ALL, 3)
    fed.exchange(*ALL)
    assert not [one for one in group_messages(fed.taken()) if isinstance(one, GroupPresence)]


def test_the_sender_takes_reports_for_its_messages_in_this_view() -> None:
    fed = FedGroups(*ALL)
    answers = (BundlePresence(0, 5, 20, 0, ((1, 7),)), BundlePresence(2, 5, 21, 0, ()))

    assert fed.deliver(NEAR, DAEMON_SESSION, GroupPresence(fed.view, answers)) == [
        PresenceReport(5, Position(20, 0), NEAR, ((1, 7),))
    ]
    assert fed.deliver(NEAR, DAEMON_SESSION, GroupPresence(view_id(1), answers)) == []
