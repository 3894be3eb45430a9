"""The figures on top of the page, and all others in a table at its end."""

from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

import msgspec

from hopring.check.picture.svg import escape
from hopring.spark.report import texts
from hopring.spark.report.braid import lay_out
from hopring.spark.report.braid_chart import counted, views
from hopring.spark.report.gold import ALL_GROUPS, GoldTables, LatencyRow, LinkRow
from hopring.spark.report.html import Cell, TableColumn, bar, said, table, tag
from hopring.spark.report.throughput import totals

KNOT_US = 250_000
"""Daemons that follow each other so closely share one change."""


class Tile(msgspec.Struct, frozen=True):
    """A figure with its name, and a word more."""

    name: str
    value: str
    more: str = ""


def tiles(gold: GoldTables, window_us: tuple[int, int] | None, sites: dict[str, str]) -> list[Tile]:
    """What is known; a table that is missing has no tile."""
    found = []
    if window_us is not None:
        found.append(Tile("Observed", texts.span(window_us[1] - window_us[0]), texts.day(window_us[0])))
    if sites:
        count = len(set(sites.values()))
        found.append(Tile("Daemons", texts.count(len(sites)), f"in {texts.plural(count, 'site')}"))
    if gold.throughput is not None and gold.throughput.num_rows:
        sums = totals(gold.throughput, "service").values()
        sent, delivered = sum(one.sent for one in sums), sum(one.delivered for one in sums)
        found.append(Tile("Messages sent", texts.count(sent), texts.size(sum(one.bytes for one in sums))))
        found.append(Tile("Delivered", texts.count(delivered), "one for each receiver"))
    return found + _of_latency(gold) + _of_membership(gold) + _of_links(gold) + _of_gaps(gold)


def _of_latency(gold: GoldTables) -> list[Tile]:
    """The slowest 99 % of the strongest service that was used, between sites if there are several."""
    rows = [one for one in gold.latency or [] if one.group == ALL_GROUPS and one.p99_us is not None]
    if not rows:
        return []
    worst_one: LatencyRow = max(rows, key=lambda one: (one.p99_us or 0.0, one))
    half = texts.some(worst_one.p50_us, texts.span)
    way = f"{texts.short(worst_one.service, 12)}, {texts.short(worst_one.from_site, 12)} → "
    way += f"{texts.short(worst_one.to_site, 12)}; half within {half}"
    return [Tile("Slowest p99", texts.some(worst_one.p99_us, texts.span), way)]


def _of_membership(gold: GoldTables) -> list[Tile]:
    stays = gold.membership
    if not stays:
        return []
    end_us = max(stay.end_us or stay.begin_us for stay in stays)
    braid = lay_out(stays, end_us, KNOT_US)
    changes = counted(braid.knots)
    told = [
        texts.plural(changes[what], one, many)
        for what, one, many in (("split", "split", "splits"), ("merge", "merge", "merges"))
        if changes[what]
    ]
    return [Tile("Views of daemons", texts.count(len(views(braid.legs))), ", ".join(told) or "no split")]


def _of_links(gold: GoldTables) -> list[Tile]:
    if not gold.links:
        return []
    one = worst(gold.links)
    if one is None:
        return [Tile("Loss", "none", f"on {texts.plural(len(gold.links), 'link')}")]
    way = f"{texts.short(one.daemon, 14)} → {texts.short(one.peer, 14)}"
    return [Tile("Most loss", texts.share(one.loss_ratio or 0.0), way)]


def _of_gaps(gold: GoldTables) -> list[Tile]:
    if gold.gaps is None:
        return []
    if not gold.gaps.num_rows:
        return [Tile("Gaps", "none", "in spools")]
    open_ones = unexplained(gold.gaps)
    told = {None: "", 0: ", all explained"}.get(open_ones, f", {open_ones} unexplained")
    return [Tile("Gaps", texts.count(gold.gaps.num_rows), f"in spools{told}")]


def tile_list(found: list[Tile]) -> str:
    """As a list of terms, which is what they are."""
    items = [
        tag(
            "div",
            None,
            tag("dt", None, escape(one.name)),
            tag("dd", None, tag("b", None, escape(one.value)), tag("span", None, escape(one.more))),
        )
        for one in found
    ]
    return tag("dl", {"class": "tiles"}, *items)


def figure_table(summary: dict[str, float]) -> str:
    """Every figure of the pipeline, with the unit that its name ends in."""
    columns = [TableColumn("figure", number=False), TableColumn("value")]
    rows = [_figure(name, summary[name]) for name in sorted(summary)]
    return table("All figures of the pipeline", columns, rows)


def _figure(name: str, value: float) -> tuple[str, str]:
    shown = {"us": texts.span, "bytes": texts.size, "ratio": texts.share, "share": texts.share}
    if name.startswith("bytes "):
        return texts.short(name), texts.some(value, texts.size)
    stem, _, unit = name.rpartition("_")
    if isfinite(value) and unit == "seconds":
        return texts.short(stem.replace("_", " ")), texts.span(value * 1e6)
    if stem and unit in shown:
        return texts.short(stem.replace("_", " ")), texts.some(value, shown[unit])
    return texts.short(name.replace("_", " ")), texts.some(value)


def figures_section(gold: GoldTables) -> tuple[str, str, str, str] | None:
    """All figures."""
    if not gold.summary:
        return None
    return "figures", "Figures", "", figure_table(gold.summary)


LINK_COLUMNS = (
    *(TableColumn("from", number=False), TableColumn("to", number=False), TableColumn("link", number=False)),
    *(
        TableColumn("sent"),
        TableColumn("received"),
        TableColumn("lost"),
        TableColumn("loss"),
        TableColumn("NACKs"),
    ),
    *(TableColumn("sent again"), TableColumn("round trip")),
)


def link_table(links: Sequence[LinkRow], more: int = 0) -> str:
    """The worst first. Bars are parts of the greatest in their column; a round trip of 0 was never measured."""
    order = sorted(links, key=lambda one: (-(one.loss_ratio or 0.0), -one.retransmissions, one))
    loss = max([one.loss_ratio or 0.0 for one in links], default=0.0)
    nacks = max([one.nacks for one in links], default=0)
    again = max([one.retransmissions for one in links], default=0)
    trip = max([one.round_trip_us or 0.0 for one in links], default=0.0)
    rows: list[tuple[Cell, ...]] = [
        (
            *(texts.short(one.daemon), texts.short(one.peer) or texts.NOTHING, texts.short(one.link)),
            *(texts.count(one.sent), texts.count(one.received), texts.count(one.lost)),
            bar(_link_part(one.loss_ratio, loss), texts.some(one.loss_ratio, texts.share), "bad"),
            bar(_link_part(one.nacks, nacks), texts.count(one.nacks)),
            bar(_link_part(one.retransmissions, again), texts.count(one.retransmissions)),
            bar(_link_part(one.round_trip_us, trip), texts.some(one.round_trip_us or None, texts.span)),
        )
        for one in order
    ]
    return table("Links, the one with most loss first", LINK_COLUMNS, rows, more)


def worst(links: Sequence[LinkRow]) -> LinkRow | None:
    """The one that lost the greatest part, if one lost anything."""
    lossy = [one for one in links if (one.loss_ratio or 0.0) > 0]
    return max(lossy, key=lambda one: (one.loss_ratio or 0.0, one.lost, one), default=None)


def _link_part(value: float | None, greatest: float) -> float:
    return (value or 0.0) / greatest if greatest else 0.0


def links_section(gold: GoldTables) -> tuple[str, str, str, str]:
    """The table, or a word that there is none."""
    if not gold.links:
        return "links", "Links", "", said("No links were recorded.", "empty")
    told = "What each daemon counted of its links. Bars are parts of the greatest value in their column."
    return "links", "Links", told, link_table(gold.links, gold.left_out.get("links", 0))


GAP_COLUMNS_MAX: Final = 12
EXPLAINED: Final = "explained"
GAP_ROWS_MAX: Final = 2_000


def unexplained(gaps: Any) -> int | None:
    """How many have no reason; None if the table does not say."""
    if EXPLAINED not in gaps.column_names:
        return None
    return sum(value is False for value in gaps[EXPLAINED].to_pylist())


def gap_table(gaps: Any) -> str:
    """Without columns that are empty throughout; those without a reason first."""
    names = [name for name in gaps.column_names if gaps[name].null_count < gaps.num_rows][:GAP_COLUMNS_MAX]
    few = gaps.select(names).slice(0, GAP_ROWS_MAX)
    found = few.to_pylist()
    # Sorted by their text, so that the page does not depend on the order of the files.
    found.sort(key=lambda row: (row.get(EXPLAINED) is not False, [str(row[name]) for name in names]))
    rows = [[_gap_cell(name, row[name]) for name in names] for row in found]
    columns = [
        TableColumn(texts.short(name).replace("_", " "), number=_is_number(gaps, name)) for name in names
    ]
    return table("Gaps: what is missing in which spool", columns, rows, gaps.num_rows - few.num_rows)


def _is_number(gaps: Any, name: str) -> bool:
    return str(gaps.schema.field(name).type) in ("int32", "int64", "double", "float")


def _gap_cell(name: str, value: object) -> str:
    match value:
        case None:
            return texts.NOTHING
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return texts.some(value)
        case datetime():
            return value.strftime("%H:%M:%S.%f")[:-3]
        case list():
            return texts.names([str(one) for one in value], 8)
        case str() if name == "view":
            return texts.group_view(value)
        case _:
            return texts.short(str(value), 120)


def gaps_section(gold: GoldTables) -> tuple[str, str, str, str] | None:
    """The table; nothing if it was not made."""
    if gold.gaps is None:
        return None
    if not gold.gaps.num_rows:
        return "gaps", "Gaps", "", said("No gaps: every spool has all that the others have.", "empty")
    told = "What is missing in which spool, and why."
    if unexplained(gold.gaps) == 0:
        told += " All of it is explained: a spool on one side of a split has nothing of the other side."
    return "gaps", "Gaps", told, gap_table(gold.gaps)
