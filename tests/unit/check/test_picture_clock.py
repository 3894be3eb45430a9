"""Horizontal places of marks: time from left to right, with space for simultaneous events."""

from itertools import pairwise

import pytest

from hopring.check.picture.scene import STEPS_PX, Clock, Spot, make_clock

WIDTH_PX = 800.0


def clock(*spots: Spot, to_us: int = 10_000) -> Clock:
    return make_clock(spots, 0, to_us, WIDTH_PX)


def test_times_keep_their_order_and_fill_the_width() -> None:
    made = clock(*[Spot(at_us, 0) for at_us in (0, 10, 5_000, 10_000)])

    assert made.places == sorted(made.places)
    assert made.places[0] == 0.0
    assert made.places[-1] == pytest.approx(WIDTH_PX, abs=0.1)


def test_simultaneous_events_are_spread_out_in_their_own_lane_only() -> None:
    made = clock(Spot(500, 0), Spot(500, 0), Spot(500, 1), Spot(500, 0))

    one, two, other, three = made.places
    assert (two - one, three - two, other - one) == (STEPS_PX[0], STEPS_PX[0], 0.0)


def test_no_arrow_points_to_the_left() -> None:
    # The send is the last of four marks at one time; its delivery is a microsecond later.
    made = clock(*[Spot(500, 0) for _ in range(4)], Spot(501, 1, after=3), Spot(501, 2, after=3))

    assert all(place > made.places[3] for place in made.places[4:])


def test_a_delivery_at_the_time_of_its_send_is_right_of_it() -> None:
    made = clock(Spot(500, 0), Spot(500, 0), Spot(500, 1, after=1))

    assert made.places[2] > made.places[1]


def test_short_times_are_stretched() -> None:
    made = clock(Spot(0, 0), Spot(100, 1), Spot(10_000, 0))

    assert made.places[1] > WIDTH_PX / 100


def test_with_too_many_marks_time_is_to_scale() -> None:
    made = clock(*[Spot(at_us, 0) for at_us in range(0, 10_001, 10)])

    assert made.step_px == 0.0
    assert made.x(2_500) == pytest.approx(WIDTH_PX / 4)
    assert all(later - earlier == pytest.approx(0.8) for earlier, later in pairwise(made.places))


def test_a_time_between_two_marks_lies_between_them() -> None:
    made = clock(Spot(1_000, 0), Spot(3_000, 0))

    assert made.places[0] < made.x(2_000) < made.places[1]
    assert made.x(0) == 0.0
    assert made.x(10_000) == pytest.approx(WIDTH_PX, abs=0.1)
