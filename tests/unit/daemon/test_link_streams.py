"""The connections of TCP links: dialled and dialling, early and late, through several networks."""

from collections.abc import Iterator

import pytest
from tests.unit.daemon.free_ports import free_base_port
from tests.unit.daemon.stream_ends import HIGH, LOW, End, greeting
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import EARLY_MAX
from hopring.daemon.net.tcp import ConnectionEvent, TcpConnection
from hopring.ids import DaemonId
from hopring.links.events import StreamClosed, StreamOpened


@pytest.fixture
def port() -> int:
    return free_base_port(3)


@pytest.fixture
def high(loop: Loop, port: int) -> Iterator[End]:
    end = End(loop, HIGH, port)
    yield end
    end.streams.close()


@pytest.fixture
def low(loop: Loop, port: int) -> Iterator[End]:
    end = End(loop, LOW, port)
    yield end
    end.streams.close()


def call(loop: Loop, port: int, said: bytes) -> tuple[TcpConnection, list[ConnectionEvent]]:
    """Somebody who dials the higher daemon and says something."""
    told: list[ConnectionEvent] = []
    connection = TcpConnection.dial(loop, ("127.0.0.1", port + HIGH))
    connection.sink = told.append
    connection.write(said)
    return connection, told


def test_the_lower_daemon_dials_and_both_hear_each_other(loop: Loop, low: End, high: End) -> None:
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7) + b"hello")
    run_until(loop, lambda: high.heard(7).endswith(b"hello"))
    high.streams.write(LOW, b"thanks")
    run_until(loop, lambda: low.heard(7) == b"thanks")

    assert high.heard(7) == greeting(LOW, 7) + b"hello"
    assert high.kinds(7)[0] is StreamOpened
    assert {neighbour for _, neighbour, _ in high.told} == {LOW}


def test_a_connection_that_comes_early_waits_for_its_network_and_loses_nothing(
    loop: Loop, low: End, high: End
) -> None:
    high.begin(6)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    for _ in range(20):
        low.streams.write(HIGH, b"early")
        loop.turn()
    high.begin(5, LOW)  # An attempt that came to nothing meanwhile.
    high.begin(7, LOW)
    low.streams.write(HIGH, b"late")
    run_until(loop, lambda: high.heard(7).endswith(b"late"))

    assert high.heard(7) == greeting(LOW, 7) + b"early" * 20 + b"late"
    assert {generation for generation, _, _ in high.told} == {7}


def test_a_connection_that_ended_before_its_network_began_fails_it_at_once(
    loop: Loop, high: End, port: int
) -> None:
    caller, told = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: len(told) == 2)  # Opened, Written.
    for _ in range(20):
        loop.call_soon(lambda: None)
        loop.turn()
    caller.close()
    for _ in range(20):
        loop.call_soon(lambda: None)
        loop.turn()
    high.begin(7, LOW)
    run_until(loop, lambda: StreamClosed in high.kinds(7))


@pytest.mark.parametrize("sender", [HIGH, DaemonId(3)])
def test_who_has_no_business_here_is_sent_away(loop: Loop, high: End, port: int, sender: DaemonId) -> None:
    high.begin(7, LOW)
    _, told = call(loop, port, greeting(sender, 7))
    run_until(loop, lambda: bool(told) and isinstance(told[-1], StreamClosed))

    assert high.told == []


def test_a_second_connection_of_the_same_network_is_sent_away(loop: Loop, high: End, port: int) -> None:
    high.begin(7, LOW)
    first, _ = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.told))
    _, told = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: bool(told) and isinstance(told[-1], StreamClosed))

    assert StreamClosed not in high.kinds(7)
    first.close()


def test_of_too_many_early_connections_the_oldest_goes(loop: Loop, high: End, port: int) -> None:
    high.begin(1)
    callers = [call(loop, port, greeting(LOW, 100))]
    run_until(loop, lambda: len(callers[0][1]) == 2)
    for number in range(EARLY_MAX):
        callers.append(call(loop, port, greeting(LOW, 101 + number)))
        run_until(loop, lambda told=callers[-1][1]: len(told) >= 2)  # type: ignore[misc]
    run_until(loop, lambda: isinstance(callers[0][1][-1], StreamClosed))

    assert not any(isinstance(told[-1], StreamClosed) for _, told in callers[1:])
    for caller, _ in callers:
        caller.close()


def test_the_connections_of_a_network_end_when_the_next_begins(loop: Loop, low: End, high: End) -> None:
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.told))
    low.begin(8)
    run_until(loop, lambda: StreamClosed in high.kinds(7))

    low.streams.write(HIGH, b"nobody is there")
    assert StreamClosed not in low.kinds(7)
