"""The geometry of a braid: the course of each daemon's strand as views split and merge. Pure.

Below       stays of daemons in views, in any order.
Above       `braid_chart`, which draws it.
Invariants  strands of one view are adjacent, with a gap to those of another; between two knots nothing moves;
            a daemon has one height in each epoch in which it is in a view, and none in others.
Order       each split refines the order of daemons, the longest one first, so that few strands cross.
            Where two splits contradict each other, strands cross at the shorter one.
Deviation   changes within `knot_us` of each other are one knot: daemons install a view within milliseconds, and
            a page has a thousand pixels. A view that existed only inside a knot has no epoch.
"""

from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby, pairwise
from math import sqrt
from typing import Final

import msgspec

from hopring.spark.report.gold import StayRow
from hopring.spark.report.scales import LinearScale

KNOT_PX: Final = 34.0
HOME_PX: Final = 44.0  # From the names to the first view.
ROUNDS: Final = 24

Present = dict[str, str]
"""The view of each daemon that is in one."""

Parts = Sequence[tuple[str, ...]]

Step = tuple[str, tuple[float, ...]]
"""A command of an SVG path with its numbers."""


class StayEnd(StrEnum):
    """How a stay in a view ended."""

    MOVED = "moved"  # The daemon installed another view.
    STOPPED = "stopped"  # At a time that the trace has.
    LOST = "lost"  # Not in the trace: the other members installed another view without it.
    LASTS = "lasts"


class Spacing(msgspec.Struct, frozen=True):
    """The distances between strands, in pixels."""

    strand: float = 11.0
    gap: float = 72.0  # Between two views; less if there are more of them.
    home: float = 17.0  # Between the names on the left.

    def between(self, parts: int) -> float:
        """The gap between this many views; the sum of all gaps grows with the root of their number."""
        return max(self.gap / sqrt(max(parts - 1, 1)), 2 * self.strand)


class ViewBand(msgspec.Struct, frozen=True):
    """A view in an epoch, with its daemons at that time from top to bottom."""

    view: str
    daemons: tuple[str, ...]


class Epoch(msgspec.Struct, frozen=True):
    """The time from one knot to the next, with the height of each daemon."""

    begin_us: int
    end_us: int
    bundles: tuple[ViewBand, ...]
    places: dict[str, float]  # By daemon.


class Leg(msgspec.Struct, frozen=True):
    """A stay with its end, which is inferred if the table does not have it."""

    stay: StayRow
    end_us: int
    end: StayEnd


class Braid(msgspec.Struct, frozen=True):
    """The layout of all strands."""

    daemons: tuple[str, ...]  # From top to bottom, as their names are listed on the left.
    home: dict[str, float]
    epochs: tuple[Epoch, ...]
    legs: tuple[Leg, ...]
    height: float

    @property
    def knots(self) -> tuple[tuple[Epoch | None, Epoch], ...]:
        """The epochs before and after each knot."""
        return ((None, self.epochs[0]), *pairwise(self.epochs)) if self.epochs else ()


def lay_out(stays: Sequence[StayRow], end_us: int, knot_us: int, spacing: Spacing | None = None) -> Braid:
    """Lays out the braid of these stays, up to the end of the page."""
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


def closed(stays: Sequence[StayRow], end_us: int) -> list[Leg]:
    """Every stay with an end; without one in the table, it ends when the first other member leaves the view."""
    left_us: dict[str, int] = {}  # By view, the time at which its first member installed another one.
    ordered = sorted(stays)
    for _, some in groupby(ordered, lambda stay: stay.daemon):
        for one, later in pairwise(some):
            left_us[one.view] = min(left_us.get(one.view, later.begin_us), later.begin_us)
    legs = []
    for at, stay in enumerate(ordered):
        follows = ordered[at + 1] if at + 1 < len(ordered) and ordered[at + 1].daemon == stay.daemon else None
        legs.append(_closed(stay, follows, left_us.get(stay.view), end_us))
    return legs


def _closed(stay: StayRow, follows: StayRow | None, left_us: int | None, end_us: int) -> Leg:
    if stay.end_us is not None:
        if follows is not None and follows.begin_us <= stay.end_us:
            return Leg(stay, follows.begin_us, StayEnd.MOVED)
        return Leg(stay, max(stay.end_us, stay.begin_us), StayEnd.STOPPED)
    if follows is None and left_us is None:
        return Leg(stay, end_us, StayEnd.LASTS)
    if follows is not None and (left_us is None or left_us >= follows.begin_us):
        return Leg(stay, follows.begin_us, StayEnd.MOVED)
    assert left_us is not None, "one of the cases above"
    return Leg(stay, max(left_us, stay.begin_us), StayEnd.LOST)


def _epochs(legs: Sequence[Leg], end_us: int, knot_us: int) -> list[tuple[int, int, Present]]:
    """The views of daemons between knots. A knot includes all changes up to `knot_us` after its first."""
    changes: list[tuple[int, bool, str, str]] = []
    for leg in legs:
        changes.append((leg.stay.begin_us, True, leg.stay.daemon, leg.stay.view))
        if leg.end in (StayEnd.STOPPED, StayEnd.LOST):
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
    """The daemons of each view, sorted by name."""
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
    """An epoch with its views from top to bottom by the order of their daemons, centred vertically."""
    parts = [tuple(sorted(part, key=order.__getitem__)) for part in _parts(present)]
    parts.sort(key=lambda part: (sum(order[one] for one in part) / len(part), order[part[0]]))
    y = (height - _height(parts, spacing)) / 2
    places = {}
    for part in parts:
        for daemon in part:
            places[daemon] = y
            y += spacing.strand
        y += spacing.between(len(parts)) - spacing.strand
    bundles = tuple([ViewBand(present[part[0]], part) for part in parts])
    return Epoch(begin_us, end_us, bundles, places)


def ranks(daemons: Sequence[str], partitions: Sequence[tuple[int, Parts]]) -> dict[str, int]:
    """The rank of each daemon from 0; each partition comes with its duration."""
    lasted: dict[frozenset[tuple[str, ...]], int] = {}
    for span_us, parts in partitions:
        key = frozenset(tuple(sorted(part)) for part in parts)
        lasted[key] = lasted.get(key, 0) + span_us
    blocks = [list(daemons)] if daemons else []
    for key in sorted(lasted, key=lambda one: (-lasted[one], sorted(one))):
        if len(key) > 1:
            blocks = _refined(blocks, {daemon: part for part in key for daemon in part})
    return {daemon: at for at, daemon in enumerate([one for block in blocks for one in block])}


def _refined(blocks: list[list[str]], part_of: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """Splits each block by a partition; a piece that continues in a neighbouring block goes to that side."""
    out: list[list[str]] = []
    for at, block in enumerate(blocks):
        pieces: dict[tuple[str, ...], list[str]] = {}
        part = next((part_of[daemon] for daemon in block if daemon in part_of), ())
        for daemon in block:
            part = part_of.get(daemon, part)  # A daemon outside the partition stays beside the one before it.
            pieces.setdefault(part, []).append(daemon)
        before = {part_of[daemon] for daemon in out[-1] if daemon in part_of} if out else set()
        behind = {part_of[daemon] for later in blocks[at + 1 :] for daemon in later if daemon in part_of}
        keyed = [
            (_block_side(part, before, behind), number, them)
            for number, (part, them) in enumerate(pieces.items())
        ]
        out += [them for _, _, them in sorted(keyed)]
    return out


def _block_side(part: tuple[str, ...], before: set[tuple[str, ...]], behind: set[tuple[str, ...]]) -> int:
    return 0 if part in before else 2 if part in behind else 1


class Knot(msgspec.Struct, frozen=True):
    """A change on the page: its centre, and half of its width."""

    x: float
    half: float


class StrandCourse(msgspec.Struct, frozen=True):
    """The course of all strands over the page: straight in an epoch, a smooth curve at each knot."""

    braid: Braid
    knots: tuple[Knot, ...]  # One at the start of each epoch.
    left: float
    right: float

    def piece(self, daemon: str, first: int, last: int) -> list[Step]:
        """The strand from the centre of the first epoch's knot to that of the knot after the last epoch."""
        y = self._place(daemon, first)
        before = self._before(daemon, first)
        knot = self.knots[first]
        steps: list[Step] = [("M", (knot.x, (before + y) / 2))]
        for at in range(first, last + 1):
            y = self._place(daemon, at)
            steps += [half_in(self.knots[at], before, y)]
            if at + 1 == len(self.knots):
                return [*steps, ("H", (self.right,))]
            behind = self.braid.epochs[at + 1].places.get(daemon)
            knot = self.knots[at + 1]
            if behind is None:
                return [*steps, ("H", (knot.x,))]
            steps += [("H", (knot.x - knot.half,)), half_out(knot, y, behind)]
            before = y
        return steps

    def way_to(self, daemon: str, first: int) -> list[Step]:
        """The line from the daemon's name, or from where it was lost, into the first epoch's knot."""
        last = self._last(daemon, first)
        y = self._before(daemon, first)
        begin = self.left if last is None else self.knots[last + 1].x
        knot = self.knots[first]
        return [
            ("M", (begin, y)),
            ("H", (max(begin, knot.x - knot.half),)),
            half_out(knot, y, self._place(daemon, first)),
        ]

    def y_at(self, daemon: str, x: float) -> float:
        """The height of a strand at this x; if it has none there, that of the nearest epoch."""
        at = max(bisect_right([knot.x for knot in self.knots], x) - 1, 0)
        near = self.knots[at]
        if at + 1 < len(self.knots) and x > self.knots[at + 1].x - self.knots[at + 1].half:
            at, near = at + 1, self.knots[at + 1]
        behind = self.braid.epochs[at].places.get(daemon)
        before = self._before(daemon, at)
        if behind is None:
            return before
        return before + (behind - before) * _eased((x - near.x + near.half) / (2 * near.half or 1.0))

    def _place(self, daemon: str, at: int) -> float:
        return self.braid.epochs[at].places[daemon]

    def _last(self, daemon: str, at: int) -> int | None:
        """The last epoch before this one in which the daemon was in a view."""
        return next((n for n in range(at - 1, -1, -1) if daemon in self.braid.epochs[n].places), None)

    def _before(self, daemon: str, at: int) -> float:
        last = self._last(daemon, at)
        return self.braid.home[daemon] if last is None else self._place(daemon, last)


def course(braid: Braid, scale: LinearScale, left: float, right: float) -> StrandCourse:
    """The course of a braid, with a knot at the start of each epoch; knots do not overlap."""
    xs = [scale.at(epoch.begin_us) for epoch in braid.epochs]
    knots: list[Knot] = []
    for at, x in enumerate(xs):
        room_before = (x - xs[at - 1]) / 2 if at else x - left
        room_behind = (xs[at + 1] - x) / 2 if at + 1 < len(xs) else right - x
        if at == 0 and x - left <= HOME_PX + 1:
            knots.append(Knot((left + x) / 2, (x - left) / 2))  # The whole distance from the names.
        else:
            knots.append(Knot(x, max(min(KNOT_PX / 2, room_before, room_behind), 0.5)))
    return StrandCourse(braid, tuple(knots), left, right)


def half_out(knot: Knot, y: float, behind: float) -> Step:
    """The first half of a knot's curve, from the height before it to the centre."""
    middle = (y + behind) / 2
    x, half = knot.x, knot.half
    return "C", (x - half / 2, y, x - half / 4, (y + middle) / 2, x, middle)


def half_in(knot: Knot, before: float, y: float) -> Step:
    """The second half of a knot's curve, from the centre to the height after it."""
    middle = (before + y) / 2
    x, half = knot.x, knot.half
    return "C", (x + half / 4, (middle + y) / 2, x + half / 2, y, x + half, y)


def _eased(part: float) -> float:
    """The height of the curve at a part of its width, found by bisection because x is a cubic as well."""
    if part <= 0 or part >= 1:
        return 0.0 if part <= 0 else 1.0
    low, high = 0.0, 1.0
    for _ in range(ROUNDS):
        s = (low + high) / 2
        low, high = (s, high) if 1.5 * s * (1 - s) + s**3 < part else (low, s)
    return 3 * low**2 - 2 * low**3


def views_of(braid: Braid, daemon: str) -> list[tuple[str, int, int]]:
    """The views of a daemon, each with its first and last epoch."""
    found: list[tuple[str, int, int]] = []
    for at, epoch in enumerate(braid.epochs):
        view = view_in(epoch, daemon)
        if view is None:
            continue
        if found and found[-1][0] == view and found[-1][2] == at - 1:
            found[-1] = (view, found[-1][1], at)
        else:
            found.append((view, at, at))
    return found


def view_in(epoch: Epoch, daemon: str) -> str | None:
    """The view of a daemon in an epoch, if it has one."""
    return next((bundle.view for bundle in epoch.bundles if daemon in bundle.daemons), None)
