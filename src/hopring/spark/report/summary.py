"""The tiles at the top of the page, and the sections Audit, Links, Gaps and Figures.

The section Audit lists every property, whether it holds, and the witnesses of broken ones.
"""

from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

import msgspec

from hopring.check.picture.svg import escape
from hopring.check.properties import statement_of
from hopring.spark.report import texts
from hopring.spark.report.braid import lay_out
from hopring.spark.report.braid_chart import counted, views
from hopring.spark.report.gold import ALL_GROUPS, AuditVerdicts, FindingRow, GoldTables, LatencyRow, LinkRow
from hopring.spark.report.html import Cell, Raw, TableColumn, bar, paragraph, table, tag
from hopring.spark.report.throughput import totals

BROKEN_MAX: Final = 12
COLUMNS: Final = (
    TableColumn("property", number=False),
    TableColumn("in a sentence", number=False),
    TableColumn("verdict", number=False),
)


def properties(audit: AuditVerdicts) -> list[str]:
    """The properties that were checked in any run, in the order of the audit."""
    found: dict[str, None] = {}
    for run in sorted(audit.judged):
        found |= dict.fromkeys(audit.judged[run])
    return list(found | dict.fromkeys([one.property for one in audit.broken]))


def headline(audit: AuditVerdicts | None, *, closed_only: bool = False) -> tuple[str, str]:
    """The verdict in a sentence, and its style class."""
    if audit is None:
        return "No view is closed yet" if closed_only else "Not audited", "plain"
    judged = len(properties(audit))
    if not judged:
        return "The audit judged nothing", "plain"
    broken = len({one.property for one in audit.broken})
    if audit.holds and not broken:
        return f"All {judged} properties hold" + (" in closed views" if closed_only else ""), "good"
    return f"{broken} of {judged} properties {'is' if broken == 1 else 'are'} broken", "bad"


def alarm(audit: AuditVerdicts | None) -> str:
    """The broken properties for the top of the page; empty if all hold."""
    if audit is None or not audit.broken:
        return ""
    items = [tag("li", None, tag("b", None, escape(_named(one))), " ", _witness(one)) for one in audit.broken]
    more = len(items) - BROKEN_MAX
    rest = paragraph(f"{texts.plural(more, 'more broken verdict')} in the table below.") if more > 0 else ""
    return tag("div", {"class": "alarm", "role": "note"}, tag("ul", None, *items[:BROKEN_MAX]), rest)


def verdict_table(audit: AuditVerdicts) -> str:
    """The table of all properties."""
    rows: list[tuple[Cell, ...]] = []
    for name in properties(audit):
        broken = [one for one in audit.broken if one.property == name]
        caption = Raw(escape(statement_of(name)) + _witnesses(broken))
        rows.append((texts.short(name, 90), caption, _verdict(audit, name, broken)))
    return table("Properties of extended virtual synchrony", COLUMNS, rows)


def _verdict(audit: AuditVerdicts, name: str, broken: list[FindingRow]) -> Raw:
    judged = sum(name in names for names in audit.judged.values())
    if not broken:
        where = f" in {texts.plural(judged, 'run')}" if len(audit.runs) > 1 else ""
        return Raw(tag("span", {"class": "good sign"}, escape(f"✓ holds{where}")))
    where = f" in {len(broken)} of {texts.plural(judged, 'run')}" if len(audit.runs) > 1 else ""
    return Raw(tag("span", {"class": "bad sign"}, escape(f"✗ broken{where}")))


def _witnesses(broken: list[FindingRow]) -> str:
    if not broken:
        return ""
    more = f" And in {texts.plural(len(broken) - 1, 'more run')}." if len(broken) > 1 else ""
    return tag("p", {"class": "told"}, _witness(broken[0]) + escape(more))


def _witness(one: FindingRow) -> str:
    run = f"run {texts.short(one.run)}: " if one.run else ""
    many = f" ({texts.plural(one.violations, 'violation')})" if one.violations > 1 else ""
    return tag(
        "span", {"class": "witness"}, escape(texts.short(f"{run}{one.witness}{many}", texts.WITNESS_CHARS_MAX))
    )


def _named(one: FindingRow) -> str:
    sentence = statement_of(one.property)
    return f"{texts.short(one.property, 90)}." + (f" {sentence}" if sentence else "")


def verdicts_section(audit: AuditVerdicts | None, *, closed_only: bool = False) -> tuple[str, str, str, str]:
    """The section Audit, also if there was none."""
    if audit is None or not properties(audit):
        return "audit", "Audit", "", paragraph("No audit was made of this run.", "empty")
    over = "those events of daemons that are in closed views" if closed_only else "the whole trace"
    caption = f"Each property of extended virtual synchrony, judged over {over}, causes first."
    if len(audit.runs) > 1:
        caption += f" {texts.plural(len(audit.runs), 'history', 'histories')} were judged, each by itself."
    return "audit", "Audit", caption, verdict_table(audit)


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

GAP_COLUMNS_MAX: Final = 12
EXPLAINED: Final = "explained"
GAP_ROWS_MAX: Final = 2_000
KNOT_US = 250_000
"""Views that daemons install within this time count as one change."""


class Tile(msgspec.Struct, frozen=True):
    """A tile: a name, a value, and a detail below it."""

    name: str
    value: str
    more: str = ""


def tiles(gold: GoldTables, window_us: tuple[int, int] | None, sites: dict[str, str]) -> list[Tile]:
    """The tiles of all tables that exist."""
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
    """A tile with the largest 99th percentile of all services and pairs of sites."""
    rows = [one for one in gold.latency or [] if one.group == ALL_GROUPS and one.p99_us is not None]
    if not rows:
        return []
    worst_one: LatencyRow = max(rows, key=lambda one: (one.p99_us or 0.0, one))
    half = texts.some(worst_one.p50_us, texts.span)
    detail = f"{texts.short(worst_one.service, 12)}, {texts.short(worst_one.from_site, 12)} → "
    detail += f"{texts.short(worst_one.to_site, 12)}; half within {half}"
    return [Tile("Slowest p99", texts.some(worst_one.p99_us, texts.span), detail)]


def _of_membership(gold: GoldTables) -> list[Tile]:
    stays = gold.membership
    if not stays:
        return []
    end_us = max(stay.end_us or stay.begin_us for stay in stays)
    braid = lay_out(stays, end_us, KNOT_US)
    changes = counted(braid.knots)
    caption = [
        texts.plural(changes[what], one, many)
        for what, one, many in (("split", "split", "splits"), ("merge", "merge", "merges"))
        if changes[what]
    ]
    return [Tile("Views of daemons", texts.count(len(views(braid.legs))), ", ".join(caption) or "no split")]


def _of_links(gold: GoldTables) -> list[Tile]:
    if not gold.links:
        return []
    one = worst(gold.links)
    if one is None:
        return [Tile("Loss", "none", f"on {texts.plural(len(gold.links), 'link')}")]
    detail = f"{texts.short(one.daemon, 14)} → {texts.short(one.peer, 14)}"
    return [Tile("Most loss", texts.share(one.loss_ratio or 0.0), detail)]


def _of_gaps(gold: GoldTables) -> list[Tile]:
    if gold.gaps is None:
        return []
    if not gold.gaps.num_rows:
        return [Tile("Gaps", "none", "in spools")]
    open_ones = unexplained(gold.gaps)
    caption = {None: "", 0: ", all explained"}.get(open_ones, f", {open_ones} unexplained")
    return [Tile("Gaps", texts.count(gold.gaps.num_rows), f"in spools{caption}")]


def tile_list(found: list[Tile]) -> str:
    """The tiles as a description list."""
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
    """A table of all totals, each with the unit at the end of its name."""
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
    """The section Figures; None without a summary."""
    if not gold.summary:
        return None
    return "figures", "Figures", "", figure_table(gold.summary)


def link_table(links: Sequence[LinkRow], more: int = 0) -> str:
    """The links, worst first. Bars are shares of the column's maximum; a round trip of 0 was never measured."""
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
    """The link with the largest loss ratio; None if none lost anything."""
    lossy = [one for one in links if (one.loss_ratio or 0.0) > 0]
    return max(lossy, key=lambda one: (one.loss_ratio or 0.0, one.lost, one), default=None)


def _link_part(value: float | None, greatest: float) -> float:
    return (value or 0.0) / greatest if greatest else 0.0


def links_section(gold: GoldTables) -> tuple[str, str, str, str]:
    """The section Links, also if there are none."""
    if not gold.links:
        return "links", "Links", "", paragraph("No links were recorded.", "empty")
    caption = "The counters of each daemon for its links. Bars are parts of the greatest value in their column."
    return "links", "Links", caption, link_table(gold.links, gold.left_out.get("links", 0))


def unexplained(gaps: Any) -> int | None:
    """The number of unexplained gaps; None if the table has no such column."""
    if EXPLAINED not in gaps.column_names:
        return None
    return sum(value is False for value in gaps[EXPLAINED].to_pylist())


def gap_table(gaps: Any) -> str:
    """The gaps, unexplained ones first, without empty columns."""
    names = [name for name in gaps.column_names if gaps[name].null_count < gaps.num_rows][:GAP_COLUMNS_MAX]
    few = gaps.select(names).slice(0, GAP_ROWS_MAX)
    found = few.to_pylist()
    # Sorted by their text, so that the page does not depend on the order of the files.
    found.sort(key=lambda row: (row.get(EXPLAINED) is not False, [str(row[name]) for name in names]))
    rows = [[_gap_cell(name, row[name]) for name in names] for row in found]
    columns = [
        TableColumn(texts.short(name).replace("_", " "), number=_is_number(gaps, name)) for name in names
    ]
    return table("Gaps: the missing records of each spool", columns, rows, gaps.num_rows - few.num_rows)


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
    """The section Gaps; None if there is no such table."""
    if gold.gaps is None:
        return None
    if not gold.gaps.num_rows:
        nothing = "No gaps: every spool has all that the others have."
        if gold.summary.get("records") == 0:
            nothing = "No records of spools were read."
        return "gaps", "Gaps", "", paragraph(nothing, "empty")
    caption = "The missing records of each spool, and the reasons."
    if unexplained(gold.gaps) == 0:
        caption += " All of it is explained: a spool on one side of a split has nothing of the other side."
    return "gaps", "Gaps", caption, gap_table(gold.gaps)
