"""The course of a strand over the page: straight in an epoch, an even curve at each knot. Pure."""

from bisect import bisect_right
from typing import Final

from hopring.spark.report.braid import Braid, Epoch
from hopring.spark.report.scales import Linear
from hopring.value import Value

KNOT_PX: Final = 34.0
HOME_PX: Final = 44.0  # From the names to the first view.
ROUNDS: Final = 24

Step = tuple[str, tuple[float, ...]]
"""A letter of a path with its numbers."""


class Knot(Value, frozen=True):
    """A change on the page: its middle, and how far it reaches to both sides."""

    x: float
    half: float


class Course(Value, frozen=True):
    """Where strands are."""

    braid: Braid
    knots: tuple[Knot, ...]  # One where each epoch begins.
    left: float
    right: float

    def piece(self, daemon: str, first: int, last: int) -> list[Step]:
        """The strand from the middle of the first epoch's knot to that of the knot behind the last one."""
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
        """From where it was before, its name or the place where it was lost, into the first epoch's knot."""
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
        """The height of a strand; that of the nearest epoch where it has none."""
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
        """The last epoch before this one in which it has a place."""
        return next((n for n in range(at - 1, -1, -1) if daemon in self.braid.epochs[n].places), None)

    def _before(self, daemon: str, at: int) -> float:
        last = self._last(daemon, at)
        return self.braid.home[daemon] if last is None else self._place(daemon, last)


def course(braid: Braid, scale: Linear, left: float, right: float) -> Course:
    """Knots where epochs begin, none of which reaches into another."""
    xs = [scale.at(epoch.begin_us) for epoch in braid.epochs]
    knots: list[Knot] = []
    for at, x in enumerate(xs):
        room_before = (x - xs[at - 1]) / 2 if at else x - left
        room_behind = (xs[at + 1] - x) / 2 if at + 1 < len(xs) else right - x
        if at == 0 and x - left <= HOME_PX + 1:
            knots.append(Knot((left + x) / 2, (x - left) / 2))  # All of the way from the names.
        else:
            knots.append(Knot(x, max(min(KNOT_PX / 2, room_before, room_behind), 0.5)))
    return Course(braid, tuple(knots), left, right)


def half_out(knot: Knot, y: float, behind: float) -> Step:
    """The first half of the curve, from the height before to the middle."""
    middle = (y + behind) / 2
    x, half = knot.x, knot.half
    return "C", (x - half / 2, y, x - half / 4, (y + middle) / 2, x, middle)


def half_in(knot: Knot, before: float, y: float) -> Step:
    """The second half."""
    middle = (before + y) / 2
    x, half = knot.x, knot.half
    return "C", (x + half / 4, (middle + y) / 2, x + half / 2, y, x + half, y)


def _eased(part: float) -> float:
    """How far up the curve is, at a part of its width: its x is a cubic too, so it is found by halving."""
    if part <= 0 or part >= 1:
        return 0.0 if part <= 0 else 1.0
    low, high = 0.0, 1.0
    for _ in range(ROUNDS):
        s = (low + high) / 2
        low, high = (s, high) if 1.5 * s * (1 - s) + s**3 < part else (low, s)
    return 3 * low**2 - 2 * low**3


def views_of(braid: Braid, daemon: str) -> list[tuple[str, int, int]]:
    """The views that a daemon is in, each with its first and last epoch."""
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
    """The view that a daemon is in."""
    return next((bundle.view for bundle in epoch.bundles if daemon in bundle.daemons), None)
