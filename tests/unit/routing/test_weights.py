"""Measured weights: the formula, its steps, and the statistics of a link."""

import pytest

from hopring.config.model import WEIGHT_MAX
from hopring.links.timing import LinkSample
from hopring.routing.weights import (
    PACKETS_KEPT,
    TRIPS_KEPT,
    TRIPS_MIN,
    LinkMeasure,
    LinkMeter,
    delivery_us,
    quantised,
    smoothed_weight,
)


@pytest.mark.parametrize(
    ("round_trip_us", "loss_ppm", "expected_us"),
    [
        (100_000, 0, 50_000),
        (100_000, 10_000, 51_060),  # One in a hundred: 105 ms more for 1/99 losses.
        (100_000, 500_000, 155_000),  # Every other one: one loss is expected.
        (0, 0, 500),  # Faster than this, hosts differ more than links.
        (100_000, 1_000_000, 995_000),  # Nothing arrives; the loss is capped.
        (2**40, 0, WEIGHT_MAX),
    ],
)
def test_a_weight_is_the_expected_time_to_deliver(round_trip_us: int, loss_ppm: int, expected_us: int) -> None:
    assert delivery_us(LinkMeasure(round_trip_us, loss_ppm)) == expected_us


def test_weights_come_in_four_steps_per_doubling() -> None:
    assert [quantised(time) for time in (1, 7, 63, 64, 79, 80, 96, 112, 127, 128)] == [
        *(1, 7, 56, 64, 64, 80, 96, 112, 112, 128)
    ]


def test_noise_around_the_edge_of_a_step_does_not_move_the_weight() -> None:
    weight = None
    seen = set()
    for round_trip_us in (131_000, 131_200, 130_900, 131_500, 129_900, 132_000):
        weight = smoothed_weight(weight, LinkMeasure(round_trip_us, 0))
        seen.add(weight)

    assert seen == {57_344}


def test_a_real_change_moves_the_weight_in_both_directions() -> None:
    assert smoothed_weight(65_536, LinkMeasure(200_000, 0)) == 98_304
    assert smoothed_weight(65_536, LinkMeasure(100_000, 0)) == 49_152


def test_a_settled_weight_is_stable_for_its_own_measurement() -> None:
    for round_trip_us in range(2, 3_000, 7):
        measure = LinkMeasure(round_trip_us, 0)
        weight = smoothed_weight(None, measure)
        assert smoothed_weight(weight, measure) == weight


def meter_of(*round_trips_us: int) -> LinkMeter:
    meter = LinkMeter()
    for one in round_trips_us:
        meter.add(LinkSample(one, 1, 0))
    return meter


def test_a_link_is_measured_once_there_are_enough_samples() -> None:
    assert meter_of(*[20_000] * (TRIPS_MIN - 1), 0, 0).measure is None
    assert meter_of(*[20_000] * TRIPS_MIN).measure == LinkMeasure(20_000, 0)


def test_pauses_and_queues_do_not_show_in_the_round_trip() -> None:
    half = TRIPS_KEPT // 2

    assert meter_of(*[20_000] * half, *[2_000_000] * half).measure == LinkMeasure(20_000, 0)


def test_a_link_that_has_become_slow_is_slow_when_most_samples_are() -> None:
    assert meter_of(*[20_000] * 1_000, *[90_000] * (TRIPS_KEPT - 8)).measure == LinkMeasure(90_000, 0)
    assert meter_of(*[90_000] * 1_000, *[20_000] * (TRIPS_KEPT // 2)).measure == LinkMeasure(20_000, 0)


def test_loss_is_a_share_of_the_recent_packets() -> None:
    meter = LinkMeter()
    for _ in range(1_000):
        meter.add(LinkSample(20_000, 100, 0))
    for _ in range(100):
        meter.add(LinkSample(20_000, 100, 10))

    measure = meter.measure
    assert measure is not None
    assert 95_000 < measure.loss_ppm < 105_000
    assert meter.received < 4 * PACKETS_KEPT + 1_600


def test_one_early_loss_has_little_effect() -> None:
    meter = meter_of(*[20_000] * TRIPS_MIN)
    meter.add(LinkSample(20_000, 1, 1))

    assert meter.measure == LinkMeasure(20_000, 1_000_000 // 128)
