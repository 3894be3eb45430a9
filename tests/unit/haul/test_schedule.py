"""Schedules of links: windows, times of day, on demand."""

import pytest

from hopring.haul.link.schedule import DAY_US, Always, OnDemand, Windows

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US


def test_two_minutes_in_every_fifteen() -> None:
    windows = Windows(15 * MINUTE_US, 2 * MINUTE_US)

    assert [windows.is_open(minute * MINUTE_US) for minute in (0, 1, 2, 14, 15, 17)] == [
        *(True, True, False),
        *(False, True, False),
    ]


def test_the_next_change_is_the_end_of_a_window_or_its_beginning() -> None:
    windows = Windows(15 * MINUTE_US, 2 * MINUTE_US)

    assert windows.next_change_us(MINUTE_US) == 2 * MINUTE_US
    assert windows.next_change_us(2 * MINUTE_US) == 15 * MINUTE_US


def test_a_night_passes_midnight() -> None:
    night = Windows(DAY_US, 8 * HOUR_US, begin_us=22 * HOUR_US)

    assert [night.is_open(hour * HOUR_US) for hour in (21, 22, 24, 29, 30)] == [False, True, True, True, False]


def test_always_is_open_and_never_changes() -> None:
    assert Always().is_open(17)
    assert Always().next_change_us(17) is None


@pytest.mark.parametrize(
    ("waiting_bytes", "waited_us", "due"),
    [(0, 99 * MINUTE_US, False), (1, MINUTE_US, False), (1, 10 * MINUTE_US, True), (2_000, 0, True)],
)
def test_on_demand_by_bytes_or_by_time(waiting_bytes: int, waited_us: int, due: bool) -> None:
    demand = OnDemand(waiting_bytes=2_000, waiting_us=10 * MINUTE_US)

    assert demand.is_due(waiting_bytes, since_us=5, now_us=5 + waited_us) is due
