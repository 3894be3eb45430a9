"""Credits: clients are told what has gone out, in time, and are not woken for that alone."""

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.core import ClientCore
from hopring.client.events import Message
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.services import Service
from hopring.session.options import CREDIT_DELAY_US, SessionOptions


def joined(front: FakeDaemon, number: int, name: str) -> ClientCore:
    """A client in a group of its name, which owes nothing and is owed nothing."""
    core = front.client(number, name)
    core.join(name)
    front.exchange(number, core)
    while core.take() is not None:
        pass
    front.now_us += CREDIT_DELAY_US
    front.step(Tick())
    front.exchange(number, core)
    front.ready.clear()
    assert core.outgoing.charged_bytes == 0
    return core


def send(front: FakeDaemon, number: int, core: ClientCore, group: str, data: bytes) -> None:
    """A message that has come to the daemon."""
    core.outgoing.send(core.outgoing.key([group], Service.AGREED, False), data, 0)
    front.say(number, core.output())


def test_little_is_told_a_while_later_if_nothing_else_goes_to_the_client() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna")
    send(front, 1, anna, "others", b"x")

    assert not front.ready, "nobody is woken for that"
    assert front.desk.wake_at_us == front.now_us + CREDIT_DELAY_US
    assert anna.outgoing.in_doubt == 1
    front.now_us = front.desk.wake_at_us
    front.step(Tick())
    assert front.ready == {1}
    front.exchange(1, anna)
    assert anna.outgoing.charged_bytes == anna.outgoing.in_doubt == 0
    assert front.desk.wake_at_us == NEVER


def test_it_rides_with_the_next_event() -> None:
    front = FakeDaemon()
    anna, bert = joined(front, 1, "anna"), joined(front, 2, "bert")
    send(front, 1, anna, "bert", b"ping")
    send(front, 2, bert, "anna", b"pong")

    assert front.ready == {1, 2}
    front.exchange(1, anna)
    event = anna.take()
    assert isinstance(event, Message)
    assert event.data == b"pong"
    assert anna.outgoing.charged_bytes == 0


def test_a_quarter_of_the_window_is_told_at_once() -> None:
    options = SessionOptions()
    front = FakeDaemon(options)
    anna = joined(front, 1, "anna")
    for _ in range(3):
        send(front, 1, anna, "others", bytes(70_000))
    assert not front.ready
    send(front, 1, anna, "others", bytes(70_000))
    assert options.window_bytes // 4 <= 4 * 70_000
    assert front.ready == {1}
    front.exchange(1, anna)
    assert anna.outgoing.charged_bytes == 0


def test_who_has_to_go_is_told_before() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna")
    send(front, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    front.end("the daemon ends", "connect to another daemon")
    anna.receive(front.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_client_that_takes_nothing_is_not_looked_at_again_and_again() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna")
    send(front, 1, anna, "others", b"x")
    front.now_us = front.desk.wake_at_us
    front.step(Tick())

    assert front.desk.wake_at_us == NEVER, "it is ready, and that is all"


def test_an_end_behind_a_message_that_waits_takes_nothing_back() -> None:
    front = FakeDaemon()
    anna, bert = joined(front, 1, "anna"), joined(front, 2, "bert")
    front.stopped = True
    send(front, 1, anna, "others", b"x")
    anna.quit()
    front.say(1, anna.output())
    assert front.desk.sessions[1].credit_bytes == 0
    front.stopped = False
    send(front, 2, bert, "anna", b"an event")
    front.exchange(1, anna)

    assert anna.quit_done


def test_what_passes_a_message_that_waits_is_not_taken_for_it() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna")
    front.stopped = True
    send(front, 1, anna, "others", b"x")
    for _ in range(2):
        anna.leave("nobody's")  # It is refused at once.
    front.exchange(1, anna)

    assert anna.outgoing.in_doubt == 1
    front.stopped = False
    front.pump()
    front.now_us += CREDIT_DELAY_US
    front.step(Tick())
    front.exchange(1, anna)
    assert anna.outgoing.in_doubt == anna.outgoing.charged_bytes == 0


def test_who_breaks_the_protocol_is_told_before() -> None:
    front = FakeDaemon()
    anna = joined(front, 1, "anna")
    send(front, 1, anna, "others", b"x")
    doubtful = anna.outgoing
    front.say(1, b"\xff" * 64)
    anna.receive(front.fetch(1))

    assert anna.connection.ended is not None or anna.connection.outgoing is not doubtful
    assert doubtful.in_doubt == 0


def test_a_small_window_is_never_kept_from_the_next_message() -> None:
    front = FakeDaemon(SessionOptions(window_bytes=64 * 1024))
    anna = joined(front, 1, "anna")
    send(front, 1, anna, "others", b"little")
    assert front.ready == {1}


def test_questions_are_answered_at_once_while_others_send() -> None:
    front = FakeDaemon()
    anna, bert = joined(front, 1, "anna"), joined(front, 2, "bert")
    send(front, 1, anna, "others", b"x")
    front.now_us += CREDIT_DELAY_US
    front.step(Tick())
    serial = bert.ask("groups")
    front.say(2, bert.output())
    assert front.desk.wake_at_us <= front.now_us
    front.step(Tick())
    front.exchange(2, bert)

    assert bert.query_answers[serial] is not None
