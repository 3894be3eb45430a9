"""New Hop links between the same two daemons begin with the measurements of the old ones."""

from tests.unit.links.fake_wire import FakeWire

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.links.hop.hop import Hop, HopOptions
from hopring.links.hop.pacing import Congestion
from hopring.links.timing import RoundTrip

SEGMENT_BYTES = 1_000
OPTIONS = HopOptions(segment_bytes=SEGMENT_BYTES)


def used_link() -> Hop:
    """One end of a link with 20 ms of round trip that has sent for two seconds without a loss."""
    wire = FakeWire(Hop(OPTIONS), Hop(OPTIONS), delay_us=10_000, segment_bytes=SEGMENT_BYTES)
    for _ in range(200):
        wire.submit("a", *[bytes(900) for _ in range(20)])
        wire.run(wire.now_us + 10_000)
    return wire.a


def test_a_link_that_measured_nothing_has_learned_nothing() -> None:
    hop = Hop(OPTIONS)
    assert hop.learned is None
    hop.step(Tick(), 0)
    assert hop.learned is None


def test_resumed_values_are_not_passed_on_before_the_neighbour_was_heard() -> None:
    learned = used_link().learned
    assert learned is not None
    hop = Hop(OPTIONS)
    hop.resume(learned, learned.at_us + 1)
    hop.step(Tick(), learned.at_us + 2)

    assert hop.learned is None


def test_a_new_link_begins_with_half_the_window_and_the_measured_round_trip() -> None:
    before = used_link()
    assert before.learned is not None
    hop = Hop(OPTIONS)
    assert hop.state.congestion is not None
    assert before.state.congestion is not None
    assert before.state.congestion.window_bytes > 20 * SEGMENT_BYTES

    hop.resume(before.learned, 3_000_000)

    assert hop.state.congestion.window_bytes == before.state.congestion.window_bytes / 2
    assert hop.state.round_trip.smoothed_us == before.state.round_trip.smoothed_us
    assert 19_000 < hop.state.round_trip.estimate_us < 25_000
    assert hop.state.bucket.rate_bytes_per_second > 10 * SEGMENT_BYTES * 1_000_000 // 25_000


def test_the_least_round_trip_is_measured_anew() -> None:
    before = used_link()
    before.state.round_trip.smoothed_us = 200_000
    assert before.learned is not None
    hop = Hop(OPTIONS)
    hop.resume(before.learned, 3_000_000)

    assert before.state.round_trip.least_us < 25_000
    assert hop.state.round_trip.least_us == 200_000


def test_a_fixed_rate_stays_what_it_is() -> None:
    learned = used_link().learned
    assert learned is not None
    hop = Hop(HopOptions(rate_bytes_per_second=5_000))
    hop.resume(learned, 3_000_000)

    assert hop.state.bucket.rate_bytes_per_second == 5_000
    assert hop.wake_at_us < NEVER


def test_a_small_window_is_no_reason_to_begin_with_less_than_usual() -> None:
    before, after = Congestion(SEGMENT_BYTES), Congestion(SEGMENT_BYTES)
    before.lost(5, 9, 1_000)

    after.resume(before, 2_000)

    assert after == Congestion(SEGMENT_BYTES)


def test_after_a_loss_a_resumed_link_leaves_slow_start_below_the_old_window() -> None:
    before, after = Congestion(SEGMENT_BYTES, threshold_bytes=50_000.0), Congestion(SEGMENT_BYTES)
    before.window_bytes = 100_000.0

    after.resume(before, 5_000_000)

    assert after.window_bytes == 50_000
    assert after.slow_start
    after.window_bytes = 75_000.0
    assert not after.slow_start
    for number in range(2_000):
        after.delivered(SEGMENT_BYTES, 20_000, 20_000, 20_000, 5_000_000 + number * 1_000)
    assert 85_000 < after.window_bytes <= 101_000


def test_an_answer_that_waited_for_this_host_is_not_a_round_trip_sample() -> None:
    trip = RoundTrip(initial_us=100_000)
    trip.sample(echo_us=1_000, echo_delay_us=0, now_us=5_000)
    trip.since_us = 900_000

    trip.sample(echo_us=6_000, echo_delay_us=0, now_us=900_000)
    assert (trip.smoothed_us, trip.last_us) == (4_000, 4_000)
    trip.sample(echo_us=900_000, echo_delay_us=0, now_us=904_800)
    assert trip.last_us == 4_800
