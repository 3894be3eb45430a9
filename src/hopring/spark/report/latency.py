"""The section Latency: a distribution for each service and pair of sites, all on one logarithmic axis."""

from collections import Counter
from collections.abc import Sequence
from math import floor, log2
from typing import Final

import msgspec

from hopring.check.picture.svg import Attributes, element, line, path, text, tip
from hopring.spark.report import texts
from hopring.spark.report.gold import ALL_GROUPS, BucketRow, GoldTables, LatencyRow
from hopring.spark.report.html import (
    TableColumn,
    figure,
    folded,
    paragraph,
    service_class,
    service_order,
    svg,
    table,
    tag,
)
from hopring.spark.report.scales import LogScale, log_ticks

PANELS_MAX: Final = 12
WIDTH_PX: Final = 348.0
ROW_PX: Final = 62.0
HILL_PX: Final = 28.0
SIDE_PX: Final = 8.0
LETTER_PX: Final = 6.0
BUCKETS_MAX: Final = 48
BUCKETS_PER_OCTAVE: Final = 3  # If there are more than BUCKETS_MAX, they are merged into these.
LOW_US: Final = 1.0

Pair = tuple[str, str]


class Hill(msgspec.Struct, frozen=True):
    """The distribution of one service between two sites."""

    service: str
    pair: Pair
    buckets: tuple[BucketRow, ...]
    latency: LatencyRow | None

    @property
    def messages(self) -> int:
        """The number of messages in all buckets."""
        return sum(one.messages for one in self.buckets)


def hills(histogram: Sequence[BucketRow], latency: Sequence[LatencyRow]) -> list[Hill]:
    """A hill for each service and pair of sites with messages; percentiles of several runs have no sum."""
    one_run = len({one.run for one in latency}) < 2
    marks = {
        (one.service, one.from_site, one.to_site): one for one in latency if one.group == ALL_GROUPS and one_run
    }
    found: dict[tuple[str, str, str], list[BucketRow]] = {}
    for bucket in over_all_runs(histogram):
        if bucket.messages > 0 and bucket.high_us > LOW_US:
            found.setdefault((bucket.service, bucket.from_site, bucket.to_site), []).append(bucket)
    return [
        Hill(service, (here, there), tuple(thinned(buckets)), marks.get((service, here, there)))
        for (service, here, there), buckets in sorted(found.items())
    ]


def over_all_runs(histogram: Sequence[BucketRow]) -> list[BucketRow]:
    """The buckets, each with the messages of all runs."""
    sums: Counter[tuple[str, str, str, int, int]] = Counter()
    for one in histogram:
        sums[one.service, one.from_site, one.to_site, one.low_us, one.high_us] += one.messages
    return [BucketRow(*key, messages) for key, messages in sorted(sums.items())]


def thinned(buckets: Sequence[BucketRow]) -> list[BucketRow]:
    """The buckets, merged to at most three for each factor of two if there are too many."""
    if len(buckets) <= BUCKETS_MAX:
        return list(buckets)
    per_octave, found = BUCKETS_PER_OCTAVE, list(buckets)
    while len(found) > BUCKETS_MAX and per_octave > 0:
        found = _together(buckets, per_octave)
        per_octave -= 1
    return found


def _together(buckets: Sequence[BucketRow], per_octave: int) -> list[BucketRow]:
    sums: Counter[int] = Counter()
    for one in buckets:
        sums[floor(log2(max(one.low_us, LOW_US)) * per_octave + 1e-9)] += one.messages
    first = buckets[0]
    names = (first.service, first.from_site, first.to_site)
    edges = {at: (round(2 ** (at / per_octave)), round(2 ** ((at + 1) / per_octave))) for at in sums}
    return [BucketRow(*names, *edges[at], messages) for at, messages in sorted(sums.items())]


def panels(found: Sequence[Hill], latency: Sequence[LatencyRow]) -> str:
    """A panel for each pair of sites, at most PANELS_MAX of those with most messages, and the table."""
    sums: Counter[Pair] = Counter()
    for hill in found:
        sums[hill.pair] += hill.messages
    pairs = sorted(sorted(sums, key=lambda pair: (-sums[pair], pair))[:PANELS_MAX])
    low, high = _window(found)
    scale = LogScale(low, high, SIDE_PX, WIDTH_PX - SIDE_PX)
    plots = [_panel(pair, [hill for hill in found if hill.pair == pair], scale) for pair in pairs]
    note = ""
    if len(sums) > len(pairs):
        left_out = len(sums) - len(pairs)
        note = paragraph(
            f"{texts.plural(left_out, 'more pair')} of sites, with fewer messages, left out here.", "note"
        )
    return tag("div", {"class": "three"}, *plots) + note + folded("The same as a table", _table(latency))


def _window(found: Sequence[Hill]) -> tuple[float, float]:
    """The range of all buckets, at least a factor of four."""
    low = min([max(one.low_us, LOW_US) for hill in found for one in hill.buckets], default=1_000.0)
    high = max([one.high_us for hill in found for one in hill.buckets], default=1_000_000.0)
    return float(low), float(max(high, low * 4))


def _panel(pair: Pair, found: Sequence[Hill], scale: LogScale) -> str:
    order = service_order(hill.service for hill in found)
    rows = sorted(found, key=lambda hill: order.index(hill.service))
    bottom = ROW_PX * len(rows) + 6
    parts = []
    for value in log_ticks(scale.low, scale.high, 7):
        x = scale.at(value)
        parts.append(line(x, 0, x, bottom + 4, "level"))
    for x, label, side in tick_labels(scale):
        parts.append(text(x, bottom + 17, label, f"small faint{side}"))
    for number, hill in enumerate(rows):
        parts += _hill(hill, scale, ROW_PX * (number + 1))
    parts.append(line(scale.begin, bottom, scale.end, bottom, "axis"))
    here, there = (texts.short(site, 20) for site in pair)
    caption = "; ".join([f"{hill.service}: {_description(hill)}" for hill in rows])
    picture = svg(WIDTH_PX, bottom + 24, f"Latency from {here} to {there}. {caption}", parts)
    title = f"{here} → {there}" if here != there else f"within {here}"
    return figure(title, "", picture)


def tick_labels(scale: LogScale) -> list[tuple[float, str, str]]:
    """The labels of the axis with their places and alignments, without those that would overlap others."""
    found: list[tuple[float, str, str]] = []
    free_x = 0.0
    for value in log_ticks(scale.low, scale.high, 7):
        x, label = scale.at(value), texts.span(value)
        side = "" if x < 18 else " end" if x > scale.end - 30 else " middle"
        width = LETTER_PX * len(label)
        begin = x - {"": 0.0, " end": width, " middle": width / 2}[side]
        if begin >= free_x:
            found.append((x, label, side))
            free_x = begin + width + LETTER_PX
    return found


def _description(hill: Hill) -> str:
    one = hill.latency
    if one is None:
        return f"{texts.plural(hill.messages, 'message')}"
    return f"half within {texts.some(one.p50_us, texts.span)}, 99 % within {texts.some(one.p99_us, texts.span)}"


def _hill(hill: Hill, scale: LogScale, floor_y: float) -> list[str]:
    """The texts of a hill, its area, and the marks of the 50th and the 99th percentile."""
    colour = service_class(hill.service)
    top = max(one.messages for one in hill.buckets)
    parts = [text(scale.begin, floor_y - HILL_PX - 13, texts.short(hill.service, 18), "small bold")]
    if hill.latency is not None:
        one = hill.latency
        marks = f"p50 {texts.some(one.p50_us, texts.span)}, p99 {texts.some(one.p99_us, texts.span)}"
        parts.append(text(scale.end, floor_y - HILL_PX - 13, marks, "small faint end"))
    parts.append(_area(hill, scale, floor_y, top, colour))
    parts += _hits(hill, scale, floor_y, top)
    for value, kind in ((hill.latency.p50_us, "half"), (hill.latency.p99_us, "most")) if hill.latency else ():
        if value is not None and value > 0:
            x = scale.at(value)
            parts.append(line(x, floor_y - HILL_PX - 2, x, floor_y + 3, f"mark {kind} {colour}"))
            spot: Attributes = {"cx": x, "cy": floor_y - HILL_PX - 3, "r": 3, "class": f"{kind} {colour}"}
            parts.append(element("circle", spot))
    return parts


def _area(hill: Hill, scale: LogScale, floor_y: float, top: int, colour: str) -> str:
    steps: list[tuple[str, tuple[float, ...]]] = []
    last: float | None = None
    for one in hill.buckets:
        begin, end = scale.at(max(one.low_us, LOW_US)), scale.at(one.high_us)
        y = floor_y - HILL_PX * one.messages / top
        if last is None or begin - last > 0.05:
            steps += [("V", (floor_y,))] if last is not None else []
            steps += [("M" if last is None else "H", (begin, floor_y) if last is None else (begin,))]
        steps += [("V", (y,)), ("H", (end,))]
        last = end
    return path([*steps, ("V", (floor_y,)), ("Z", ())], f"hill {colour}")


def _hits(hill: Hill, scale: LogScale, floor_y: float, top: int) -> list[str]:
    parts = []
    for one in hill.buckets:
        begin, end = scale.at(max(one.low_us, LOW_US)), scale.at(one.high_us)
        part = texts.share(one.messages / hill.messages)
        caption = f"{hill.service}: {texts.span(max(one.low_us, 0))} to {texts.span(one.high_us)}, "
        caption += f"{texts.plural(one.messages, 'message')} ({part})"
        box: Attributes = {"x": begin, "y": floor_y - HILL_PX, "width": max(end - begin, 1), "height": HILL_PX}
        parts.append(element("rect", {**box, "class": "hit"}, tip(caption)))
    return parts if top else []


def _table(latency: Sequence[LatencyRow]) -> str:
    of_runs = any(one.run for one in latency)
    names_of_columns = (*(("run",) if of_runs else ()), "service", "from", "to", "group")
    columns = [TableColumn(name, number=False) for name in names_of_columns]
    columns += [
        TableColumn(name) for name in ("messages", "p50", "p90", "p99", "max", "mean", "before they were sent")
    ]
    rows = []
    for one in sorted(latency, key=lambda row: (row.group != ALL_GROUPS, row)):
        times = (one.p50_us, one.p90_us, one.p99_us, one.max_us, one.mean_us)
        group = texts.short(one.group) if one.group != ALL_GROUPS else "all"
        named = (*((one.run,) if of_runs else ()), one.service, one.from_site, one.to_site)
        names = [texts.short(name) for name in named]
        shown = [texts.some(value, texts.span) for value in times]
        rows.append((*names, group, texts.count(one.messages), *shown, texts.count(one.negative)))
    return table("Latency from multicast to delivery", columns, rows)


def latency_section(gold: GoldTables) -> tuple[str, str, str, str]:
    """The section; without a histogram it has only the table."""
    rows = gold.latency or []
    found = hills(gold.histogram or [], rows)
    key = "latency", "Latency"
    if not found and not rows:
        return *key, "", paragraph("No latencies were recorded.", "empty")
    if not found:
        return *key, "From multicast to delivery.", _table(rows)
    negative = sum(one.negative for one in rows if one.group == ALL_GROUPS)
    caption = (
        "From multicast to delivery, for each service and pair of sites; the axis is logarithmic and the same "
        "everywhere. Half of the messages are faster than the filled mark, 99 % than the hollow one."
    )
    if negative:
        caption += (
            f" {texts.plural(negative, 'message')} seemed to arrive before they were sent: clocks differ."
        )
    return *key, caption, panels(found, rows)
