"""Credits: clients learn in time what has been sent on, and are not woken for that alone."""

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.events import Message
from hopring.client.session_base import message_of
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import CREDIT_DELAY_US, SessionOptions


def joined(fake: FakeDaemon, number: int, name: str) -> ClientCore:
    """A client in a group of its name, with no outstanding credit on either side."""
    core = fake.client(number, name)
    core.join(name)
    fake.exchange(number, core)
    while core.take() is not None:
        pass
    fake.now_us += CREDIT_DELAY_US
    fake.step(Tick())
    fake.exchange(number, core)
    fake.ready.clear()
    assert core.outgoing.charged_bytes == 0
    return core


def send(fake: FakeDaemon, number: int, core: ClientCore, group: str, data: bytes) -> None:
    """The client's message reaches the daemon."""
    core.outgoing.append(message_of([group], data, Service.AGREED, 0, False))
    fake.say(number, core.output())


def test_a_small_credit_is_sent_later_if_nothing_else_is_sent_to_the_client() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")

    assert not fake.ready, "the client was woken for a credit alone"
    assert fake.server.wake_at_us == fake.now_us + CREDIT_DELAY_US
    assert anna.outgoing.in_doubt == 1
    fake.now_us = fake.server.wake_at_us
    fake.step(Tick())
    assert fake.ready == {1}
    fake.exchange(1, anna)
    assert anna.outgoing.charged_bytes == anna.outgoing.in_doubt == 0
    assert fake.server.wake_at_us == NEVER


def test_a_credit_is_sent_with_the_next_event() -> None:
    fake = FakeDaemon()
    anna, bert = joined(fake, 1, "anna"), joined(fake, 2, "bert")
    send(fake, 1, anna, "bert", b"ping")
    send(fake, 2, bert, "anna", b"pong")

    assert fake.ready == {1, 2}
    fake.exchange(1, anna)
    event = anna.take()
    assert isinstance(event, Message)
    assert event.data == b"pong"
    assert anna.outgoing.charged_bytes == 0


def test_a_credit_of_a_quarter_of_the_window_is_sent_at_once() -> None:
    options = SessionOptions()
    fake = FakeDaemon(options)
    anna = joined(fake, 1, "anna")
    for _ in range(3):
        send(fake, 1, anna, "others", bytes(70_000))
    assert not fake.ready
    send(fake, 1, anna, "others", bytes(70_000))
    assert options.window_bytes // 4 <= 4 * 70_000
    assert fake.ready == {1}
    fake.exchange(1, anna)
    assert anna.outgoing.charged_bytes == 0


def test_a_client_gets_its_credit_before_it_is_disconnected() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    fake.end("the daemon ends", "connect to another daemon")
    anna.receive(fake.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_client_that_reads_nothing_is_not_polled() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    fake.now_us = fake.server.wake_at_us
    fake.step(Tick())

    assert fake.server.wake_at_us == NEVER, "the client was woken more than once"


def test_a_disconnect_after_a_waiting_message_does_not_withdraw_it() -> None:
    fake = FakeDaemon()
    anna, bert = joined(fake, 1, "anna"), joined(fake, 2, "bert")
    fake.stopped = True
    send(fake, 1, anna, "others", b"x")
    anna.quit()
    fake.say(1, anna.output())
    assert fake.server.sessions[1].credit_bytes == 0
    fake.stopped = False
    send(fake, 2, bert, "anna", b"an event")
    fake.exchange(1, anna)

    assert anna.quit_done


def test_a_request_that_overtakes_a_waiting_message_is_credited_separately() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    fake.stopped = True
    send(fake, 1, anna, "others", b"x")
    for _ in range(2):
        anna.leave("nobody's")  # It is refused at once.
    fake.exchange(1, anna)

    assert anna.outgoing.in_doubt == 1
    fake.stopped = False
    fake.pump()
    fake.now_us += CREDIT_DELAY_US
    fake.step(Tick())
    fake.exchange(1, anna)
    assert anna.outgoing.in_doubt == anna.outgoing.charged_bytes == 0


def test_a_client_that_breaks_the_protocol_gets_its_credit_before_the_error() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    fake.say(1, b"\xff" * 64)
    anna.receive(fake.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_small_window_never_blocks_the_next_message() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=64 * 1024))
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"little")
    assert fake.ready == {1}


def test_queries_are_answered_at_once_while_others_send() -> None:
    fake = FakeDaemon()
    anna, bert = joined(fake, 1, "anna"), joined(fake, 2, "bert")
    send(fake, 1, anna, "others", b"x")
    fake.now_us += CREDIT_DELAY_US
    fake.step(Tick())
    serial = bert.ask("groups")
    fake.say(2, bert.output())
    assert fake.server.wake_at_us <= fake.now_us
    fake.step(Tick())
    fake.exchange(2, bert)

    assert bert.query_answers[serial] is not None
