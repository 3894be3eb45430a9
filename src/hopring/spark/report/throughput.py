"""The section Throughput: messages per second over time by service and by site, and a table of totals.

The table of seconds may be long, so Arrow adds it up to as many steps as can be drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopring.check.picture.svg import Attributes, element, escape, line, path, text, tip
from hopring.spark.report import texts
from hopring.spark.report.gold import GoldTables
from hopring.spark.report.html import (
    HALVES,
    TableColumn,
    at_widths,
    figure,
    folded,
    paragraph,
    service_class,
    service_order,
    svg,
    table,
    tag,
)
from hopring.spark.report.scales import SECOND_US, STEPS_US, LinearScale, level, rounded_up, ticks, time_axis

HEIGHT_PX: Final = 190.0
LEFT_PX: Final = 52.0
STEP_PX_MIN: Final = 3.5

Moments = Sequence[tuple[int, str]]
"""Times at which the membership changed, with a text for each."""

Classes = Callable[[str], str]

MEASURES: Final = ("sent", "delivered", "bytes")

SERIES_MAX: Final = 7
OTHERS: Final = "others"


class Series(msgspec.Struct, frozen=True):
    """Messages per second in each step of time, by name; all names have the same steps."""

    begin_us: int
    step_us: int
    rates: Mapping[str, tuple[float, ...]]

    @property
    def steps(self) -> int:
        """The number of steps of the longest series."""
        return max([len(one) for one in self.rates.values()], default=0)


class Totals(msgspec.Struct, frozen=True):
    """Totals over the whole time, and the deliveries of the busiest second."""

    sent: int
    delivered: int
    bytes: int
    peak_delivered: int


def panels(rows: Any, window_us: tuple[int, int], moments: Moments, site_class: dict[str, str]) -> str:
    """All plots of throughput, and the table."""

    def of_site(name: str) -> str:
        return site_class.get(name, "site7")

    parts = []
    for measure, title in (("delivered", "Delivered"), ("sent", "Sent")):
        parts.append(_panel(rows, "service", measure, f"{title} by service", window_us, moments, service_class))
        parts.append(_panel(rows, "site", measure, f"{title} by site", window_us, moments, of_site))
    return tag("div", {"class": "two"}, *parts) + folded("The same as a table", _table(rows))


def _panel(
    rows: Any, by: str, measure: str, title: str, window_us: tuple[int, int], moments: Moments, classes: Classes
) -> str:
    def draw(width: float) -> str:
        found = series(rows, by, measure, window_us, int((width - LEFT_PX) / STEP_PX_MIN))
        return _plot(found, window_us, moments, width, classes, f"{title}, messages a second over time")

    few = series(rows, by, measure, window_us, 1)
    legend = [
        tag("span", {"class": f"key {_class(name, classes)}"}, escape(texts.short(name) or "(none)"))
        for name in _order(few, by)
    ]
    return figure(title, "", tag("p", {"class": "legend"}, *legend), at_widths(draw, HALVES))


def _order(found: Series, by: str) -> list[str]:
    return (
        service_order(found.rates) if by == "service" else sorted(found.rates, key=lambda n: (n == OTHERS, n))
    )


def _class(name: str, classes: Classes) -> str:
    return "service-other" if name == OTHERS else classes(name)


def _plot(
    found: Series, window_us: tuple[int, int], moments: Moments, width: float, classes: Classes, label: str
) -> str:
    top, bottom = 10.0, HEIGHT_PX - 24
    x = LinearScale(*window_us, LEFT_PX, width - 6)
    peak = max([max(line) for line in found.rates.values()], default=0.0)
    y = LinearScale(0, rounded_up(peak), bottom, top)
    parts = []
    for value in ticks(y.high, 4):
        parts += level(y.at(value), LEFT_PX, width - 6, texts.count(value))
    parts += [line(x.at(at_us), top, x.at(at_us), bottom, "knot") for at_us, _ in moments]
    for name in sorted(found.rates):
        parts.append(_line(found, name, x, y, _class(name, classes)))
    parts += [text(6, 14, "/s", "small faint")] if not found.rates else []
    parts += _hits(found, x, top, bottom)
    return svg(width, HEIGHT_PX, _label(found, label), [*parts, *time_axis(x, bottom, width)])


def _label(found: Series, label: str) -> str:
    peaks = [
        f"{texts.short(name)} up to {texts.count(round(max(rates)))}" for name, rates in found.rates.items()
    ]
    return f"{label}: {', '.join(peaks) or 'nothing'}"


def _line(found: Series, name: str, x: LinearScale, y: LinearScale, colour: str) -> str:
    """A line through the middles of the steps, level at both ends."""
    rates = found.rates[name]
    middles = [found.begin_us + (at + 0.5) * found.step_us for at in range(len(rates))]
    ends = (x.at(found.begin_us), x.at(found.begin_us + len(rates) * found.step_us))
    points = [
        (ends[0], rates[0]),
        *zip([x.at(one) for one in middles], rates, strict=True),
        (ends[1], rates[-1]),
    ]
    letters = [("L" if at else "M", (place, y.at(rate))) for at, (place, rate) in enumerate(points)]
    return path(letters, f"line {colour}")


def _hits(found: Series, x: LinearScale, top: float, bottom: float) -> list[str]:
    """Invisible boxes with the tooltips of each step."""
    parts = []
    edges = [found.begin_us + at * found.step_us for at in range(found.steps + 1)]
    for at, (begin, end) in enumerate(pairwise(edges)):
        rates = [
            f"{texts.short(name, 20)} {texts.count(round(line[at], 1))}/s" for name, line in found.rates.items()
        ]
        box: Attributes = {"x": x.at(begin), "y": top, "width": x.at(end) - x.at(begin)}
        box |= {"height": bottom - top, "class": "hit"}
        parts.append(element("rect", box, tip(" · ".join([texts.moment(begin), *rates]))))
    return parts


def step_note(window_us: tuple[int, int], rows: Any) -> str:
    """A sentence on the time that one point stands for, in the widest plot."""
    width = HALVES["large"]
    step = series(rows, "service", "sent", window_us, int((width - LEFT_PX) / STEP_PX_MIN)).step_us
    if step == 1_000_000:
        return "Each point is a second."
    return f"Each point is the mean of {texts.span(step)}; the peaks in the table are of single seconds."


def _table(rows: Any) -> str:
    columns = [
        *(TableColumn("of", number=False), TableColumn("sent"), TableColumn("delivered"), TableColumn("bytes")),
        TableColumn("peak delivered a second"),
    ]
    found = ""
    for by in ("service", "site", "daemon"):
        lines = [
            (
                *(texts.short(name) or "(none)", texts.count(one.sent), texts.count(one.delivered)),
                *(texts.size(one.bytes), texts.count(one.peak_delivered)),
            )
            for name, one in totals(rows, by).items()
        ]
        found += table(f"Messages by {by}", columns, lines)
    return found


def throughput_section(
    gold: GoldTables, window: tuple[int, int] | None, moments: Moments, site_class: dict[str, str]
) -> tuple[str, str, str, str]:
    """The section Throughput, also if nothing was recorded."""
    rows = gold.throughput
    if rows is None or not rows.num_rows or window is None:
        return "throughput", "Throughput", "", paragraph("No messages were recorded.", "empty")
    caption = "Messages a second. A delivery is one message at one receiver. "
    caption += "Dotted lines are changes of membership. " if moments else ""
    return (
        "throughput",
        "Throughput",
        caption + step_note(window, rows),
        panels(rows, window, moments, site_class),
    )


def seconds_window_us(table: Any) -> tuple[int, int] | None:
    """The time from the first second to the end of the last."""
    if table is None or table.num_rows == 0:
        return None
    ends = pc.min_max(table["second_us"]).as_py()
    return ends["min"], ends["max"] + SECOND_US


def step_us(window: tuple[int, int], steps_max: int) -> int:
    """The smallest round number of seconds that gives at most this many steps."""
    span_us = window[1] - window[0]
    round_ones = (step for step in STEPS_US if step >= SECOND_US)
    least = -(-span_us // steps_max)
    return next((step for step in round_ones if step >= least), -(-least // SECOND_US) * SECOND_US)


def series(table: Any, by: str, measure: str, window: tuple[int, int], steps_max: int) -> Series:
    """A measure over time by service or site. Seconds without a row had no messages."""
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
    """The names of the series; if there are too many for a plot, the smallest become OTHERS."""
    names = pc.fill_null(table[by], "").combine_chunks()
    sums = pa.table({"name": names, "value": table[measure]}).group_by("name").aggregate([("value", "sum")])
    ranked = sorted(sums.to_pylist(), key=lambda row: (-(row["value_sum"] or 0), row["name"]))
    if len(ranked) <= SERIES_MAX:
        return names
    kept = pa.array([row["name"] for row in ranked[: SERIES_MAX - 1]])
    return pc.if_else(pc.is_in(names, value_set=kept), names, OTHERS)


def totals(table: Any, by: str) -> dict[str, Totals]:
    """Totals by service, site or daemon."""
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
    """The site of each daemon, by the table of throughput."""
    if table is None:
        return {}
    pairs = table.group_by(["daemon", "site"]).aggregate([]).to_pylist()
    return {row["daemon"] or "": row["site"] or "" for row in sorted(pairs, key=str)}
