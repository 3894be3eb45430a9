"""The sections Membership and Groups: views of daemons and of groups, as braids and as tables."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from hopring.spark.report import texts
from hopring.spark.report.braid import closed, lay_out
from hopring.spark.report.braid_chart import STRANDS_MAX, ViewSummary, draw_braid, views, what_changed
from hopring.spark.report.gold import GoldTables, GroupStayRow, StayRow
from hopring.spark.report.html import (
    WIDTHS,
    Cell,
    TableColumn,
    at_widths,
    bar,
    figure,
    folded,
    paragraph,
    table,
)

PICTURES_MAX: Final = 3
GROUP_STRANDS_MAX: Final = 24

GROUP_COLUMNS: Final = (
    *(
        TableColumn("group", number=False),
        TableColumn("view", number=False),
        TableColumn("installed", number=False),
    ),
    *(
        TableColumn("lasted"),
        TableColumn("members"),
        TableColumn("who", number=False),
        TableColumn("cause", number=False),
    ),
)

MOMENTS_MAX: Final = 40
SECTION: Final = ("membership", "Membership")
WORDS: Final = (
    "One strand for each daemon, in the colour of its site. Strands in one view run together in a band; they "
    "part at a split and join at a merge. A ring is the transitional signal, a cross the end of a daemon, a "
    "triangle its return."
)
COLUMNS: Final = (
    *(TableColumn("view", number=False), TableColumn("installed", number=False), TableColumn("at all within")),
    *(TableColumn("lasted"), TableColumn("closing"), TableColumn("members"), TableColumn("who", number=False)),
    TableColumn("cause", number=False),
)


def membership_section(
    gold: GoldTables, window: tuple[int, int] | None, site_class: dict[str, str]
) -> tuple[str, str, str, str]:
    """The section Membership: the braid of daemons, and the table of views."""
    stays = gold.membership
    if not stays or window is None:
        return *SECTION, "", paragraph("No views of daemons were recorded.", "empty")
    chosen, left_out = _chosen(stays)
    label = f"Membership of {texts.plural(len({stay.daemon for stay in chosen}), 'daemon')} over time"
    found = views(closed(stays, window[1]))
    label += f", {texts.plural(len(found), 'view')}; the table below has them all"
    picture = at_widths(lambda width: draw_braid(chosen, window, width, site_class, label), WIDTHS)
    if left_out:
        picture += paragraph(f"{texts.plural(left_out, 'more daemon')} left out of the picture.", "note")
    rows = [_row(one) for one in found]
    more = gold.left_out.get("membership", 0)
    return (
        *SECTION,
        WORDS,
        picture + folded("The same as a table", table("Views of daemons", COLUMNS, rows, more)),
    )


def window_us(stays: Sequence[StayRow]) -> tuple[int, int] | None:
    """The time from the first view to the last known event."""
    if not stays:
        return None
    times = [at for stay in stays for at in (stay.begin_us, stay.end_us, stay.signalled_us) if at is not None]
    return min(times), max(*times, min(times) + 1)


def moments(gold: GoldTables, window: tuple[int, int] | None) -> list[tuple[int, str]]:
    """The times at which the membership changed, for other plots; none if there are too many."""
    if not gold.membership or window is None:
        return []
    braid = lay_out(gold.membership, window[1], (window[1] - window[0]) // MOMENTS_MAX)
    found = [(behind.begin_us, what_changed(before, behind)) for before, behind in braid.knots if before]
    return found if len(found) < MOMENTS_MAX // 2 else []


def _chosen(stays: Sequence[StayRow]) -> tuple[list[StayRow], int]:
    daemons = sorted({stay.daemon for stay in stays})
    few = set(daemons[:STRANDS_MAX])
    return [stay for stay in stays if stay.daemon in few], len(daemons) - len(few)


def _row(one: ViewSummary) -> tuple[str, ...]:
    lasted = texts.span(one.end_us - one.first_us) + (", to the end" if one.lasts else "")
    return (
        f"{one.letter} ({one.name})",
        texts.moment(one.first_us, 3),
        texts.span(one.last_us - one.first_us),
        lasted,
        texts.some(one.closing_us, texts.span),
        texts.count(len(one.members)),
        texts.names(one.members),
        texts.short("; ".join(one.causes), 120),
    )


class GroupViewRow(msgspec.Struct, frozen=True, order=True):
    """A row of the table of group views: a view, from the stays of all its sessions."""

    group: str
    begin_us: int
    view: str
    end_us: int | None
    members: tuple[str, ...]
    cause: str


def group_views(stays: Sequence[GroupStayRow]) -> list[GroupViewRow]:
    """Each group view once, from the first session that installed it to the last that left it."""
    found: dict[tuple[str, str], list[GroupStayRow]] = {}
    for stay in stays:
        found.setdefault((stay.group, stay.view), []).append(stay)
    out = []
    for (group, view), them in found.items():
        ends = [stay.end_us for stay in them]
        end_us = None if any(end is None for end in ends) else max(end for end in ends if end is not None)
        first = min(them, key=lambda stay: (stay.begin_us, stay.session))
        out.append(GroupViewRow(group, first.begin_us, view, end_us, first.members, first.cause))
    return sorted(out)


def group_table(stays: Sequence[GroupStayRow], end_us: int, more: int = 0) -> str:
    """The table of all group views, by group and time."""
    found = group_views(stays)
    most = max([len(one.members) for one in found], default=1)
    rows: list[tuple[Cell, ...]] = [
        (
            *(texts.short(one.group), texts.group_view(one.view), texts.moment(one.begin_us, 3)),
            _lasted(one, end_us),
            bar(len(one.members) / max(most, 1), texts.count(len(one.members))),
            *(texts.names([texts.process(name) for name in one.members], 8), texts.short(one.cause)),
        )
        for one in found
    ]
    return table("Views of groups", GROUP_COLUMNS, rows, more)


def _lasted(one: GroupViewRow, end_us: int) -> str:
    if one.end_us is None:
        return f"{texts.span(max(end_us - one.begin_us, 0))}, to the end"
    return texts.span(one.end_us - one.begin_us)


def groups_section(
    gold: GoldTables, window: tuple[int, int] | None, site_class: dict[str, str]
) -> tuple[str, str, str, str] | None:
    """The section Groups; None if there is no such table."""
    if gold.group_views is None:
        return None
    if not gold.group_views:
        return "groups", "Groups", "", paragraph("No views of groups were recorded.", "empty")
    window = window or groups_window_us(gold.group_views)
    found = len({stay.group for stay in gold.group_views})
    caption = (
        f"Views of {texts.plural(found, 'group')}, as their members were shown them: a strand for each member."
    )
    listed = group_table(gold.group_views, window[1], gold.left_out.get("group_views", 0))
    pictures = braids(gold.group_views, window, site_class)
    return "groups", "Groups", caption, pictures + folded("The same as a table", listed)


def groups_window_us(stays: Sequence[GroupStayRow]) -> tuple[int, int]:
    """The time from the first view to the last known end."""
    times = [at for stay in stays for at in (stay.begin_us, stay.end_us) if at is not None]
    return min(times), max(*times, min(times) + 1)


def braids(stays: Sequence[GroupStayRow], window: tuple[int, int], site_class: dict[str, str]) -> str:
    """The braids of the groups with most members, with a strand for each session."""
    # Stays outside the window are left out: a wrong clock would compress all others.
    inside = [stay for stay in stays if window[0] <= stay.begin_us <= window[1]]
    members: dict[str, set[str]] = {}
    for stay in inside:
        members.setdefault(stay.group, set()).add(stay.session)
    order = sorted(members, key=lambda group: (-len(members[group]), group))
    parts = []
    for group in order[:PICTURES_MAX]:
        shown = set(sorted(members[group])[:GROUP_STRANDS_MAX])
        them = [_as_stay(stay) for stay in inside if stay.group == group and stay.session in shown]
        classes = {stay.daemon: _class(stay.daemon, site_class) for stay in them}
        label = f"Views of the group {texts.short(group)} over time; the table below has them all"
        draw = partial(draw_braid, them, window, site_class=classes, label=label)
        left_out = len(members[group]) - len(shown)
        note = f"{texts.plural(left_out, 'more member')} left out of the picture." if left_out else ""
        parts.append(figure(texts.short(group), note, at_widths(draw, WIDTHS)))
    more = len(order) - PICTURES_MAX
    note = paragraph(f"{texts.plural(more, 'more group')} in the table only.", "note") if more > 0 else ""
    if len(inside) < len(stays):
        away = len(stays) - len(inside)
        note += paragraph(
            f"{texts.plural(away, 'stay')} outside the time of this page in the table only.", "note"
        )
    return "".join(parts) + note


def _as_stay(stay: GroupStayRow) -> StayRow:
    members = tuple([texts.process(one) for one in stay.members])
    session = texts.process(stay.session)
    return StayRow(session, stay.begin_us, stay.view, stay.end_us, members, (), stay.cause)


def _class(session: str, site_class: dict[str, str]) -> str:
    """The style class of a session's daemon: sessions are `daemon/number` or `#name#daemon`, spools a site."""
    for daemon in (session.rpartition("/")[0], session.rpartition("#")[2]):
        if daemon in site_class:
            return site_class[daemon]
    same = [colour for daemon, colour in sorted(site_class.items()) if daemon.rstrip("0123456789") == session]
    return same[0] if same else "site7"
