"""Receipts: the position of a message for its sender, and the error when none comes."""

from collections.abc import Callable

import pytest
from tests.unit.client.wired_client import WiredClient, connected, sending
from tests.unit.session.fake_daemon import VIEW, FakeDaemon

from hopring.client import calls
from hopring.client.errors import InDoubt, NoReceipt, SessionClosed, TimedOut
from hopring.client.events import Message, Receipt
from hopring.client.outgoing import OutgoingMessage
from hopring.ids import GroupName, Place
from hopring.services import Service
from hopring.session.options import TICKETS_MAX
from hopring.session.protocol import ReceiptNotice, encode_control

SECOND = 1_000_000


def run(wire: WiredClient, verb: calls.Call[Receipt], work: Callable[[], None], now_us: int = 0) -> Receipt:
    """Runs a call as a shell does, with one event while it waits."""
    try:
        wait = next(verb)
        work()
        assert wait.condition() or now_us >= wait.until_us
        verb.send(now_us)
    except StopIteration as stop:
        receipt: Receipt = stop.value
        return receipt
    raise AssertionError("it waits still")


def test_a_receipt_has_the_place_that_members_see() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.events()
    verb = calls.multicast_wait(wire.core, sending("g", b"x"), 0)
    receipt = run(wire, verb, lambda: wire.exchange(0))
    (message,) = wire.events()

    assert isinstance(message, Message)
    assert receipt == Receipt((GroupName("g"),), Service.AGREED, message.place, False, 1)
    assert receipt.place.view == VIEW


@pytest.mark.parametrize("self_discard", [False, True])
def test_no_membership_is_needed_and_no_reader(self_discard: bool) -> None:
    wire = connected(FakeDaemon())
    one = OutgoingMessage((GroupName("far"), GroupName("away")), b"x", Service.SAFE, 7, self_discard)
    receipt = run(wire, calls.multicast_wait(wire.core, one, 0), lambda: wire.exchange(0))

    assert (receipt.groups, receipt.service) == (("far", "away"), Service.SAFE)
    assert wire.events() == []


def test_messages_of_one_bundle_get_their_receipts_in_one_frame() -> None:
    wire = connected(FakeDaemon())
    tickets = [wire.core.send_for_receipt(sending("g", b"%d" % at)) for at in range(5)]
    wire.core.send(sending("g", b"without"))
    wire.exchange(0)

    assert all(ticket.receipt is not None for ticket in tickets)
    assert len({ticket.receipt.place for ticket in tickets if ticket.receipt is not None}) == 1


def test_without_a_request_there_is_no_receipt() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    wire.core.send(sending("g", b"x"))
    fake.say(1, wire.core.output())

    assert b"\x18\0\0\0" not in fake.fetch(1)  # The frame kind of a receipt.


def test_the_number_of_tickets_is_limited_and_they_are_returned() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True
    for _ in range(TICKETS_MAX):
        assert wire.core.has_room_and_ticket(sending("g", b""))
        wire.core.send_for_receipt(sending("g", b""))
    assert not wire.core.has_room_and_ticket(sending("g", b""))
    assert wire.core.has_room(sending("g", b""))
    wire.exchange(0)
    fake.stopped = False
    fake.pump()
    wire.exchange(0)

    assert wire.core.has_room_and_ticket(sending("g", b""))


def test_a_receipt_that_is_late_says_that_the_message_may_still_be_delivered() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True
    verb = calls.multicast_wait(wire.core, sending("g", b"x"), 0, seconds=2.0)
    with pytest.raises(NoReceipt, match="no receipt for 2 s; it was sent and may still be delivered") as caught:
        run(wire, verb, lambda: wire.exchange(0), now_us=2 * SECOND)

    assert isinstance(caught.value, InDoubt)
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.groups, caught.value.seconds) == (("g",), 2.0)
    fake.stopped = False
    fake.pump()
    wire.exchange(2 * SECOND)  # The ticket of a call that has ended is returned nevertheless.
    assert wire.core.outgoing.tickets == {}


def test_a_message_that_did_not_fit_the_window_was_not_sent() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True
    while wire.core.has_room(sending("g", bytes(100_000))):
        wire.core.send(sending("g", bytes(100_000)))
    verb = calls.multicast_wait(wire.core, sending("g", bytes(100_000)), 0, seconds=1.0)
    with pytest.raises(TimedOut, match="was not sent") as caught:
        run(wire, verb, lambda: wire.exchange(0), now_us=SECOND)

    assert not isinstance(caught.value, InDoubt)


def test_a_lost_connection_leaves_it_in_doubt_and_it_is_not_sent_again() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    fake.stopped = True

    def cut() -> None:
        wire.exchange(0)
        wire.lose(0)

    with pytest.raises(InDoubt, match="the connection was lost before its receipt came") as caught:
        run(wire, calls.multicast_wait(wire.core, sending("g", b"x"), 0), cut)
    assert not isinstance(caught.value, TimeoutError)
    fake.stopped = False
    fake.pump()
    wire.dial(100_000)
    assert wire.core.connected
    assert wire.core.outgoing.in_doubt == 0


def test_a_session_that_ended_before_the_send_leaves_no_doubt() -> None:
    wire = connected(FakeDaemon(), options=None)
    wire.lose(0)
    with pytest.raises(SessionClosed):
        next(calls.multicast_wait(wire.core, sending("g", b"x"), 0))


def test_an_unreliable_message_has_no_receipt() -> None:
    wire = connected(FakeDaemon())
    one = OutgoingMessage((GroupName("g"),), b"x", Service.UNRELIABLE)
    with pytest.raises(ValueError, match="has no place in the order"):
        next(calls.multicast_wait(wire.core, one, 0))


@pytest.mark.parametrize("tickets", [(3,), (1, 1)])
def test_a_receipt_that_nobody_asked_for_is_not_of_the_protocol(tickets: tuple[int, ...]) -> None:
    wire = connected(FakeDaemon(), options=None)
    wire.core.send_for_receipt(sending("g", b""))
    wire.core.receive(
        encode_control(ReceiptNotice(tickets, Place(VIEW, 1, 0), False, tuple([0] * len(tickets))))
    )

    assert isinstance(wire.core.ended, SessionClosed)
    assert "sent an invalid frame" in str(wire.core.ended)


def counted(wire: WiredClient, *groups: str) -> int | None:
    one = OutgoingMessage(tuple([GroupName(name) for name in groups]), b"x")
    return run(wire, calls.multicast_wait(wire.core, one, 0), lambda: wire.exchange(0)).members


def test_a_receipt_counts_each_member_of_its_groups_once() -> None:
    fake = FakeDaemon()
    wire = connected(fake)
    for number, groups in enumerate([("red",), ("red", "blue"), ("blue",)], 10):
        other = fake.client(number, f"other{number}")
        for group in groups:
            other.join(group)
        fake.exchange(number, other)

    assert counted(wire, "green") == 0
    assert (counted(wire, "red"), counted(wire, "blue"), counted(wire, "red", "blue")) == (2, 2, 3)
    assert counted(wire, "red", "#other11#eu1") == 2
    assert counted(wire, "red", "#other12#eu1", "green") == 3
    assert counted(wire, "#other10#eu1") == counted(wire, "#anna#eu1") == 1
    assert counted(wire, "#nobody#eu1") == counted(wire, "#other10#elsewhere") == 0

    fake.lose(11)
    assert (counted(wire, "red", "blue"), counted(wire, "#other11#eu1")) == (2, 0)


def test_messages_of_a_mixed_bundle_are_counted_by_their_own_groups() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "red")
    wire.events()
    tickets = [wire.core.send_for_receipt(sending(group, b"x")) for group in ("red", "blue", "#anna#eu1")]
    wire.exchange(0)
    receipts = [ticket.receipt for ticket in tickets if ticket.receipt is not None]

    assert len({one.place for one in receipts}) == 1, "they went in one bundle"
    assert [one.members for one in receipts] == [1, 0, 1]


@pytest.mark.parametrize("members", [(), (1, 1)])
def test_a_receipt_with_another_number_of_counts_is_not_of_the_protocol(members: tuple[int, ...]) -> None:
    wire = connected(FakeDaemon(), options=None)
    wire.core.send_for_receipt(sending("g", b""))
    wire.core.receive(encode_control(ReceiptNotice((1,), Place(VIEW, 1, 0), False, members)))

    assert isinstance(wire.core.ended, SessionClosed)
    assert "counts for 1 tickets" in str(wire.core.ended)


def test_a_receipt_lists_the_members_at_its_place_if_the_bundle_asks_for_them() -> None:
    fake = FakeDaemon()
    anna = fake.client(1, "anna")
    for number, name in ((2, "carl"), (3, "bert")):
        core = fake.client(number, name)
        core.join("g")
        fake.exchange(number, core)
    requests = OutgoingMessage((GroupName("g"),), b"", enveloped=True)
    nobody = OutgoingMessage((GroupName("h"),), b"", enveloped=True)
    tickets = [anna.outgoing.append_requests(one, [b"", b""]) for one in (requests, nobody)]
    plain = anna.outgoing.append_with_ticket(OutgoingMessage((GroupName("g"),), b""))
    fake.exchange(1, anna)

    assert [ticket.receipt is not None for ticket in (*tickets, plain)] == [True] * 3
    assert [(one.name, one.daemon, one.session) for one in tickets[0].listed or ()] == [
        ("bert", "eu1", 3),
        ("carl", "eu1", 2),
    ]
    assert tickets[1].listed == ()
    assert plain.listed is None
