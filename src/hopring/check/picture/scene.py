"""The content of a picture: lanes, stretches of views on them, marks, messages, and notes on omissions.

`Clock` finds the place of a moment on the page. Time goes from left to right. If there is room, it is not to
scale, in two ways. Events of one lane at one moment are pulled apart, in their order: a signal, deliveries and
a view often come at once, and their order matters. And times between marks are drawn as their square roots: a
message takes milliseconds, but the detection of a cut takes a second.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hopring.check.picture.marks import (
    ENDS,
    AnyView,
    DrawnLife,
    MarkKind,
    PictureError,
    PictureMark,
    PlacedMark,
    Stretch,
    marks_of,
    names_of,
    told_apart,
    walk,
)
from hopring.check.trace import Event, MessageId, ProcessName

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
        """The leftmost place of a moment: behind earlier marks of its lanes and the sends of its deliveries."""
        if not step_px:
            return begin
        for at in spots:
            spot = self.spots[at]
            begin = max(begin, last.get(spot.lane, -step_px) + step_px)
            if spot.after is not None and spot.after < spots.start:
                begin = max(begin, self.places[spot.after] + FLIGHT_PX)
        return begin


MARGIN_PX = 16.0
LABEL_GAP_PX = 10.0
LABEL_CHARACTERS_MAX = 24
CHARACTER_PX = 7.0  # About; fonts differ.
PAD_PX = 14.0
"""Space before the first and behind the last moment; marks from before the window are at 0."""

NUMBERED_MAX = 40
"""The most messages that get numbers; marks closer than the next constant get none either."""
NUMBERED_STEP_PX = 16.0


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """Options of a picture. Times count from the first event of the trace."""

    group: str | None = None  # None draws the daemons.
    from_us: int | None = None
    to_us: int | None = None
    title: str = ""
    width_px: int = 960
    arrows_max: int = 600
    lanes_max: int = 40


@dataclass(slots=True)
class Scene:
    """Everything that the page draws."""

    wish: PictureOptions
    zero_us: int
    from_us: int  # Of the window, from zero.
    to_us: int
    lanes: list[str]
    left: float  # Where the lanes begin; all places count from there.
    lives: list[DrawnLife] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    shown: list[PlacedMark] = field(default_factory=list)
    arrows: list[tuple[PlacedMark, PlacedMark]] = field(default_factory=list)
    members: dict[AnyView, tuple[str, ...]] = field(default_factory=dict)  # In the order of their appearance.
    numbers: dict[MessageId, int] = field(default_factory=dict)  # Of messages, if there are few.
    notes: list[str] = field(default_factory=list)  # On omissions.
    clock: Clock = field(default_factory=lambda: Clock([], 0.0))


def make_scene(history: Sequence[Event], wish: PictureOptions) -> Scene:
    """Chooses the content of the picture and its places."""
    if not history:
        raise PictureError("the trace is empty")
    marks = marks_of(history, wish.group)
    zero_us = min(event.at_us for event in history)
    from_us, to_us = _window(marks, wish, zero_us)
    names = names_of(history)
    there = _living([mark for mark in marks if mark.at_us - zero_us <= to_us], zero_us + from_us)
    lane_of, lanes, more = _lanes(there, wish, names)
    left = MARGIN_PX + max(len(name) for name in lanes) * CHARACTER_PX + LABEL_GAP_PX
    width_px = wish.width_px - left - MARGIN_PX
    scene = Scene(wish, zero_us, from_us, to_us, lanes, left)
    if more:
        scene.notes.append(f"{more} of {more + len(lanes)} lanes are left out")
    inside = [mark for mark in marks if from_us <= mark.at_us - zero_us <= to_us]
    early = [mark for mark in marks if mark.at_us - zero_us < from_us]
    if len(inside) < len(marks):
        scene.notes.append(
            f"{_count(len(marks) - len(inside), 'event')} of {len(marks)} before or after this time"
        )
    chosen = _messages(scene, [mark for mark in inside if mark.process in lane_of])
    drawn = [
        mark for mark in inside if mark.process in lane_of and (mark.message is None or mark.message in chosen)
    ]
    _place(scene, drawn, lane_of, width_px)
    _name_views(scene, [*early, *inside], lane_of, told_apart(names))
    before = [PlacedMark(mark, lane_of[mark.process], 0.0) for mark in early if mark.process in lane_of]
    scene.stretches, scene.lives = walk([*before, *scene.shown], width_px)
    _connect(scene)
    return scene


def _window(marks: list[PictureMark], wish: PictureOptions, zero_us: int) -> tuple[int, int]:
    last_us = marks[-1].at_us - zero_us
    from_us = wish.from_us if wish.from_us is not None else marks[0].at_us - zero_us
    to_us = wish.to_us if wish.to_us is not None else max(last_us, from_us + 1)
    if from_us >= to_us:
        raise PictureError(f"the window from {from_us} us to {to_us} us has no length")
    if not any(from_us <= mark.at_us - zero_us <= to_us for mark in marks):
        raise PictureError(f"nothing happens in this window; the trace ends after {last_us / 1e6:g} s")
    return from_us, to_us


def _living(marks: list[PictureMark], from_us: int) -> dict[ProcessName, int]:
    """The processes in the window, numbered in the order of time; one that ended before has no lane."""
    found: dict[ProcessName, int] = {}
    for number, mark in enumerate(marks):
        if mark.at_us < from_us and mark.kind in ENDS:
            found.pop(mark.process, None)
        else:
            found.setdefault(mark.process, number)
    return found


def _lanes(
    processes: dict[ProcessName, int], wish: PictureOptions, names: dict[ProcessName, str]
) -> tuple[dict[ProcessName, int], list[str], int]:
    """The lane of each process that has one, the lanes' names, and how many more there would be."""
    if wish.group is None:
        daemons = sorted({process.daemon for process in processes})
        labels = [_cut(daemon) for daemon in daemons]
        numbers = {daemon: number for number, daemon in enumerate(daemons)}
        at = {process: numbers[process.daemon] for process in processes}
    else:
        order = sorted(processes, key=lambda one: (one.daemon, processes[one]))
        labels = [_cut(f"{names.get(one, f'session {one.session}')} at {one.daemon}") for one in order]
        at = {process: number for number, process in enumerate(order)}
    few = {process: lane for process, lane in at.items() if lane < wish.lanes_max}
    return few, labels[: wish.lanes_max], max(0, len(labels) - wish.lanes_max)


def _cut(name: str) -> str:
    return name if len(name) <= LABEL_CHARACTERS_MAX else name[: LABEL_CHARACTERS_MAX - 1] + "…"


def _messages(scene: Scene, inside: list[PictureMark]) -> set[MessageId]:
    """All messages, or as many as there is room for, evenly chosen."""
    marks: dict[MessageId, int] = {}
    for mark in inside:
        if mark.message is not None:
            marks[mark.message] = marks.get(mark.message, 0) + 1
    chosen = list(marks)
    arrows = max(sum(marks.values()) - len(marks), len(marks))  # A message without an arrow takes room too.
    if arrows > scene.wish.arrows_max:
        count = max(1, len(marks) * scene.wish.arrows_max // arrows)
        chosen = [chosen[at * len(marks) // count] for at in range(count)]
        left_out = len(marks) - len(chosen)
        scene.notes.append(f"{left_out} of {len(marks)} messages are left out, with their arrows and dots")
    if len(chosen) <= NUMBERED_MAX:
        scene.numbers = {message: number for number, message in enumerate(chosen, start=1)}
    return set(chosen)


def _place(scene: Scene, drawn: list[PictureMark], lane_of: dict[ProcessName, int], width_px: float) -> None:
    sends: dict[MessageId, int] = {}
    spots = []
    for at, mark in enumerate(drawn):
        after = None
        if mark.message is not None:
            if mark.kind is MarkKind.SEND:
                sends[mark.message] = at
            else:
                after = sends.get(mark.message)
        spots.append(Spot(mark.at_us - scene.zero_us, lane_of[mark.process], after))
    scene.clock = make_clock(spots, scene.from_us, scene.to_us, width_px - 2 * PAD_PX)
    if scene.clock.step_px < NUMBERED_STEP_PX:
        scene.numbers = {}
    places = zip(drawn, scene.clock.places, strict=True)
    scene.shown = [PlacedMark(mark, lane_of[mark.process], PAD_PX + x) for mark, x in places]


def _name_views(
    scene: Scene, marks: list[PictureMark], lane_of: dict[ProcessName, int], names: dict[ProcessName, str]
) -> None:
    """The views that are seen on the page, with the names of their members."""
    latest: dict[ProcessName, PictureMark] = {}
    seen: list[PictureMark] = []
    for mark in marks:
        if mark.process not in lane_of:
            continue
        if mark.at_us - scene.zero_us >= scene.from_us:
            seen += [mark] if mark.kind is MarkKind.VIEW else []
        elif mark.kind is MarkKind.VIEW:
            latest[mark.process] = mark
        elif mark.kind in (*ENDS, MarkKind.LEFT):
            latest.pop(mark.process, None)
    for mark in [*sorted(latest.values(), key=lambda one: one.at_us), *seen]:
        assert mark.view is not None, "a view has a name"
        plain = scene.wish.group is None
        members = tuple([one.daemon if plain else names.get(one, f"{one.session}") for one in mark.members])
        scene.members.setdefault(mark.view, members)


def _connect(scene: Scene) -> None:
    """An arrow from each send to each delivery that is shown."""
    sends = {shown.mark.message: shown for shown in scene.shown if shown.mark.kind is MarkKind.SEND}
    lost = 0
    for shown in scene.shown:
        if shown.mark.kind is not MarkKind.DELIVER:
            continue
        if (send := sends.get(shown.mark.message)) is None:
            lost += 1
        else:
            scene.arrows.append((send, shown))
    if lost:
        scene.notes.append(
            f"{_count(lost, 'delivery', 'deliveries')} without an arrow: the send is not in the picture"
        )


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
