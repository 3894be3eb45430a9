"""A loop that did not run is noticed; one that slept or was a little late is not."""

from hopring.daemon.loop.sleeping import StallDetector


def test_a_loop_that_should_have_run_and_did_not_is_told_by_how_much() -> None:
    stalls = StallDetector(ahead_us=0)
    assert stalls.runs(5_000_000) == 0, "before the first turn nothing is late"

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
