"""Credits: clients are told what has gone out, in time, and are not woken for that alone."""

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.events import Message
from hopring.client.session_base import message_of
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import CREDIT_DELAY_US, SessionOptions


def joined(fake: FakeDaemon, number: int, name: str) -> ClientCore:
    """A client in a group of its name, which owes nothing and is owed nothing."""
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
    """A message that has come to the daemon."""
    core.outgoing.append(message_of([group], data, Service.AGREED, 0, False))
    fake.say(number, core.output())


def test_little_is_told_a_while_later_if_nothing_else_goes_to_the_client() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")

    assert not fake.ready, "nobody is woken for that"
    assert fake.server.wake_at_us == fake.now_us + CREDIT_DELAY_US
    assert anna.outgoing.in_doubt == 1
    fake.now_us = fake.server.wake_at_us
    fake.step(Tick())
    assert fake.ready == {1}
    fake.exchange(1, anna)
    assert anna.outgoing.charged_bytes == anna.outgoing.in_doubt == 0
    assert fake.server.wake_at_us == NEVER


def test_it_rides_with_the_next_event() -> None:
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


def test_a_quarter_of_the_window_is_told_at_once() -> None:
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


def test_who_has_to_go_is_told_before() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    fake.end("the daemon ends", "connect to another daemon")
    anna.receive(fake.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_client_that_takes_nothing_is_not_looked_at_again_and_again() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    fake.now_us = fake.server.wake_at_us
    fake.step(Tick())

    assert fake.server.wake_at_us == NEVER, "it is ready, and that is all"


def test_an_end_behind_a_message_that_waits_takes_nothing_back() -> None:
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


def test_what_passes_a_message_that_waits_is_not_taken_for_it() -> None:
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


def test_who_breaks_the_protocol_is_told_before() -> None:
    fake = FakeDaemon()
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    fake.say(1, b"\xff" * 64)
    anna.receive(fake.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_small_window_is_never_kept_from_the_next_message() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=64 * 1024))
    anna = joined(fake, 1, "anna")
    send(fake, 1, anna, "others", b"little")
    assert fake.ready == {1}


def test_questions_are_answered_at_once_while_others_send() -> None:
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
