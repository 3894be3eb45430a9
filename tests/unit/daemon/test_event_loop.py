import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from time import monotonic_ns

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import READABLE, ROUNDS_MAX, WRITABLE, Loop
from hopring.daemon.loop.sleeping import STALL_US_MIN
from hopring.ids import NEVER


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        left.setblocking(False)
        right.setblocking(False)
        yield left, right


def test_an_alarm_fires_once_and_not_before_its_time(loop: Loop) -> None:
    rings: list[int] = []
    alarm = loop.alarm(lambda: rings.append(loop.now_us()))
    at_us = loop.now_us() + 3_000
    alarm.set(at_us)

    run_until(loop, lambda: bool(rings))
    other = loop.alarm(lambda: rings.append(0))
    other.set(loop.now_us() + 2_000)
    run_until(loop, lambda: 0 in rings)

    assert len(rings) == 2
    assert rings[0] >= at_us


def test_alarms_are_finer_than_a_millisecond(loop: Loop) -> None:
    late_us: list[int] = []
    for _ in range(20):
        rung: list[int] = []
        alarm = loop.alarm(lambda rung=rung: rung.append(loop.now_us()))  # type: ignore[misc]
        at_us = loop.now_us() + 300
        alarm.set(at_us)
        run_until(loop, lambda rung=rung: bool(rung))  # type: ignore[misc]
        late_us.append(rung[0] - at_us)

    assert min(late_us) < 500


def test_an_alarm_moved_later_fires_at_the_later_time_only(loop: Loop) -> None:
    rings: list[int] = []
    alarm = loop.alarm(lambda: rings.append(loop.now_us()))
    alarm.set(loop.now_us() + 1_000)
    later_us = loop.now_us() + 6_000
    alarm.set(later_us)

    run_until(loop, lambda: bool(rings))

    assert len(rings) == 1
    assert rings[0] >= later_us


def test_an_alarm_moved_earlier_fires_earlier_and_only_once(loop: Loop) -> None:
    rings: list[str] = []
    alarm = loop.alarm(lambda: rings.append("moved"))
    fence = loop.alarm(lambda: rings.append("fence"))
    alarm.set(loop.now_us() + 5_000)
    alarm.set(loop.now_us() + 1_000)
    fence.set(loop.now_us() + 8_000)

    run_until(loop, lambda: "fence" in rings)

    assert rings == ["moved", "fence"]


def test_an_alarm_set_to_never_does_not_fire(loop: Loop) -> None:
    rings: list[str] = []
    alarm = loop.alarm(lambda: rings.append("never"))
    fence = loop.alarm(lambda: rings.append("fence"))
    alarm.set(loop.now_us() + 500)
    alarm.set(NEVER)
    fence.set(loop.now_us() + 2_000)

    run_until(loop, lambda: bool(rings))

    assert rings == ["fence"]


def test_deferred_work_runs_once_after_all_handlers_of_the_turn(
    loop: Loop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    order: list[str] = []

    def ready(name: str, sock: socket.socket) -> Callable[[int], None]:
        def read(_events: int) -> None:
            sock.recv(10)
            order.append(name)
            loop.call_soon(lambda: order.append(f"flush {name}"))

        return read

    loop.register(left.fileno(), ready("left", left))
    loop.register(right.fileno(), ready("right", right))
    left.send(b"x")
    right.send(b"x")
    loop.turn()

    assert sorted(order[:2]) == ["left", "right"]
    assert [word.split()[0] for word in order[2:]] == ["flush", "flush"]


def test_work_deferred_while_flushing_runs_last_and_does_not_starve_descriptors(loop: Loop) -> None:
    order: list[int] = []

    def first() -> None:
        order.append(1)
        loop.call_soon(again)

    def again() -> None:
        order.append(3)
        loop.call_soon(again)

    loop.call_soon(first)
    loop.call_soon(lambda: order.append(2))
    loop.turn()
    assert order == [1, 2, *[3] * (ROUNDS_MAX - 1)], "descriptors were not served"
    loop.turn()
    assert order == [1, 2, *[3] * (2 * ROUNDS_MAX - 1)]


def test_writability_is_reported_only_on_request(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    seen: list[int] = []
    loop.register(left.fileno(), seen.append, READABLE)
    right.send(b"x")
    loop.turn()
    loop.modify(left.fileno(), WRITABLE)
    loop.turn()

    assert seen == [READABLE, WRITABLE]


def test_a_descriptor_closed_by_another_handler_of_the_turn_is_not_served(
    loop: Loop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    served: list[str] = []

    def close_the_other(name: str, other: socket.socket) -> Callable[[int], None]:
        def ready(_events: int) -> None:
            served.append(name)
            loop.unregister(other.fileno())

        return ready

    loop.register(left.fileno(), close_the_other("left", right))
    loop.register(right.fileno(), close_the_other("right", left))
    left.send(b"x")
    right.send(b"x")
    loop.turn()

    assert len(served) == 1


def test_a_number_that_is_used_again_in_the_same_turn_does_not_inherit_events(loop: Loop) -> None:
    first, first_peer = socket.socketpair()
    second, second_peer = socket.socketpair()
    served: list[str] = []
    replacements: list[socket.socket] = []

    def replace(name: str, other: socket.socket) -> Callable[[int], None]:
        def ready(_events: int) -> None:
            served.append(name)
            number = other.fileno()
            loop.unregister(number)
            other.close()
            fresh, fresh_peer = socket.socketpair()
            replacements.extend((fresh, fresh_peer))
            assert fresh.fileno() == number
            loop.register(number, lambda _events: served.append("fresh"))

        return ready

    loop.register(first.fileno(), replace("first", second))
    loop.register(second.fileno(), replace("second", first))
    first_peer.send(b"x")
    second_peer.send(b"x")
    loop.turn()

    assert len(served) == 1
    for sock in (first, second, first_peer, second_peer, *replacements):
        sock.close()


def test_a_handler_that_raises_ends_the_loop(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair

    def bug(_events: int) -> None:
        raise ValueError("a bug")

    loop.register(left.fileno(), bug)
    right.send(b"x")

    with pytest.raises(ValueError, match="a bug"):
        loop.run()


def test_a_signal_is_an_event_and_the_old_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    loop = Loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        loop.stop()

    loop.on_signals(on_signal, (signal.SIGTERM, signal.SIGINT))
    os.kill(os.getpid(), signal.SIGTERM)
    loop.run()
    loop.close()

    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_idle_loop_uses_next_to_no_processor(loop: Loop) -> None:
    rings: list[int] = []

    def ring() -> None:
        rings.append(1)
        alarm.set(loop.now_us() + 10_000)

    alarm = loop.alarm(ring)
    before = resource.getrusage(resource.RUSAGE_SELF)
    ring()
    run_until(loop, lambda: len(rings) == 20)
    after = resource.getrusage(resource.RUSAGE_SELF)

    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used_s < 0.04  # Of 190 ms.


def test_a_loop_that_did_not_run_reports_it_before_it_serves_pending_events(
    loop: Loop, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    told: list[str] = []
    loop.on_stall.append(lambda for_us: told.append(f"stall {for_us >= 2 * STALL_US_MIN}"))

    def heard(_events: int) -> None:
        told.append(right.recv(16).decode())
        loop.stop()

    def hold_up() -> None:
        left.send(b"meanwhile")
        end_us = monotonic_ns() // 1_000 + 2 * STALL_US_MIN
        while monotonic_ns() // 1_000 < end_us:
            pass

    loop.register(right.fileno(), heard)
    alarm = loop.alarm(hold_up)
    alarm.set(loop.now_us() + 1_000)
    loop.run()
    loop.unregister(right.fileno())

    assert told == ["stall True", "meanwhile"]
