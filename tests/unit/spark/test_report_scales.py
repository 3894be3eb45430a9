"""Scales, ticks and texts of values, and merging where there are too many."""
# ruff: noqa: E402  What follows pyarrow needs it.

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

from hopring.spark.report import texts
from hopring.spark.report.gold import BucketRow, LatencyRow
from hopring.spark.report.latency import BUCKETS_MAX, LETTER_PX, hills, thinned, tick_labels
from hopring.spark.report.scales import LinearScale, LogScale, log_ticks, rounded_up, ticks, time_ticks
from hopring.spark.report.throughput import (
    OTHERS,
    SERIES_MAX,
    seconds_window_us,
    series,
    sites,
    step_us,
    totals,
)

SECOND = 1_000_000
BEGIN = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * SECOND


def rows(seconds: int, services: tuple[str, ...] = ("agreed",), sent: int = 2) -> Any:
    found = [
        {"second_us": BEGIN_US + second * SECOND, "daemon": "eu1", "site": "eu", "service": service}
        | {"sent": sent, "delivered": 3 * sent, "bytes": 10 * sent}
        for second in range(seconds)
        for service in services
    ]
    return pa.Table.from_pylist(found)


def test_a_linear_scale_holds_values_within_its_ends() -> None:
    scale = LinearScale(0, 10, 100, 200)

    assert [scale.at(value) for value in (-5, 0, 5, 10, 99)] == [100, 100, 150, 200, 200]
    assert LinearScale(3, 3, 100, 200).at(3) == 100


def test_a_log_scale_gives_each_factor_of_ten_the_same_width() -> None:
    scale = LogScale(1, 1_000, 0, 300)

    assert [scale.at(value) for value in (0, 1, 10, 100, 1_000)] == pytest.approx([0, 0, 100, 200, 300])


def test_ticks_are_round_and_few() -> None:
    assert ticks(100, 4) == [0, 25, 50, 75, 100]
    assert ticks(1, 4) == [0, 0.25, 0.5, 0.75, 1]
    assert log_ticks(1, 1_000, 5) == [1, 10, 100, 1_000]
    assert log_ticks(2, 40, 6) == [2, 5, 10, 20]
    assert [rounded_up(value) for value in (0, 0.7, 9.1, 137, 1_000)] == [1, 0.8, 10, 150, 1_000]


def test_ticks_of_time_are_usual_units() -> None:
    assert [word for _, word in time_ticks(BEGIN_US, BEGIN_US + 30 * SECOND, 4)] == [
        *("09:30:00", "09:30:10", "09:30:20", "09:30:30")
    ]
    assert next(word for _, word in time_ticks(BEGIN_US, BEGIN_US + 3 * 3_600 * SECOND, 3)) == "10:00"
    assert next(word for _, word in time_ticks(BEGIN_US, BEGIN_US + 3 * 86_400 * SECOND, 3)) == "17 November"
    assert [word for _, word in time_ticks(0, 5_000, 5)][1] == "00:00:00.001"


def test_numbers_have_three_digits_and_their_unit() -> None:
    assert [texts.count(value) for value in (0, 7, 1_234, 12_840, 1_284_000)] == [
        "0",
        "7",
        "1,234",
        "12,840",
        "1.28 M",
    ]
    assert [texts.size(value) for value in (12, 2_400, 2_400_000)] == ["12 B", "2.4 kB", "2.4 MB"]
    assert [texts.span(value) for value in (340, 84_000, 12_500_000, 200_000_000, 7_500_000_000, -2_000)] == [
        *("340 µs", "84 ms", "12.5 s", "3 min 20 s", "2 h 5 min", "−2 ms")
    ]
    assert texts.some(None) == texts.some(float("nan")) == texts.NOTHING
    assert texts.share(0.0123) == "1.23 %"


def test_names_from_the_input_are_shortened() -> None:
    assert len(texts.short("x" * 1_000)) == texts.NAME_CHARS_MAX
    assert texts.names(["n"] * 100).endswith("and 84 more")
    assert texts.view("000000000003.0001.00000000deadbeef") == "3.1"
    assert texts.view("somewhere.else") == "somewhere.else"
    assert texts.group_view("000000000005.0001.00000000deadbeef-00000002") == "5.2"
    assert texts.process("eu1#00000000000000a7/2") == "eu1/2"


def test_a_long_series_is_aggregated_without_losing_messages() -> None:
    table = rows(10_000)
    window = seconds_window_us(table)
    assert window is not None
    found = series(table, "service", "sent", window, 100)

    assert (found.steps, found.step_us) == (84, 120 * SECOND)
    assert found.rates["agreed"] == pytest.approx([2.0] * 84)


def test_seconds_without_a_row_had_no_messages() -> None:
    table = pa.concat_tables([rows(1), rows(1).set_column(0, "second_us", [[BEGIN_US + 3 * SECOND]])])
    window = seconds_window_us(table)
    assert window is not None

    assert series(table, "service", "sent", window, 100).rates["agreed"] == (2.0, 0.0, 0.0, 2.0)


def test_the_smallest_of_many_series_are_aggregated() -> None:
    table = pa.concat_tables([rows(1, (f"s{number:02d}",), number) for number in range(1, 21)])
    found = series(table, "service", "sent", (BEGIN_US, BEGIN_US + SECOND), 10)

    assert len(found.rates) == SERIES_MAX
    assert found.rates[OTHERS] == (sum(range(1, 15)),)


def test_a_step_is_a_round_number_of_seconds() -> None:
    spans = [timedelta(seconds=30), timedelta(hours=1), timedelta(days=400)]

    assert [step_us((0, int(span.total_seconds()) * SECOND), 150) // SECOND for span in spans] == [
        1,
        30,
        604_800,
    ]


def test_sums_include_the_busiest_second() -> None:
    table = pa.concat_tables([rows(3), rows(1, sent=5)])

    assert totals(table, "service")["agreed"] == totals(table, "site")["eu"]
    assert (totals(table, "daemon")["eu1"].sent, totals(table, "daemon")["eu1"].peak_delivered) == (11, 21)
    assert sites(table) == {"eu1": "eu"}


def test_many_buckets_are_aggregated_without_losing_messages() -> None:
    buckets = [BucketRow("safe", "eu", "us", 100 * 1.01**n, 100 * 1.01 ** (n + 1), 3) for n in range(700)]  # type: ignore[arg-type]
    found = thinned(buckets)

    assert len(found) <= BUCKETS_MAX
    assert sum(one.messages for one in found) == 2_100
    assert all(one.low_us < one.high_us for one in found)


def test_negative_latencies_are_not_on_a_logarithmic_axis() -> None:
    buckets = [BucketRow("safe", "eu", "us", -10, 0, 5), BucketRow("safe", "eu", "us", 0, 4, 5)]
    latency = [LatencyRow("safe", "eu", "us", "", 10, None, None, None, None, None, 5)]
    (hill,) = hills(buckets, latency)

    assert (hill.messages, hill.latency) == (5, latency[0])


def test_buckets_of_several_runs_are_summed_and_their_percentiles_are_not_marked() -> None:
    buckets = [BucketRow("safe", "eu", "us", 64, 91, messages) for messages in (3, 4)]
    latency = [
        LatencyRow("safe", "eu", "us", "", messages, 70.0, 80.0, 90.0, 90.0, 70.0, 0, run)
        for run, messages in (("one", 3), ("two", 4))
    ]

    (hill,) = hills(buckets, latency)

    assert [one.messages for one in hill.buckets] == [7]
    assert hill.latency is None


def test_labels_of_the_latency_axis_do_not_overlap() -> None:
    for exponent in range(8, 80):
        labels = tick_labels(LogScale(100.0, 100.0 * 2 ** (exponent / 4), 8.0, 340.0))
        width = [LETTER_PX * len(label) for _, label, _ in labels]
        begins = [
            x - {"": 0.0, " end": wide, " middle": wide / 2}[side]
            for (x, _, side), wide in zip(labels, width, strict=True)
        ]
        ends = [begin + wide for begin, wide in zip(begins, width, strict=True)]
        assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))
        assert len(labels) >= 2
