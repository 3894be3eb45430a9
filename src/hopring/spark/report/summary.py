"""The figures on top of the page, and all others in a table at its end."""

from math import isfinite

from hopring.check.picture.svg import escape
from hopring.spark.report import words
from hopring.spark.report.braid import lay_out
from hopring.spark.report.braid_words import counted, views
from hopring.spark.report.gaps import unexplained
from hopring.spark.report.html import Column, table, tag
from hopring.spark.report.links import worst
from hopring.spark.report.rows import ALL_GROUPS, Gold, Latency
from hopring.spark.report.series import totals
from hopring.value import Value

KNOT_US = 250_000
"""Daemons that follow each other so closely share one change."""


class Tile(Value, frozen=True):
    """A figure with its name, and a word more."""

    name: str
    value: str
    more: str = ""


def tiles(gold: Gold, window_us: tuple[int, int] | None, sites: dict[str, str]) -> list[Tile]:
    """What is known; a table that is missing has no tile."""
    found = []
    if window_us is not None:
        found.append(Tile("Observed", words.span(window_us[1] - window_us[0]), words.day(window_us[0])))
    if sites:
        count = len(set(sites.values()))
        found.append(Tile("Daemons", words.count(len(sites)), f"in {words.plural(count, 'site')}"))
    if gold.throughput is not None and gold.throughput.num_rows:
        sums = totals(gold.throughput, "service").values()
        sent, delivered = sum(one.sent for one in sums), sum(one.delivered for one in sums)
        found.append(Tile("Messages sent", words.count(sent), words.size(sum(one.bytes for one in sums))))
        found.append(Tile("Delivered", words.count(delivered), "one for each receiver"))
    return found + _of_latency(gold) + _of_membership(gold) + _of_links(gold) + _of_gaps(gold)


def _of_latency(gold: Gold) -> list[Tile]:
    """The slowest 99 % of the strongest service that was used, between sites if there are several."""
    rows = [one for one in gold.latency or [] if one.group == ALL_GROUPS and one.p99_us is not None]
    if not rows:
        return []
    worst_one: Latency = max(rows, key=lambda one: (one.p99_us or 0.0, one))
    half = words.some(worst_one.p50_us, words.span)
    way = f"{words.short(worst_one.service, 12)}, {words.short(worst_one.from_site, 12)} → "
    way += f"{words.short(worst_one.to_site, 12)}; half within {half}"
    return [Tile("Slowest p99", words.some(worst_one.p99_us, words.span), way)]


def _of_membership(gold: Gold) -> list[Tile]:
    stays = gold.membership
    if not stays:
        return []
    end_us = max(stay.end_us or stay.begin_us for stay in stays)
    braid = lay_out(stays, end_us, KNOT_US)
    changes = counted(braid.knots)
    told = [
        words.plural(changes[what], one, many)
        for what, one, many in (("split", "split", "splits"), ("merge", "merge", "merges"))
        if changes[what]
    ]
    return [Tile("Views of daemons", words.count(len(views(braid.legs))), ", ".join(told) or "no split")]


def _of_links(gold: Gold) -> list[Tile]:
    if not gold.links:
        return []
    one = worst(gold.links)
    if one is None:
        return [Tile("Loss", "none", f"on {words.plural(len(gold.links), 'link')}")]
    way = f"{words.short(one.daemon, 14)} → {words.short(one.peer, 14)}"
    return [Tile("Most loss", words.share(one.loss_ratio or 0.0), way)]


def _of_gaps(gold: Gold) -> list[Tile]:
    if gold.gaps is None:
        return []
    if not gold.gaps.num_rows:
        return [Tile("Gaps", "none", "in spools")]
    open_ones = unexplained(gold.gaps)
    told = {None: "", 0: ", all explained"}.get(open_ones, f", {open_ones} unexplained")
    return [Tile("Gaps", words.count(gold.gaps.num_rows), f"in spools{told}")]


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
    columns = [Column("figure", number=False), Column("value")]
    rows = [_figure(name, summary[name]) for name in sorted(summary)]
    return table("All figures of the pipeline", columns, rows)


def _figure(name: str, value: float) -> tuple[str, str]:
    shown = {"us": words.span, "bytes": words.size, "ratio": words.share, "share": words.share}
    if name.startswith("bytes "):
        return words.short(name), words.some(value, words.size)
    stem, _, unit = name.rpartition("_")
    if isfinite(value) and unit == "seconds":
        return words.short(stem.replace("_", " ")), words.span(value * 1e6)
    if stem and unit in shown:
        return words.short(stem.replace("_", " ")), words.some(value, shown[unit])
    return words.short(name.replace("_", " ")), words.some(value)


def section(gold: Gold) -> tuple[str, str, str, str] | None:
    """All figures."""
    if not gold.summary:
        return None
    return "figures", "Figures", "", figure_table(gold.summary)
