"""Measured weights: the formula, its steps, and the agreement of two ends."""

import pytest

from hopring.config.model import WEIGHT_MAX
from hopring.routing.weights import LinkMeasure, LinkReport, LinkState, delivery_us, merged, quantised, settled


@pytest.mark.parametrize(
    ("round_trip_us", "loss_ppm", "expected_us"),
    [
        (100_000, 0, 50_000),
        (100_000, 10_000, 51_060),  # One in a hundred: 105 ms more for 1/99 losses.
        (100_000, 500_000, 155_000),  # Every other: one loss is to be expected.
        (0, 0, 1),
        (100_000, 1_000_000, 995_000),  # Nothing comes through; the loss is capped.
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
        weight = settled(weight, LinkMeasure(round_trip_us, 0))
        seen.add(weight)

    assert seen == {57_344}


def test_a_real_change_moves_the_weight_in_both_directions() -> None:
    assert settled(65_536, LinkMeasure(200_000, 0)) == 98_304
    assert settled(65_536, LinkMeasure(100_000, 0)) == 49_152


def test_a_settled_weight_is_stable_for_what_it_was_made_of() -> None:
    for round_trip_us in range(2, 3_000, 7):
        measure = LinkMeasure(round_trip_us, 0)
        weight = settled(None, measure)
        assert settled(weight, measure) == weight


def test_the_worse_direction_counts_in_either_order() -> None:
    east, west = LinkReport(40), LinkReport(56)

    assert merged(east, west, configured=10) == LinkState(56, cut=False)
    assert merged(west, east, configured=10) == LinkState(56, cut=False)


def test_a_link_is_cut_if_either_end_says_so() -> None:
    assert merged(LinkReport(40), LinkReport(None, alive=False), configured=10) == LinkState(40, cut=True)


def test_what_nobody_measured_keeps_its_configured_weight() -> None:
    assert merged(None, None, configured=10) == LinkState(10, cut=False)
    assert merged(LinkReport(None), None, configured=10) == LinkState(10, cut=False)
    assert merged(None, LinkReport(40), configured=10) == LinkState(40, cut=False)
