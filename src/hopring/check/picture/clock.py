"""The place of a moment on the page.

Time goes from left to right. If there is room, it is not to scale, in two ways. What one lane does in one
moment is pulled apart, in its order: a signal, deliveries and a view often come at once, and their order is
what matters. And of the times between marks the root is taken: a message takes milliseconds, and it takes a
second to see a cut.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

STRETCH = 0.5
STEPS_PX = (20.0, 16.0, 12.0, 8.0)
"""How far the marks of a lane are pulled apart: the first that leaves enough room for time itself."""
PULLED_SHARE_MAX = 0.7
FLIGHT_PX = 6.0
ROUNDS = 40


@dataclass(frozen=True, slots=True)
class Spot:
    """A mark as the clock sees it."""

    at_us: int
    lane: int
    after: int | None = None  # The spot of the send, for a delivery: no arrow points to the left.


@dataclass(slots=True)
class Clock:
    """The places of spots, and of moments between them, from 0 to the width."""

    places: list[float]
    step_px: float  # 0 if nothing is pulled apart, and time is to scale.
    _times: list[int] = field(default_factory=list)
    _begins: list[float] = field(default_factory=list)

    def x(self, at_us: int) -> float:
        """The place of a moment in the window."""
        at = min(max(bisect_right(self._times, at_us) - 1, 0), len(self._times) - 2)
        begin_us, end_us = self._times[at : at + 2]
        begin, end = self._begins[at : at + 2]
        share = (at_us - begin_us) / (end_us - begin_us)
        return begin + (end - begin) * min(max(share, 0.0), 1.0)


def make_clock(spots: Sequence[Spot], from_us: int, to_us: int, width_px: float) -> Clock:
    """A clock for these spots, which lie between the two times and in their order."""
    assert from_us < to_us, "a window has a length"
    times = sorted({from_us, to_us, *[spot.at_us for spot in spots]})
    gaps = [float(later - earlier) for earlier, later in pairwise(times)]
    stretched = _Layout(spots, times, [gap**STRETCH for gap in gaps])
    for step_px in STEPS_PX:
        if stretched.lay_out(0.0, step_px) <= PULLED_SHARE_MAX * width_px:
            return _fitted(stretched, step_px, width_px)
    return _fitted(_Layout(spots, times, gaps), 0.0, width_px)


def _fitted(layout: "_Layout", step_px: float, width_px: float) -> Clock:
    """As wide as it should be, by halving: pulling apart takes an unknown part of the width."""
    low, high = 0.0, width_px / sum(layout.gaps)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if layout.lay_out(middle, step_px) <= width_px:
            low = middle
        else:
            high = middle
    layout.lay_out(low, step_px)
    return Clock(layout.places, step_px, layout.times, layout.begins)


@dataclass(slots=True)
class _Layout:
    spots: Sequence[Spot]
    times: list[int]
    gaps: list[float]
    places: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)

    def lay_out(self, px_per_us: float, step_px: float) -> float:
        """Puts everything at its place and returns the width of it all."""
        self.places, self.begins = [], []
        last: dict[int, float] = {}
        begin, at, furthest = 0.0, 0, 0.0
        for number, time_us in enumerate(self.times):
            begin += px_per_us * self.gaps[number - 1] if number else 0.0
            first = at
            while at < len(self.spots) and self.spots[at].at_us == time_us:
                at += 1
            begin = self._earliest(range(first, at), begin, step_px, last)
            for spot in self.spots[first:at]:
                place = max(begin, last.get(spot.lane, begin - step_px) + step_px)
                if spot.after is not None and step_px and spot.after >= first:
                    place = max(place, self.places[spot.after] + FLIGHT_PX)
                last[spot.lane] = place
                self.places.append(place)
                furthest = max(furthest, place)
            self.begins.append(begin)
        return max(begin, furthest)

    def _earliest(self, spots: range, begin: float, step_px: float, last: dict[int, float]) -> float:
        """Where a moment may begin: behind what its lanes did before, and behind what it receives."""
        if not step_px:
            return begin
        for at in spots:
            spot = self.spots[at]
            begin = max(begin, last.get(spot.lane, -step_px) + step_px)
            if spot.after is not None and spot.after < spots.start:
                begin = max(begin, self.places[spot.after] + FLIGHT_PX)
        return begin
