"""Connections of TCP links: dialled and accepted, early and late, through several networks."""

import gc
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.descriptors import no_free_descriptor
from tests.support.free_ports import free_base_port
from tests.unit.daemon.stream_ends import HIGH, LOW, End, greeting
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import EARLY_BYTES_MAX, EARLY_MAX, EARLY_US_MAX
from hopring.daemon.net.tcp import READ_BYTES, ConnectionEvent, TcpConnection
from hopring.ids import DaemonId
from hopring.links.events import StreamClosed, StreamOpened


@pytest.fixture(autouse=True)
def without_old_sockets() -> None:
    """Closes sockets that earlier tests have left to the collector: sockets are counted here."""
    gc.collect()


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


def open_sockets() -> int:
    """How many sockets this process holds."""
    links = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sum(link.startswith("socket:") for link in links)


def call(loop: Loop, port: int, said: bytes) -> tuple[TcpConnection, list[ConnectionEvent]]:
    """Connects to the higher daemon and sends something."""
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
    high.begin(5, LOW)  # An attempt that failed meanwhile.
    high.begin(7, LOW)
    low.streams.write(HIGH, b"late")
    run_until(loop, lambda: high.heard(7).endswith(b"late"))

    assert high.heard(7) == greeting(LOW, 7) + b"early" * 20 + b"late"
    assert {generation for generation, _, _ in high.told} == {7}


def test_a_connection_that_ended_before_its_network_began_is_removed_at_once(
    loop: Loop, high: End, port: int
) -> None:
    before = open_sockets()
    caller, told = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: len(told) == 2)  # Opened, Written.
    run_until(loop, lambda: open_sockets() == before + 2)
    caller.close()
    run_until(loop, lambda: open_sockets() == before)

    high.begin(7, LOW)
    _, told = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.heard(7)))

    assert StreamClosed not in high.kinds(7)


def test_a_later_early_connection_of_a_neighbour_replaces_the_one_before(
    loop: Loop, high: End, port: int
) -> None:
    high.begin(1)
    _, stranger = call(loop, port, greeting(LOW, 7) + b"stranger")
    run_until(loop, lambda: len(stranger) == 2)
    _, real = call(loop, port, greeting(LOW, 7) + b"real")
    run_until(loop, lambda: isinstance(stranger[-1], StreamClosed))
    high.begin(7, LOW)
    run_until(loop, lambda: bool(high.heard(7)))

    assert high.heard(7).endswith(b"real")
    assert not any(isinstance(one, StreamClosed) for one in real)


@pytest.mark.slow
def test_an_early_connection_waits_for_a_limited_time(loop: Loop, high: End, port: int) -> None:
    before = open_sockets()
    _, told = call(loop, port, greeting(LOW, 7))
    since_us = loop.now_us()
    run_until(loop, lambda: bool(told) and isinstance(told[-1], StreamClosed))

    assert EARLY_US_MAX - 500_000 < loop.now_us() - since_us < EARLY_US_MAX + 2_000_000
    assert open_sockets() == before


def test_an_early_connection_is_not_read_beyond_its_limit_and_loses_nothing(
    loop: Loop, high: End, port: int
) -> None:
    sent = greeting(LOW, 7) + bytes(range(256)) * 4 * 8192  # 8 MiB.
    done: list[bool] = []
    tracemalloc.start()
    try:
        call(loop, port, sent)
        loop.alarm(lambda: done.append(True)).set(loop.now_us() + 200_000)
        run_until(loop, lambda: bool(done))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= 2 * EARLY_BYTES_MAX + 6 * READ_BYTES  # With the buffers of both ends.

    high.begin(7, LOW)
    run_until(loop, lambda: len(high.heard(7)) == len(sent))
    assert high.heard(7) == sent


def connected(loop: Loop, low: End, high: End, generation: int) -> bool:
    """Begins a network at both ends; whether the higher end hears the lower one before that one gives up."""

    def heard() -> bool:
        return high.heard(generation).endswith(b"hello")

    high.begin(generation, LOW)
    low.begin(generation, HIGH)
    run_until(loop, lambda: bool(low.kinds(generation)))
    low.streams.write(HIGH, greeting(LOW, generation) + b"hello")
    run_until(loop, lambda: heard() or StreamClosed in low.kinds(generation))
    return heard()


def test_idle_connections_of_a_stranger_do_not_keep_two_daemons_apart(
    loop: Loop, low: End, high: End, port: int
) -> None:
    """A stranger that foresees the next generations greets for all of them, and then does nothing."""
    high.begin(1)
    strangers = [call(loop, port, greeting(LOW, generation)) for generation in range(2, 61)]
    run_until(loop, lambda: all(len(told) >= 2 for _, told in strangers))

    assert connected(loop, low, high, 2) or connected(loop, low, high, 3)


def test_dialling_without_a_free_descriptor_is_a_closed_stream(loop: Loop, low: End) -> None:
    with no_free_descriptor():
        low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))

    assert low.kinds(7) == [StreamClosed]
    low.streams.write(HIGH, b"dropped")  # Until the layer above has heard of it.


@pytest.mark.parametrize("sender", [HIGH, DaemonId(3)])
def test_a_connection_of_a_stranger_is_closed(loop: Loop, high: End, port: int, sender: DaemonId) -> None:
    high.begin(7, LOW)
    _, told = call(loop, port, greeting(sender, 7))
    run_until(loop, lambda: bool(told) and isinstance(told[-1], StreamClosed))

    assert high.told == []


def test_a_second_connection_of_the_same_network_is_closed(loop: Loop, high: End, port: int) -> None:
    high.begin(7, LOW)
    first, _ = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.told))
    _, told = call(loop, port, greeting(LOW, 7))
    run_until(loop, lambda: bool(told) and isinstance(told[-1], StreamClosed))

    assert StreamClosed not in high.kinds(7)
    first.close()


def test_above_the_limit_the_oldest_early_connection_is_closed(loop: Loop, port: int) -> None:
    me = DaemonId(EARLY_MAX + 2)
    end = End(loop, me, port - me + HIGH)
    callers = []
    for number in range(EARLY_MAX + 1):
        callers.append(call(loop, port, greeting(DaemonId(number), 7)))
        run_until(loop, lambda told=callers[-1][1]: len(told) >= 2)  # type: ignore[misc]
    run_until(loop, lambda: isinstance(callers[0][1][-1], StreamClosed))

    assert not any(isinstance(told[-1], StreamClosed) for _, told in callers[1:])
    for caller, _ in callers:
        caller.close()
    end.streams.close()


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
