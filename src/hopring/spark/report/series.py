"""Series of throughput: rows of seconds, added up in Arrow until there are few enough of them to draw."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hopring.spark.report.scales import SECOND_US, STEPS_US
from hopring.value import Value

MEASURES: Final = ("sent", "delivered", "bytes")
SERIES_MAX: Final = 7
OTHERS: Final = "others"


class Series(Value, frozen=True):
    """Messages a second in each step of time, by name; the steps are the same for all."""

    begin_us: int
    step_us: int
    rates: Mapping[str, tuple[float, ...]]

    @property
    def steps(self) -> int:
        """How many there are."""
        return max([len(one) for one in self.rates.values()], default=0)


class Totals(Value, frozen=True):
    """What passed in all, and in the busiest second."""

    sent: int
    delivered: int
    bytes: int
    peak_delivered: int


def window_us(table: Any) -> tuple[int, int] | None:
    """From the first second to the end of the last."""
    if table is None or table.num_rows == 0:
        return None
    ends = pc.min_max(table["second_us"]).as_py()
    return ends["min"], ends["max"] + SECOND_US


def step_us(window: tuple[int, int], steps_max: int) -> int:
    """Whole seconds, and as many of them as are needed."""
    span_us = window[1] - window[0]
    round_ones = (step for step in STEPS_US if step >= SECOND_US)
    least = -(-span_us // steps_max)
    return next((step for step in round_ones if step >= least), -(-least // SECOND_US) * SECOND_US)


def series(table: Any, by: str, measure: str, window: tuple[int, int], steps_max: int) -> Series:
    """A measure by service or site. Seconds without a row had no messages."""
    step = step_us(window, steps_max)
    place = pc.divide(pc.subtract(table["second_us"], window[0]), step)
    small = pa.table({"name": _few(table, by, measure), "at": place, "value": table[measure]})
    sums = small.group_by(["name", "at"]).aggregate([("value", "sum")]).to_pylist()
    steps = max(1, -(-(window[1] - window[0]) // step))
    rates: dict[str, list[float]] = {}
    for row in sorted(sums, key=lambda row: (row["name"], row["at"])):
        line = rates.setdefault(row["name"], [0.0] * steps)
        seconds = min(step, window[1] - window[0] - row["at"] * step) / SECOND_US
        line[row["at"]] = (row["value_sum"] or 0) / seconds
    return Series(window[0], step, {name: tuple(line) for name, line in rates.items()})


def _few(table: Any, by: str, measure: str) -> Any:
    """The names, of which the smallest are put together if there are too many for one plot."""
    names = pc.fill_null(table[by], "").combine_chunks()
    sums = pa.table({"name": names, "value": table[measure]}).group_by("name").aggregate([("value", "sum")])
    ranked = sorted(sums.to_pylist(), key=lambda row: (-(row["value_sum"] or 0), row["name"]))
    if len(ranked) <= SERIES_MAX:
        return names
    kept = pa.array([row["name"] for row in ranked[: SERIES_MAX - 1]])
    return pc.if_else(pc.is_in(names, value_set=kept), names, OTHERS)


def totals(table: Any, by: str) -> dict[str, Totals]:
    """By service, site or daemon."""
    names = pc.fill_null(table[by], "")
    plain = pa.table({"name": names, "second": table["second_us"], **{one: table[one] for one in MEASURES}})
    seconds = plain.group_by(["name", "second"]).aggregate([(one, "sum") for one in MEASURES])
    sums = seconds.group_by("name").aggregate(
        [*[(f"{one}_sum", "sum") for one in MEASURES], ("delivered_sum", "max")]
    )
    return {
        row["name"]: Totals(
            row["sent_sum_sum"] or 0,
            row["delivered_sum_sum"] or 0,
            row["bytes_sum_sum"] or 0,
            row["delivered_sum_max"] or 0,
        )
        for row in sorted(sums.to_pylist(), key=lambda row: str(row["name"]))
    }


def sites(table: Any) -> dict[str, str]:
    """The site of each daemon."""
    if table is None:
        return {}
    pairs = table.group_by(["daemon", "site"]).aggregate([]).to_pylist()
    return {row["daemon"] or "": row["site"] or "" for row in sorted(pairs, key=str)}
