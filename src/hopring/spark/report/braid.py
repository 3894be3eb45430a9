"""The braid: where each daemon's strand runs while views part and come together. Pure.

Below       stays of daemons in views, in any order.
Above       `braid_picture`, which draws it.
Invariants  strands of one view lie beside each other, with a gap to those of another; between two knots
            nothing moves; a daemon has one place in each epoch in which it is in a view, and none in others.
Deviation   changes that come within `knot_us` of each other are one knot: daemons install a view within
            milliseconds, and a page has a thousand pixels. A view that lived only inside a knot has no epoch.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby, pairwise
from math import sqrt

from hopring.spark.report.braid_order import ranks
from hopring.spark.report.rows import Stay
from hopring.value import Value


class End(StrEnum):
    """How a stay ended."""

    MOVED = "moved"  # To the next view.
    STOPPED = "stopped"  # The trace says when.
    LOST = "lost"  # In silence: the others went on without it.
    LASTS = "lasts"


class Spacing(Value, frozen=True):
    """Distances between strands, in pixels."""

    strand: float = 11.0
    gap: float = 72.0  # Between two views; less where there are more of them.
    home: float = 17.0  # Where names stand, before the first view.

    def between(self, parts: int) -> float:
        """The gap between so many views: their whole grows with the root of their number."""
        return max(self.gap / sqrt(max(parts - 1, 1)), 2 * self.strand)


class Bundle(Value, frozen=True):
    """A view in an epoch, with those that are in it by then, from top to bottom."""

    view: str
    daemons: tuple[str, ...]


class Epoch(Value, frozen=True):
    """The time from one knot to the next."""

    begin_us: int
    end_us: int
    bundles: tuple[Bundle, ...]
    places: dict[str, float]  # By daemon.


class Leg(Value, frozen=True):
    """A stay with its end, whether or not the table knew it."""

    stay: Stay
    end_us: int
    end: End


class Braid(Value, frozen=True):
    """All strands."""

    daemons: tuple[str, ...]  # From top to bottom, where they stand before the first view.
    home: dict[str, float]
    epochs: tuple[Epoch, ...]
    legs: tuple[Leg, ...]
    height: float

    @property
    def knots(self) -> tuple[tuple[Epoch | None, Epoch], ...]:
        """What is before and behind each knot."""
        return ((None, self.epochs[0]), *pairwise(self.epochs)) if self.epochs else ()


def lay_out(stays: Sequence[Stay], end_us: int, knot_us: int, spacing: Spacing | None = None) -> Braid:
    """The braid of these stays, up to the end of the page."""
    spacing = spacing or Spacing()
    legs = tuple(sorted(closed(stays, end_us), key=lambda leg: leg.stay))
    found = _epochs(legs, end_us, knot_us)
    order = ranks(
        sorted({leg.stay.daemon for leg in legs}), [(end - begin, _parts(them)) for begin, end, them in found]
    )
    heights = [_height(_parts(them), spacing) for _, _, them in found]
    height = max([spacing.home * max(len(order) - 1, 0), *heights])
    epochs = [_epoch(begin, end, them, order, spacing, height) for begin, end, them in found]
    by_rank = sorted(order, key=order.__getitem__)
    top = (height - spacing.home * (len(by_rank) - 1)) / 2
    home = {daemon: top + spacing.home * at for at, daemon in enumerate(by_rank)}
    return Braid(tuple(by_rank), home, tuple(epochs), legs, height)


def closed(stays: Sequence[Stay], end_us: int) -> list[Leg]:
    """Every stay with an end. Of one that has none, and whose fellows went on, the end is when they did."""
    left_us: dict[str, int] = {}  # By view: when the first of its members went on to another.
    ordered = sorted(stays)
    for _, some in groupby(ordered, lambda stay: stay.daemon):
        for one, later in pairwise(some):
            left_us[one.view] = min(left_us.get(one.view, later.begin_us), later.begin_us)
    legs = []
    for at, stay in enumerate(ordered):
        follows = ordered[at + 1] if at + 1 < len(ordered) and ordered[at + 1].daemon == stay.daemon else None
        legs.append(_closed(stay, follows, left_us.get(stay.view), end_us))
    return legs


def _closed(stay: Stay, follows: Stay | None, left_us: int | None, end_us: int) -> Leg:
    if stay.end_us is not None:
        if follows is not None and follows.begin_us <= stay.end_us:
            return Leg(stay, follows.begin_us, End.MOVED)
        return Leg(stay, max(stay.end_us, stay.begin_us), End.STOPPED)
    if follows is None and left_us is None:
        return Leg(stay, end_us, End.LASTS)
    if follows is not None and (left_us is None or left_us >= follows.begin_us):
        return Leg(stay, follows.begin_us, End.MOVED)
    assert left_us is not None, "one of the cases above"
    return Leg(stay, max(left_us, stay.begin_us), End.LOST)


Present = dict[str, str]
"""Who is there, and in which view."""


def _epochs(legs: Sequence[Leg], end_us: int, knot_us: int) -> list[tuple[int, int, Present]]:
    """Who is where between knots. A knot takes in all changes up to `knot_us` after its first."""
    changes: list[tuple[int, bool, str, str]] = []
    for leg in legs:
        changes.append((leg.stay.begin_us, True, leg.stay.daemon, leg.stay.view))
        if leg.end in (End.STOPPED, End.LOST):
            changes.append((leg.end_us, False, leg.stay.daemon, leg.stay.view))
    changes.sort()
    found: list[tuple[int, Present]] = []
    present: Present = {}
    knot_ends_us = -1
    for at_us, comes, daemon, view in changes:
        if not found or at_us > knot_ends_us:
            found.append((at_us, present))
            knot_ends_us = at_us + knot_us
        present = dict(present)
        if comes:
            present[daemon] = view
        elif present.get(daemon) == view:
            del present[daemon]
        found[-1] = (found[-1][0], present)
    starts = [at_us for at_us, _ in found] + [max(end_us, changes[-1][0] if changes else end_us)]
    return [(at_us, starts[number + 1], them) for number, (at_us, them) in enumerate(found)]


def _parts(present: Present) -> list[tuple[str, ...]]:
    """The daemons of each view, in the order of their names."""
    by_view: dict[str, list[str]] = {}
    for daemon in sorted(present):
        by_view.setdefault(present[daemon], []).append(daemon)
    return [tuple(them) for them in by_view.values()]


def _height(parts: Sequence[Sequence[str]], spacing: Spacing) -> float:
    gaps = spacing.between(len(parts)) * max(len(parts) - 1, 0)
    return sum(spacing.strand * (len(part) - 1) for part in parts) + gaps


def _epoch(
    begin_us: int, end_us: int, present: Present, order: dict[str, int], spacing: Spacing, height: float
) -> Epoch:
    """Views from top to bottom as their daemons stand in the order, in the middle of the height."""
    parts = [tuple(sorted(part, key=order.__getitem__)) for part in _parts(present)]
    parts.sort(key=lambda part: (sum(order[one] for one in part) / len(part), order[part[0]]))
    y = (height - _height(parts, spacing)) / 2
    places = {}
    for part in parts:
        for daemon in part:
            places[daemon] = y
            y += spacing.strand
        y += spacing.between(len(parts)) - spacing.strand
    bundles = tuple([Bundle(present[part[0]], part) for part in parts])
    return Epoch(begin_us, end_us, bundles, places)
