"""A session that loses its connection: it reconnects, joins again, and counts messages in doubt."""

import pytest
from tests.unit.client.wired_client import OPTIONS, SECOND, WiredClient, connected, sending
from tests.unit.session.fake_daemon import FakeDaemon

from hopring.client.arguments import Reconnect
from hopring.client.core import ClientCore, ReconnectSchedule
from hopring.client.errors import ConnectError, NameInUse, NotMember, SessionClosed, SlowConsumer
from hopring.client.events import Event, Message, Reconnected, View
from hopring.ids import NEVER
from hopring.session.options import SessionOptions
from hopring.session.protocol import ErrorNotice, encode_control


def kinds(events: list[Event]) -> list[str]:
    return [
        f"{type(one).__name__} {one.group}" if isinstance(one, View) else type(one).__name__ for one in events
    ]


def test_it_joins_again_and_says_so_before_the_first_view() -> None:
    wire = connected(FakeDaemon(), "h", "g")
    wire.core.send(sending("g", b"before"))
    wire.exchange(0)
    wire.lose(2 * SECOND)

    assert not wire.core.connected
    assert wire.core.wake_at_us == 2 * SECOND + 100_000
    assert wire.dial(wire.core.wake_at_us - 1) is None
    assert wire.dial(wire.core.wake_at_us) == "hop://one"
    events = wire.events()
    assert kinds(events) == ["View h", "View g", "Message", "Reconnected", "View g", "View h"]
    message, back = events[2], events[3]
    assert isinstance(message, Message)
    assert isinstance(back, Reconnected)
    assert (back.groups, back.daemon, back.private_group) == (("g", "h"), "eu1", "#anna#eu1")
    assert (back.gap.lost_at_seconds, back.gap.back_at_seconds) == (1_002.0, 1_002.1)
    assert (back.gap.reason, back.gap.last) == ("the daemon is gone", message.place)
    assert (back.gap.in_doubt, back.gap.tries) == (0, 1)
    assert wire.core.connected


def test_every_group_sees_that_it_was_away() -> None:
    wire = connected(FakeDaemon(), "g", "h")
    wire.lose(0)
    wire.dial(100_000)

    assert kinds(wire.events("g")) == ["View g", "Reconnected", "View g"]
    assert kinds(wire.events("h")) == ["View h", "Reconnected", "View h"]
    assert wire.events() == []


def test_messages_that_were_not_acknowledged_are_counted_and_never_sent_again() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    other = fake.client(99, "bert")
    other.join("g")
    fake.exchange(99, other)
    wire.core.send(sending("g", b"acknowledged"))
    wire.exchange(0)
    fake.stopped = True
    for data in (b"1", b"2"):
        wire.core.send(sending("g", data))
    wire.exchange(0)
    wire.core.send(sending("g", b"3"))  # It has not been written to the connection.
    wire.lose(0)
    fake.stopped = False
    fake.pump()
    wire.dial(100_000)
    (back,) = [one for one in wire.events() if isinstance(one, Reconnected)]

    assert back.gap.in_doubt == 3
    wire.exchange(100_000)
    fake.exchange(99, other)
    seen = [event.data for event in iter(other.take, None) if isinstance(event, Message)]
    assert seen == [b"acknowledged", b"1", b"2"]


def test_requests_wait_until_the_session_is_back() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.lose(0)

    assert not wire.core.may_ask()
    assert not wire.core.has_room(sending("g", b"later"))
    wire.dial(100_000)
    assert wire.core.may_ask()
    wire.core.send(sending("g", b"later"))
    wire.exchange(100_000)
    last = wire.events()[-1]
    assert isinstance(last, Message)
    assert last.data == b"later"


def test_events_of_the_old_connection_give_no_credit_to_the_new_one() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(sending("g", bytes(50_000)))
    wire.exchange(0)
    wire.lose(0)
    wire.dial(100_000)
    wire.events()
    wire.exchange(100_000)

    assert wire.core.connected  # A credit too many would have ended the session.


def test_a_name_that_is_still_taken_is_tried_until_it_is_free() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.stopped = True
    wire.lose(0)
    for _ in range(3):
        wire.dial(wire.core.wake_at_us)
        assert isinstance(wire.core.connection.ended, NameInUse)
    fake.stopped = False
    fake.pump()
    wire.dial(wire.core.wake_at_us)

    assert wire.core.connected
    (back,) = [one for one in wire.events() if isinstance(one, Reconnected)]
    assert back.gap.tries == 4


def test_it_gives_up_after_the_timeout_and_names_the_reason() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(sending("g", b"in doubt"))
    wire.core.lost("the daemon is gone", 0)
    at_us = 0
    while wire.core.ended is None:
        assert wire.core.wake_at_us <= 10 * SECOND
        at_us = wire.core.wake_at_us
        assert wire.core.dial(at_us) is not None
        wire.core.lost("Connection refused", at_us, "start hopd there")

    assert at_us == 10 * SECOND
    assert isinstance(wire.core.ended, SessionClosed)
    assert "the daemon is gone, and no way back: hop://one: Connection refused" in str(wire.core.ended)
    assert "messages in doubt: 1" in str(wire.core.ended)
    assert (wire.core.ended.in_doubt, wire.core.wake_at_us) == (1, NEVER)
    with pytest.raises(SessionClosed):
        wire.core.may_ask()


def test_a_daemon_that_does_not_answer_is_given_up_after_a_while() -> None:
    wire = connected(FakeDaemon())
    wire.lose(0)
    assert wire.core.dial(100_000) is not None
    wire.core.tick(5 * SECOND + 99_999)
    assert wire.core.connection.ended is None
    wire.core.tick(5 * SECOND + 100_000)

    assert isinstance(wire.core.connection.ended, ConnectError)
    assert wire.core.ended is None
    assert wire.core.dial_at_us > 5 * SECOND


def test_a_session_that_was_switched_to_no_reconnecting_ends() -> None:
    wire = connected(FakeDaemon(), "g", options=None)
    wire.core.send(sending("g", b"in doubt"))
    wire.lose(0)

    assert isinstance(wire.core.ended, SessionClosed)
    assert (wire.core.ended.reason, wire.core.ended.in_doubt) == ("the daemon is gone", 1)
    assert wire.core.wake_at_us == NEVER


def test_a_session_that_was_too_slow_does_not_reconnect() -> None:
    fake = FakeDaemon(SessionOptions(backlog_bytes_max=10_000))
    wire = connected(fake, "g")
    other = fake.client(99, "bert")
    for _ in range(30):
        other.outgoing.append(sending("g", bytes(1_000)))
        fake.exchange(99, other)
    wire.exchange(0)

    assert isinstance(wire.core.ended, SlowConsumer)
    assert wire.core.wake_at_us == NEVER


@pytest.mark.parametrize("said", [b"\xff" * 64, encode_control(ErrorNotice("version", "", "upgrade"))])
def test_errors_of_protocol_end_the_session(said: bytes) -> None:
    wire = connected(FakeDaemon())
    wire.core.receive(said, 0)

    assert isinstance(wire.core.ended, SessionClosed)
    assert wire.core.wake_at_us == NEVER


@pytest.mark.parametrize("reason", ["the daemon ends", "too many clients", "no HELLO in time"])
def test_a_temporary_refusal_is_retried_at_another_daemon(reason: str) -> None:
    wire = WiredClient(FakeDaemon(), ("hop://one", "hop://two"))
    wire.dial(0)
    wire.core.receive(encode_control(ErrorNotice(reason, "", "connect to another daemon")), 0)
    fake, wire.fake, wire.number = wire.fake, FakeDaemon(), 0

    assert wire.dial(wire.core.wake_at_us) == "hop://two"
    assert wire.core.connected
    assert fake is not wire.fake


def test_requests_without_an_answer_are_made_again_and_a_leave_is_done() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g", "h")
    fake.stopped = True
    wire.core.leave("g")
    wire.core.join("new")
    wire.core.leave("unknown")
    wire.core.output()
    wire.lose(0)

    assert wire.core.answers.pop(("leave", "g")) is None
    assert wire.core.groups == {"h"}
    fake.stopped = False
    fake.pump()
    wire.dial(100_000)
    assert wire.core.answers.pop(("join", "new")) is None
    assert isinstance(wire.core.answers.pop(("leave", "unknown")), NotMember)
    assert wire.core.groups == {"h", "new"}
    events = wire.events()
    assert kinds(events)[-3:] == ["Reconnected", "View h", "View new"]


def test_more_groups_than_the_window_holds_are_joined_again_in_parts() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=4_096))
    names = [f"g{at:03}" for at in range(100)]
    wire = connected(fake)
    for name in names:
        wire.core.join(name)
        wire.exchange(0)
    wire.events()
    wire.lose(0)
    assert wire.dial(100_000) is not None

    assert kinds(wire.events()) == ["Reconnected", *[f"View {name}" for name in names]]


def test_a_loss_while_groups_are_joined_again_restarts_the_joins() -> None:
    fake = FakeDaemon(SessionOptions(window_bytes=4_096))
    wire = connected(fake)
    names = [f"g{at:03}" for at in range(40)]
    for name in names:
        wire.core.join(name)
        wire.exchange(0)
    wire.lose(0)
    fake.stopped = True
    wire.dial(100_000)
    assert wire.core.connected
    assert not wire.core.may_ask()  # The rest of the groups is joined first.
    assert not wire.core.has_room(sending("g000", b""))
    wire.lose(200_000)
    fake.stopped = False
    fake.pump()
    wire.dial(wire.core.wake_at_us)

    assert wire.core.may_ask()
    assert kinds(wire.events())[-41:] == ["Reconnected", *[f"View {name}" for name in names]]


def test_a_second_loss_right_after_the_first_is_another_gap() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    wire.lose(0)
    fake.stopped = True
    wire.dial(100_000)
    wire.lose(200_000)
    fake.stopped = False
    fake.pump()
    wire.dial(wire.core.wake_at_us)

    assert kinds(wire.events()) == ["View g", "Reconnected", "Reconnected", "View g"]


def test_a_join_that_is_refused_the_second_time_ends_the_session() -> None:
    wire = connected(FakeDaemon(), "g", "h")
    wire.fake, wire.number = FakeDaemon(SessionOptions(groups_max=1)), 0
    wire.core.lost("the daemon is gone", 0)
    wire.dial(100_000)

    assert isinstance(wire.core.ended, SessionClosed)
    assert "h could not be joined again: more than 1 groups; leave some first" in str(wire.core.ended)


def test_closing_without_a_connection_ends_the_session_and_reports_doubts() -> None:
    wire = connected(FakeDaemon(), "g")
    wire.core.send(sending("g", b"?"))
    wire.lose(0)
    wire.core.quit()

    assert isinstance(wire.core.ended, SessionClosed)
    assert wire.core.ended.in_doubt == 1
    assert wire.core.dial(NEVER - 1) is None


def test_a_loss_after_quit_causes_no_reconnection() -> None:
    fake = FakeDaemon()
    wire = connected(fake, "g")
    fake.stopped = True
    wire.core.quit()
    wire.exchange(0)
    wire.lose(0)

    assert wire.core.ended is not None
    assert wire.core.wake_at_us == NEVER


def test_the_first_connection_is_tried_once_at_each_daemon() -> None:
    core = ClientCore(("hop://one", "hop://two"), "anna", reconnect=OPTIONS)
    core.begin(0)
    assert core.dial(0) == "hop://one"
    core.lost("Connection refused", 7)
    assert core.dial(7) == "hop://two"
    core.lost("Connection refused", 8)

    assert isinstance(core.ended, ConnectError)
    assert core.ended.url == "hop://two"


def test_a_name_in_use_at_the_first_connection_is_told_at_once() -> None:
    fake = FakeDaemon()
    fake.client(9, "anna")
    wire = WiredClient(fake, ("hop://one", "hop://two"))
    wire.dial(0)

    assert isinstance(wire.core.ended, NameInUse)


def test_delays_double_after_each_round_with_up_to_half_random() -> None:
    tries = ReconnectSchedule(("one", "two"), OPTIONS, chance=lambda: 1.0)
    tries.up(0)
    tries.lost(5 * SECOND)
    seen = []
    for _ in range(9):
        at_us = tries.next(5 * SECOND)
        assert at_us is not None
        seen.append((tries.url, (at_us - 5 * SECOND) // 1000))
    lucky = ReconnectSchedule(("one",), OPTIONS, chance=lambda: 0.0)
    lucky.up(0)
    lucky.lost(0)

    assert seen[:4] == [("two", 100), ("one", 100), ("two", 200), ("one", 200)]
    assert [delay for _, delay in seen[4:]] == [400, 400, 800, 800, 1_000]
    assert lucky.next(0) == 50_000


def test_short_connections_do_not_reset_the_delay() -> None:
    tries = ReconnectSchedule(("one",), OPTIONS, chance=lambda: 1.0)
    delays = []
    for at_us in range(4):
        tries.up(at_us)
        tries.lost(at_us)
        delays.append((tries.next(at_us) or 0) - at_us)
    tries.up(100)
    tries.lost(100 + SECOND)

    assert delays == [100_000, 200_000, 400_000, 800_000]
    assert tries.next(0) == 100_000


@pytest.mark.parametrize("options", [(0.0, 1.0, 1.0), (2.0, 1.0, 1.0), (0.1, 1.0, -1.0)])
def test_invalid_times_are_refused(options: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"above 0|at most|0 or more"):
        Reconnect(*options)


def test_a_foreign_preamble_ends_the_reconnection() -> None:
    wire = connected(FakeDaemon())
    wire.lose(0)
    assert wire.core.dial(100_000) is not None
    wire.core.receive(b"SSH-2.0-OpenSSH_9.6\r\n", 100_000)

    assert isinstance(wire.core.ended, SessionClosed)
    assert (wire.core.wake_at_us, wire.core.output()) == (NEVER, b"")


def test_a_session_without_reconnection_may_be_closed_while_it_is_connected() -> None:
    wire = connected(FakeDaemon(), options=None)
    wire.core.close()

    assert isinstance(wire.core.ended, SessionClosed)
    assert "it was closed here" in str(wire.core.ended)
