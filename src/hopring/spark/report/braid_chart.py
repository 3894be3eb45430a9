"""Draws a braid: bands of views, strands of daemons, labels of knots, and marks of signals and ends. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import msgspec

from hopring.check.picture.drawing import cross, letter, triangle
from hopring.check.picture.svg import Attributes, element, line, path, text, tip, view_class
from hopring.spark.report import texts
from hopring.spark.report.braid import (
    HOME_PX,
    KNOT_PX,
    Braid,
    Epoch,
    Leg,
    Spacing,
    StayEnd,
    Step,
    StrandCourse,
    course,
    lay_out,
    views_of,
)
from hopring.spark.report.gold import StayRow
from hopring.spark.report.html import svg
from hopring.spark.report.scales import LinearScale, time_axis

LABEL_LETTER_PX: Final = 6.6
GAP_PX: Final = 10.0
TIME_LETTERS: Final = 8

FIRST: Final = ("split", "merge")

TOP_PX: Final = 62.0
BOTTOM_PX: Final = 40.0
RIGHT_PX: Final = 14.0
BAND_PX: Final = 9.0  # Beyond the outer strands.
LETTER_PX: Final = 6.3
STRANDS_MAX: Final = 48
PIECES_MAX: Final = 900
"""Limit for strands times knots: with more daemons, knots are further apart."""


class ViewSummary(msgspec.Struct, frozen=True):
    """A view, summarized from the stays of all its daemons."""

    view: str
    letter: str
    number: int
    name: str
    members: tuple[str, ...]
    causes: tuple[str, ...]
    first_us: int  # The first daemon installed it.
    last_us: int  # The last daemon installed it.
    end_us: int  # The last daemon left it.
    lasts: bool
    closing_us: int | None  # The longest time from the transitional signal to the end.


def views(legs: Iterable[Leg]) -> list[ViewSummary]:
    """All views in order of their first installation."""
    by_view = {
        view: list(them) for view, them in groupby(sorted(legs, key=lambda leg: leg.stay.view), _view_of_leg)
    }
    order = sorted(by_view, key=lambda view: (min(leg.stay.begin_us for leg in by_view[view]), view))
    return [_summaries(number, view, by_view[view]) for number, view in enumerate(order)]


def _view_of_leg(leg: Leg) -> str:
    return leg.stay.view


def _summaries(number: int, view: str, legs: list[Leg]) -> ViewSummary:
    closing = [leg.end_us - leg.stay.signalled_us for leg in legs if leg.stay.signalled_us is not None]
    causes = Counter([leg.stay.cause for leg in legs if leg.stay.cause])
    return ViewSummary(
        view,
        letter(number),
        number,
        texts.view(view),
        tuple(sorted({one for leg in legs for one in leg.stay.members} or {leg.stay.daemon for leg in legs})),
        tuple(sorted(causes, key=lambda cause: (-causes[cause], cause))),
        min(leg.stay.begin_us for leg in legs),
        max(leg.stay.begin_us for leg in legs),
        max(leg.end_us for leg in legs),
        any(leg.end == "lasts" for leg in legs),
        max(closing, default=None),
    )


def view_text(view: ViewSummary) -> str:
    """The tooltip of a view, in one line."""
    parts = [
        f"View {view.letter} ({view.name})",
        f"{texts.plural(len(view.members), 'member')}: {texts.names(view.members)}",
        f"{texts.span(view.end_us - view.first_us)}" + (", to the end" if view.lasts else ""),
    ]
    parts += [f"cause: {texts.short(view.causes[0], 90)}"] if view.causes else []
    parts += [f"closing for {texts.span(view.closing_us)}"] if view.closing_us is not None else []
    return " · ".join(parts)


def what_changed(before: Epoch | None, behind: Epoch) -> str:
    """The change between two epochs in a few words."""
    if before is None:
        return "start"
    now = {daemon: bundle.view for bundle in behind.bundles for daemon in bundle.daemons}
    then = {daemon: bundle.view for bundle in before.bundles for daemon in bundle.daemons}
    changes = []
    if any(len({now[one] for one in bundle.daemons if one in now}) > 1 for bundle in before.bundles):
        changes.append("split")
    if any(len({then[one] for one in bundle.daemons if one in then}) > 1 for bundle in behind.bundles):
        changes.append("merge")
    changes += _who(sorted(set(then) - set(now)), "gone") + _who(sorted(set(now) - set(then)), "comes")
    return ", ".join(changes) or "new view"


def _who(daemons: Sequence[str], what: str) -> list[str]:
    if not daemons:
        return []
    if len(daemons) == 1:
        return [f"{texts.short(daemons[0], 16)} {what}"]
    return [f"{len(daemons)} {what.removesuffix('s')}"]


def counted(knots: Iterable[tuple[Epoch | None, Epoch]]) -> Counter[str]:
    """The number of changes of each kind, such as splits and merges."""
    return Counter(word for pair in knots for word in what_changed(*pair).split(", "))


class Label(msgspec.Struct, frozen=True):
    """A label at its position; `side` says which end of the text that position is."""

    x: float
    what: str
    when: str
    side: str


def placed(knots: Sequence[tuple[float, str, str]], right: float) -> list[Label]:
    """The labels that fit: splits and merges first, then others from left to right; long ones may be cut."""
    taken: list[tuple[float, float]] = []
    found: list[Label] = []
    for x, what, when in sorted(knots, key=lambda knot: (not knot[1].startswith(FIRST), knot[0])):
        for shown in dict.fromkeys((what, what.partition(",")[0])):
            width = LABEL_LETTER_PX * max(len(shown), TIME_LETTERS)
            side = _label_side(x, width, right)
            begin = x - {"begin": 0.0, "middle": width / 2, "end": width}[side]
            if all(begin > other_end + GAP_PX or begin + width + GAP_PX < other for other, other_end in taken):
                taken.append((begin, begin + width))
                found.append(Label(x, shown, when, side))
                break
    return sorted(found, key=lambda label: label.x)


def _label_side(x: float, width: float, right: float) -> str:
    if x - width / 2 < 0:
        return "begin"
    return "end" if x + width / 2 > right else "middle"


def draw_braid(
    stays: Sequence[StayRow], window_us: tuple[int, int], width: float, site_class: dict[str, str], label: str
) -> str:
    """The SVG picture of a braid at this width."""
    daemons = {stay.daemon for stay in stays}
    left = min(8 + LETTER_PX * max(len(texts.short(one, 14)) for one in daemons), width / 4) + 6
    right = width - RIGHT_PX
    scale = LinearScale(*window_us, left + HOME_PX, right)
    knot_px = max(KNOT_PX * 0.75, (right - left) * len(daemons) / PIECES_MAX)
    knot_us = int(knot_px / max(right - left - HOME_PX, 1.0) * (window_us[1] - window_us[0]))
    braid = lay_out(stays, window_us[1], knot_us, Spacing())
    picture = _Picture(braid, course(braid, scale, left, right), scale, site_class)
    bottom = TOP_PX + braid.height + BAND_PX + 16
    parts = [
        *picture.knots(),
        *[element("g", {"transform": f"translate(0 {TOP_PX:g})"}, *picture.all())],
        *time_axis(scale, bottom, width),
    ]
    return svg(width, bottom + BOTTOM_PX - 12, label, parts)


@dataclass(slots=True)
class _Picture:
    braid: Braid
    course: StrandCourse
    scale: LinearScale
    site_class: dict[str, str]
    _summaries: dict[str, ViewSummary] = field(init=False)
    _legs: dict[str, list[Leg]] = field(init=False)  # By daemon, in the order of time.
    _letters: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._summaries = {summary.view: summary for summary in views(self.braid.legs)}
        self._legs = {daemon: [] for daemon in self.braid.daemons}
        for leg in self.braid.legs:
            self._legs[leg.stay.daemon].append(leg)

    def all(self) -> list[str]:
        """All parts, from the bottom to the top."""
        parts = self._bands()
        for daemon in self.braid.daemons:
            parts += self._strand(daemon)
        for daemon in self.braid.daemons:
            parts += self._marks(daemon)
        return parts + self._letters

    def knots(self) -> list[str]:
        """A line through each knot, with a label above it if there is space."""
        parts, labels = [], []
        height = self.braid.height + BAND_PX
        for knot, pair in zip(self.course.knots, self.braid.knots, strict=True):
            what = what_changed(*pair)
            x = knot.x if pair[0] is not None else knot.x + knot.half
            now = "; ".join([view_text(self._summaries[bundle.view]) for bundle in pair[1].bundles[:4]])
            tooltip = tip(f"{texts.moment(pair[1].begin_us, 3)}: {what}. {now}")
            parts.append(line(x, TOP_PX - 22, x, TOP_PX + height + 8, "knot"))
            space: Attributes = {"x": x - 16, "y": 0, "width": 32, "height": TOP_PX - 14, "class": "hit"}
            parts.append(element("rect", space, tooltip))
            labels.append((x, what, texts.moment(pair[1].begin_us)))
        for label in placed(labels, self.course.right + RIGHT_PX):
            parts.append(text(label.x, 14, label.what, f"what {label.side}"))
            parts.append(text(label.x, 14 + 13, label.when, f"small faint {label.side}"))
        return parts

    def _bands(self) -> list[str]:
        """Each view as a band around its strands."""
        parts = []
        for view, first, last in self._runs():
            summary = self._summaries[view]
            top, bottom = self._edges(view, first, last)
            steps = [*top, *bottom, ("Z", ())]
            shape = path(steps, f"band {view_class(summary.number)}")
            parts.append(shape.replace("/>", f">{tip(view_text(summary))}</path>"))
            x, y = top[0][1]
            self._letters.append(text(x + 1, y - 5, summary.letter, "small letter"))
        return parts

    def _runs(self) -> list[tuple[str, int, int]]:
        """Each view with its first and last epoch; a view that was empty in between appears twice."""
        found: dict[str, list[list[int]]] = {}
        for at, epoch in enumerate(self.braid.epochs):
            for bundle in epoch.bundles:
                runs = found.setdefault(bundle.view, [])
                if runs and runs[-1][1] == at - 1:
                    runs[-1][1] = at
                else:
                    runs.append([at, at])
        return sorted((view, first, last) for view, runs in found.items() for first, last in runs)

    def _edges(self, view: str, first: int, last: int) -> tuple[list[Step], list[Step]]:
        """The upper edge of a band from left to right, and the lower edge back."""
        knots = self.course.knots
        spans = []
        for at in range(first, last + 1):
            places = [
                self.braid.epochs[at].places[daemon]
                for bundle in self.braid.epochs[at].bundles
                if bundle.view == view
                for daemon in bundle.daemons
            ]
            begin = knots[at].x + knots[at].half
            end = self.course.right
            if at + 1 < len(knots):
                end = knots[at + 1].x - knots[at + 1].half
            spans.append((begin, max(end, begin + 2), min(places) - BAND_PX, max(places) + BAND_PX))
        top: list[Step] = [("M", (spans[0][0], spans[0][2]))]
        bottom: list[Step] = [("L", (spans[-1][1], spans[-1][3]))]
        for number, (_, end, high, _low) in enumerate(spans):
            top.append(("H", (end,)))
            if number + 1 < len(spans):
                then = spans[number + 1]
                top.append(_curve(end, high, then[0], then[2]))
        for number in range(len(spans) - 1, -1, -1):
            begin, _, _, low = spans[number]
            bottom.append(("H", (begin,)))
            if number:
                then = spans[number - 1]
                bottom.append(_curve(begin, low, then[1], then[3]))
        return top, bottom

    def _strand(self, daemon: str) -> list[str]:
        colour = self.site_class.get(daemon, "site7")
        parts = [text(self.course.left - 6, self.braid.home[daemon] + 4, texts.short(daemon, 14), "small end")]
        legs = {leg.stay.view: leg for leg in self._legs[daemon]}
        seen: int | None = None
        for view, first, last in views_of(self.braid, daemon):
            if seen != first - 1:
                parts.append(path(self.course.way_to(daemon, first), f"absent {colour}"))
            seen = last
            shape = path(self.course.piece(daemon, first, last), f"strand {colour}")
            parts.append(shape.replace("/>", f">{tip(self._tooltip(legs[view]))}</path>"))
        return parts

    def _tooltip(self, leg: Leg) -> str:
        stay, summary = leg.stay, self._summaries[leg.stay.view]
        since = f"from {texts.moment(stay.begin_us, 3)} for {texts.span(leg.end_us - stay.begin_us)}"
        with_whom = f"{texts.plural(len(stay.members), 'member')}: {texts.names(stay.members)}"
        parts = [f"{texts.short(stay.daemon)} in view {summary.letter} ({summary.name})", since, with_whom]
        parts += [f"cause: {texts.short(stay.cause, 90)}"] if stay.cause else []
        if stay.transitional:
            parts.append(f"came together: {texts.names(stay.transitional)}")
        return " · ".join(parts)

    def _marks(self, daemon: str) -> list[str]:
        """Marks of signals, of ends without another view, and of returns; of several in a knot the last."""
        found: dict[tuple[str, int], str] = {}
        ended = False
        for leg in self._legs[daemon]:
            if ended:
                found["start", self._knot(leg.stay.begin_us)] = self._start(leg)
            if leg.stay.signalled_us is not None:
                found["signal", self._knot(leg.stay.signalled_us)] = self._signal(leg, leg.stay.signalled_us)
            ended = leg.end in (StayEnd.STOPPED, StayEnd.LOST)
            if ended:
                found["end", self._knot(leg.end_us)] = self._end(leg)
        return list(found.values())

    def _knot(self, at_us: int) -> int:
        """The position on the page in units of half a knot, to detect overlapping marks."""
        return int(self.scale.at(at_us) / (KNOT_PX / 2))

    def _signal(self, leg: Leg, at_us: int) -> str:
        daemon = leg.stay.daemon
        closing = texts.span(leg.end_us - at_us)
        tooltip = f"{texts.short(daemon)}: transitional signal at {texts.moment(at_us, 3)}; "
        tooltip += f"view {self._summaries[leg.stay.view].letter} was closing for {closing}"
        x = self.scale.at(at_us)
        colour = self.site_class.get(daemon, "site7")
        spot: Attributes = {"cx": x, "cy": self.course.y_at(daemon, x), "r": 3, "class": f"signal {colour}"}
        return element("circle", spot, tip(tooltip))

    def _end(self, leg: Leg) -> str:
        x = self.scale.at(leg.end_us)
        how = "ended" if leg.end is StayEnd.STOPPED else "was lost: the others went on without it"
        tooltip = tip(f"{texts.short(leg.stay.daemon)} {how}, {texts.moment(leg.end_us, 3)}")
        return element("g", None, cross(x, self.course.y_at(leg.stay.daemon, x)), tooltip)

    def _start(self, leg: Leg) -> str:
        x = self.scale.at(leg.stay.begin_us)
        tooltip = tip(f"{texts.short(leg.stay.daemon)} is back, {texts.moment(leg.stay.begin_us, 3)}")
        return element("g", None, triangle(x, self.course.y_at(leg.stay.daemon, x)), tooltip)


def _curve(x: float, y: float, to_x: float, to_y: float) -> Step:
    middle = (x + to_x) / 2
    return "C", (middle, y, middle, to_y, to_x, to_y)
