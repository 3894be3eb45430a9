"""The links between daemons: what was lost, asked for and sent again, with small bars to compare."""

from collections.abc import Sequence

from hopring.spark.report import words
from hopring.spark.report.html import Cell, Column, bar, said, table
from hopring.spark.report.rows import Gold, Link

COLUMNS = (
    *(Column("from", number=False), Column("to", number=False), Column("link", number=False)),
    *(Column("sent"), Column("received"), Column("lost"), Column("loss"), Column("NACKs")),
    *(Column("sent again"), Column("round trip")),
)


def link_table(links: Sequence[Link], more: int = 0) -> str:
    """The worst first. Bars are parts of the greatest in their column; a round trip of 0 was never measured."""
    order = sorted(links, key=lambda one: (-(one.loss_ratio or 0.0), -one.retransmissions, one))
    loss = max([one.loss_ratio or 0.0 for one in links], default=0.0)
    nacks = max([one.nacks for one in links], default=0)
    again = max([one.retransmissions for one in links], default=0)
    trip = max([one.round_trip_us or 0.0 for one in links], default=0.0)
    rows: list[tuple[Cell, ...]] = [
        (
            *(words.short(one.daemon), words.short(one.peer) or words.NOTHING, words.short(one.link)),
            *(words.count(one.sent), words.count(one.received), words.count(one.lost)),
            bar(_part(one.loss_ratio, loss), words.some(one.loss_ratio, words.share), "bad"),
            bar(_part(one.nacks, nacks), words.count(one.nacks)),
            bar(_part(one.retransmissions, again), words.count(one.retransmissions)),
            bar(_part(one.round_trip_us, trip), words.some(one.round_trip_us or None, words.span)),
        )
        for one in order
    ]
    return table("Links, the one with most loss first", COLUMNS, rows, more)


def worst(links: Sequence[Link]) -> Link | None:
    """The one that lost the greatest part, if one lost anything."""
    lossy = [one for one in links if (one.loss_ratio or 0.0) > 0]
    return max(lossy, key=lambda one: (one.loss_ratio or 0.0, one.lost, one), default=None)


def _part(value: float | None, greatest: float) -> float:
    return (value or 0.0) / greatest if greatest else 0.0


def section(gold: Gold) -> tuple[str, str, str, str]:
    """The table, or a word that there is none."""
    if not gold.links:
        return "links", "Links", "", said("No links were recorded.", "empty")
    told = "What each daemon counted of its links. Bars are parts of the greatest value in their column."
    return "links", "Links", told, link_table(gold.links, gold.left_out.get("links", 0))
