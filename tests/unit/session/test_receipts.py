"""Receipts at the sender's daemon: they wait for reports of other daemons while the view is open."""

from tests.unit.groups.one_daemon import ALL, FAR, ME, NEAR, RED, FedGroups

from hopring.engine import Delivered
from hopring.groups.events import PresenceReport
from hopring.groups.messages import GroupJoin
from hopring.groups.payloads import append_sender
from hopring.ids import GroupName, Place
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service
from hopring.session.protocol import ReceiptNotice
from hopring.session.receipts import Receipts
from hopring.wire.bundle import BundleKey, encode_bundle

AT = Position(50, 0)


def delivered(fed: FedGroups, *groups: str, ticket: int = 3, service: Service = Service.AGREED) -> Delivered:
    """Delivers a message of session 5 of this daemon."""
    key = BundleKey(ME.daemon, 5, service, tuple([GroupName(name) for name in groups]))
    payload = append_sender(encode_bundle(key, [b"body"], [7], [ticket]), "me")
    event = Delivered(fed.view, OrderedMessage(service, ME.daemon, 5, payload), ME, AT)
    fed.step(event)
    return event


def receipt(fed: FedGroups, members: int | None, closing: bool = False) -> ReceiptNotice:
    return ReceiptNotice((3,), Place(fed.view, 50, 0), closing, (members,))


def test_members_elsewhere_are_known_and_counted_at_once() -> None:
    fed = FedGroups(*ALL)
    fed.join(5, "me", RED)
    fed.deliver(FAR, 8, GroupJoin("far", "red"))
    receipts = Receipts(fed.groups)

    assert receipts.delivered(delivered(fed, "red")) == receipt(fed, 2)
    assert receipts.delivered(delivered(fed, "blue")) == receipt(fed, 0)
    assert receipts.delivered(delivered(fed, "red", "#me#d0")) == receipt(fed, 2)
    assert receipts.delivered(delivered(fed, "red", ticket=0)) is None


def test_daemons_of_private_groups_are_waited_for_and_joins_meanwhile_do_not_count() -> None:
    fed = FedGroups(*ALL)
    fed.deliver(FAR, 8, GroupJoin("far", "red"))
    receipts = Receipts(fed.groups)
    groups = ("red", "#far#d2", "#other#d2", "#near#d1", "#x#nowhere")

    assert receipts.delivered(delivered(fed, *groups)) is None
    fed.deliver(NEAR, 4, GroupJoin("late", "red"))
    assert receipts.reported(PresenceReport(5, AT, NEAR, ((3, 2),))) is None
    assert receipts.reported(PresenceReport(6, AT, FAR, ())) is None, "a report for another session"
    # The session in red counts once; the other private group at that daemon belongs to no session.
    assert receipts.reported(PresenceReport(5, AT, FAR, ((1, 8),))) == receipt(fed, 2)
    assert receipts.close() == []


def test_when_the_view_closes_the_count_is_unknown_and_the_receipt_waits_no_longer() -> None:
    fed = FedGroups(*ALL)
    receipts = Receipts(fed.groups)

    assert receipts.delivered(delivered(fed, "#far#d2")) is None
    fed.signal((ME, NEAR), 3)
    assert receipts.close() == [(5, receipt(fed, None))]
    assert receipts.reported(PresenceReport(5, AT, FAR, ((0, 8),))) is None
    assert receipts.delivered(delivered(fed, "#far#d2")) == receipt(fed, None, closing=True)


def test_reports_on_messages_that_others_may_never_get_are_not_awaited() -> None:
    fed = FedGroups(*ALL)
    receipts = Receipts(fed.groups)

    event = delivered(fed, "#far#d2", service=Service.UNRELIABLE)
    assert receipts.delivered(event) == receipt(fed, None)
    assert receipts.close() == []


def test_a_private_group_of_a_daemon_outside_the_view_has_no_member() -> None:
    fed = FedGroups(ME, NEAR)
    receipts = Receipts(fed.groups)

    assert receipts.delivered(delivered(fed, "#far#d2")) == receipt(fed, 0)
