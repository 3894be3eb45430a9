"""When a loop polls before it sleeps, and when it notices that it did not run."""

from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.loop.sleeping import LINGER_US, QUICK_US, QUICK_WAITS, LingerPolicy, StallDetector


def waits(lingering: LingerPolicy, count: int, apart_us: int, at_us: int = 1_000_000) -> list[int]:
    """How long it polls in each of `count` waits."""
    moments = [at_us + number * apart_us for number in range(count)]
    return [lingering.until_us(moment) - moment for moment in moments]


def test_a_busy_loop_polls_before_it_sleeps() -> None:
    lingered_us = waits(LingerPolicy(), QUICK_WAITS + 3, QUICK_US - 1)

    assert lingered_us == [0] * QUICK_WAITS + [LINGER_US] * 3


def test_a_loop_with_rare_events_does_not_poll() -> None:
    assert waits(LingerPolicy(), 10 * QUICK_WAITS, QUICK_US) == [0] * 10 * QUICK_WAITS


def test_polling_ends_with_the_second_pause_in_a_row() -> None:
    lingering = LingerPolicy()
    waits(lingering, 3 * QUICK_WAITS, 100)

    assert waits(lingering, 2, 100, at_us=2_000_000) == [LINGER_US, LINGER_US]
    assert waits(lingering, 1, 100, at_us=3_000_000) == [0]


def test_several_waits_per_rare_message_do_not_count_as_busy() -> None:
    lingering = LingerPolicy()
    lingered_us = [waits(lingering, 14, 70, at_us=second * 5_000) for second in range(1, 100)]

    assert lingered_us == [[0] * 14] * 99


def test_polling_can_be_switched_off() -> None:
    assert set(waits(LingerPolicy(0), 2 * QUICK_WAITS, 1)) == {0}


def test_alarms_fire_in_order_and_not_early_while_the_loop_polls(loop: Loop) -> None:
    loop.lingering.linger_us = 5_000
    early_us: list[int] = []
    at_us = [loop.now_us()]

    def ring() -> None:
        early_us.append(at_us[0] - loop.now_us())
        at_us[0] = loop.now_us() + 150
        alarm.set(at_us[0])

    alarm = loop.alarm(ring)
    ring()
    run_until(loop, lambda: len(early_us) > 3 * QUICK_WAITS)

    assert max(early_us[1:]) <= 0


def test_a_late_loop_is_told_by_how_much() -> None:
    stalls = StallDetector(ahead_us=0)
    assert stalls.runs(5_000_000) == 0, "nothing is late before the first turn"

    stalls.sleeps(until_us=6_000_000)
    assert stalls.woke(6_000_100, ahead_us=0) == 0
    stalls.sleeps(until_us=6_100_000)
    assert stalls.woke(9_300_000, ahead_us=0) == 3_200_000


def test_a_turn_that_takes_long_counts_and_an_early_wake_up_does_not() -> None:
    stalls = StallDetector(ahead_us=0)
    stalls.runs(0)
    assert stalls.runs(99_999) == 0
    assert stalls.runs(99_999 + 400_000) == 400_000

    stalls.sleeps(until_us=5_000_000)
    assert stalls.woke(1_000_000, ahead_us=0) == 0


def test_a_suspended_host_is_seen_by_the_clock_that_goes_on() -> None:
    stalls = StallDetector(ahead_us=70_000_000)
    stalls.runs(0)
    stalls.sleeps(until_us=1_000_000)
    assert stalls.woke(1_000_000, ahead_us=70_000_003) == 0
    stalls.sleeps(until_us=2_000_000)
    assert stalls.woke(2_000_000, ahead_us=100_000_000) == 29_999_997
