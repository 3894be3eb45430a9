"""Membership: the braid of daemons, and its views as a table."""

from collections.abc import Sequence
from typing import Final

from hopring.spark.report import words
from hopring.spark.report.braid import closed, lay_out
from hopring.spark.report.braid_picture import STRANDS_MAX, draw_braid
from hopring.spark.report.braid_words import ViewFacts, views, what_changed
from hopring.spark.report.html import Column, at_widths, folded, said, table
from hopring.spark.report.rows import Gold, Stay
from hopring.spark.report.widths import WIDTHS

MOMENTS_MAX: Final = 40
SECTION: Final = ("membership", "Membership")
WORDS: Final = (
    "One strand for each daemon, in the colour of its site. Strands in one view run together in a band; they "
    "part at a split and join at a merge. A ring is the transitional signal, a cross the end of a daemon, a "
    "triangle its return."
)
COLUMNS: Final = (
    *(Column("view", number=False), Column("installed", number=False), Column("at all within")),
    *(Column("lasted"), Column("closing"), Column("members"), Column("who", number=False)),
    Column("cause", number=False),
)


def section(
    gold: Gold, window: tuple[int, int] | None, site_class: dict[str, str]
) -> tuple[str, str, str, str]:
    """The braid and the table."""
    stays = gold.membership
    if not stays or window is None:
        return *SECTION, "", said("No views of daemons were recorded.", "empty")
    chosen, left_out = _chosen(stays)
    label = f"Membership of {words.plural(len({stay.daemon for stay in chosen}), 'daemon')} over time"
    found = views(closed(stays, window[1]))
    label += f", {words.plural(len(found), 'view')}; the table below has them all"
    picture = at_widths(lambda width: draw_braid(chosen, window, width, site_class, label), WIDTHS)
    if left_out:
        picture += said(f"{words.plural(left_out, 'more daemon')} left out of the picture.", "note")
    rows = [_row(one) for one in found]
    more = gold.left_out.get("membership", 0)
    return (
        *SECTION,
        WORDS,
        picture + folded("The same as a table", table("Views of daemons", COLUMNS, rows, more)),
    )


def window_us(stays: Sequence[Stay]) -> tuple[int, int] | None:
    """From the first view to the last that is known to have happened."""
    if not stays:
        return None
    times = [at for stay in stays for at in (stay.begin_us, stay.end_us, stay.signalled_us) if at is not None]
    return min(times), max(*times, min(times) + 1)


def moments(gold: Gold, window: tuple[int, int] | None) -> list[tuple[int, str]]:
    """When membership changed, for the other plots; nothing where it changed all the time."""
    if not gold.membership or window is None:
        return []
    braid = lay_out(gold.membership, window[1], (window[1] - window[0]) // MOMENTS_MAX)
    found = [(behind.begin_us, what_changed(before, behind)) for before, behind in braid.knots if before]
    return found if len(found) < MOMENTS_MAX // 2 else []


def _chosen(stays: Sequence[Stay]) -> tuple[list[Stay], int]:
    daemons = sorted({stay.daemon for stay in stays})
    few = set(daemons[:STRANDS_MAX])
    return [stay for stay in stays if stay.daemon in few], len(daemons) - len(few)


def _row(one: ViewFacts) -> tuple[str, ...]:
    lasted = words.span(one.end_us - one.first_us) + (", to the end" if one.lasts else "")
    return (
        f"{one.letter} ({one.name})",
        words.moment(one.first_us, 3),
        words.span(one.last_us - one.first_us),
        lasted,
        words.some(one.closing_us, words.span),
        words.count(len(one.members)),
        words.names(one.members),
        words.short("; ".join(one.causes), 120),
    )
