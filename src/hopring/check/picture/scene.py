"""The content of a picture: lanes, stretches of views on them, marks, messages, and notes on omissions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hopring.check.picture.clock import Clock, Spot, make_clock
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

MARGIN_PX = 16.0
LABEL_GAP_PX = 10.0
LABEL_CHARACTERS_MAX = 24
CHARACTER_PX = 7.0  # About; fonts differ.
PAD_PX = 14.0
"""Before the first and behind the last moment; at 0 is what was before."""

NUMBERED_MAX = 40
"""So many messages have numbers; with more there is no room for them, nor if marks are closer than"""
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
    """All that the page draws."""

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
    """Chooses what is shown and where."""
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
