"""Processes on their way over the page: how long each lived, and in which views."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.picture.marks import AnyView, Kind, Mark
from hopring.check.trace import Process

ENDS: Final = (Kind.CRASH, Kind.GONE, Kind.LOST)


@dataclass(frozen=True, slots=True)
class Shown:
    """A mark at its place; at 0 if it was before the window."""

    mark: Mark
    lane: int
    x: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """A lane in a view."""

    lane: int
    view: AnyView
    begin: float
    signal: float | None  # From here on the view is closing.
    end: float


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """A process on its lane."""

    lane: int
    begin: float
    end: float


def walk(marks: Iterable[Shown], width_px: float) -> tuple[list[Stretch], list[Life]]:
    """What of all this is on the page. Who has not ended goes on to the right end."""
    way = _Way()
    for shown in marks:
        way.go(shown)
    for walker in list(way.there.values()):
        way.end(walker, width_px)
    # Whoever ended before the window, and what was over by then, is not on the page.
    return [one for one in way.stretches if one.end > 0.0], sorted(one for one in way.lives if one.end > 0.0)


@dataclass(slots=True)
class _Walker:
    lane: int
    begin: float
    view: AnyView | None = None
    since: float = 0.0
    signal: float | None = None


@dataclass(slots=True)
class _Way:
    there: dict[Process, _Walker] = field(default_factory=dict)
    stretches: list[Stretch] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)

    def go(self, shown: Shown) -> None:
        mark = shown.mark
        walker = self.there.setdefault(mark.process, _Walker(shown.lane, shown.x))
        if mark.kind is Kind.VIEW:
            self._close(walker, shown.x)
            walker.view, walker.since = mark.view, shown.x
        elif mark.kind is Kind.SIGNAL:
            walker.signal = shown.x
        elif mark.kind is Kind.LEFT:
            self._close(walker, shown.x)
        elif mark.kind in ENDS:
            self.end(self.there.pop(mark.process), shown.x)

    def end(self, walker: _Walker, x: float) -> None:
        self._close(walker, x)
        self.lives.append(Life(walker.lane, walker.begin, x))

    def _close(self, walker: _Walker, x: float) -> None:
        if walker.view is not None:
            self.stretches.append(Stretch(walker.lane, walker.view, walker.since, walker.signal, x))
        walker.view, walker.signal = None, None
