"""Two ends that ping each other, with unrelated clocks."""

from hopring.links.events import LinkCounters
from hopring.links.timing import LinkSample, Pinging
from hopring.wire.control import Ping


def counters(received: int, lost: int) -> LinkCounters:
    return LinkCounters(0, received, lost, 0, 0, 0, 0)


def test_each_end_knows_the_round_trip_whatever_the_other_clock_says() -> None:
    here, there = Pinging(), Pinging()

    there.heard(here.ping(1_000_000), 77_020_000)  # 20 ms there,
    here.heard(there.ping(77_500_000), 1_510_000)  # 480 ms at the other end, 10 ms back.
    there.heard(here.ping(2_000_000), 78_020_000)

    assert here.sample(counters(0, 0)).round_trip_us == 30_000
    assert there.sample(counters(0, 0)).round_trip_us == 30_000


def test_a_round_trip_is_taken_once_and_packets_since_the_last_sample() -> None:
    here, there = Pinging(), Pinging()
    there.heard(here.ping(1_000), 2_000)
    here.heard(there.ping(2_000), 3_000)

    assert here.sample(counters(100, 3)) == LinkSample(2_000, 100, 3)
    assert here.sample(counters(150, 3)) == LinkSample(0, 50, 0)


def test_clocks_that_pass_two_to_the_32_go_on() -> None:
    here, there = Pinging(), Pinging()
    there.heard(here.ping(2**32 - 5_000), 500)
    here.heard(there.ping(1_500), 2**32 + 6_000)

    assert here.sample(counters(0, 0)).round_trip_us == 10_000


def test_an_impossible_time_is_not_a_round_trip() -> None:
    here = Pinging()
    here.ping(1_000_000)

    here.heard(Ping(5, 1_000_000, 4_000_000), 1_010_000)  # Kept for longer than it was away.
    here.heard(Ping(5, 1, 0), 4_000_000_000)  # An hour.

    assert here.sample(counters(0, 0)).round_trip_us == 0
