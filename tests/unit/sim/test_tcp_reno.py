from hopring.sim.tcp.reno import Reno, SimTcpRoundTrip


def test_the_first_sample_sets_the_time_out_to_three_round_trips() -> None:
    trip = SimTcpRoundTrip()
    assert trip.timeout_us == 1_000_000

    trip.sample(300_000)

    assert trip.timeout_us == 900_000


def test_the_time_out_is_never_below_200_ms_and_doubles_when_it_passes() -> None:
    trip = SimTcpRoundTrip()
    trip.sample(1_000)
    assert trip.timeout_us == 200_000

    trip.backoff = 3

    assert trip.timeout_us == 1_600_000


def test_slow_start_grows_by_what_is_acknowledged() -> None:
    reno = Reno(mss=1_000)
    reno.acknowledged(acked=2_000, acked_to=2_000, flight=8_000)

    assert reno.window == 12_000


def test_congestion_avoidance_grows_by_a_segment_per_window() -> None:
    reno = Reno(mss=1_000, threshold=10_000)
    for number in range(1, 6):
        reno.acknowledged(acked=2_000, acked_to=2_000 * number, flight=8_000)

    assert reno.window == 11_000


def test_a_window_that_is_not_used_does_not_grow() -> None:
    reno = Reno(mss=1_000)
    reno.acknowledged(acked=1_000, acked_to=1_000, flight=0)

    assert reno.window == 10_000


def test_the_third_duplicate_halves_and_asks_for_the_hole() -> None:
    reno = Reno(mss=1_000)
    answers = [reno.duplicated(acked_to=0, sent_to=10_000, flight=10_000) for _number in range(3)]

    assert answers == [False, False, True]
    assert (reno.threshold, reno.window) == (5_000, 8_000)


def test_a_partial_acknowledgement_asks_for_the_next_hole_and_a_full_one_ends_recovery() -> None:
    reno = Reno(mss=1_000)
    for _number in range(3):
        reno.duplicated(acked_to=0, sent_to=10_000, flight=10_000)

    assert reno.acknowledged(acked=4_000, acked_to=4_000, flight=6_000)
    assert not reno.acknowledged(acked=6_000, acked_to=10_000, flight=0)
    assert (reno.recovering, reno.window) == (False, 2_000)


def test_a_time_out_starts_again_with_one_segment() -> None:
    reno = Reno(mss=1_000)
    reno.timed_out(sent_to=10_000, flight=10_000, again=False)
    assert (reno.threshold, reno.window) == (5_000, 1_000)

    reno.timed_out(sent_to=10_000, flight=1_000, again=True)

    assert reno.threshold == 5_000
