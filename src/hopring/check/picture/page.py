"""The whole page: title, lanes, time, legend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hopring.check.picture.drawing import Drawing, axis, cross, letter, seconds, triangle
from hopring.check.picture.marks import MarkKind
from hopring.check.picture.scene import LABEL_GAP_PX, MARGIN_PX, PictureOptions, Scene, make_scene
from hopring.check.picture.svg import (
    SERVICES,
    TEXTURES,
    VIEWS,
    Attributes,
    element,
    escape,
    line,
    rect,
    service_class,
    sheet,
    text,
    texture,
    view_class,
)
from hopring.check.trace import Event

TITLE_PX = 30
NOTE_PX = 16
AXIS_PX = 34
WIDTH_PX_MIN = 320
ROW_PX = 20.0
CHARACTER_PX = 7.6  # About the width of the widest: texts stand side by side here.
SIGN_PX = 30.0
SPACE_PX = 18.0
VIEWS_LISTED_MAX = 24
MEMBERS_LISTED_MAX = 8

Sign = Callable[[float, float], list[str]]
"""Draws a sign; given are its left end and the middle of its height."""


def draw(history: Sequence[Event], wish: PictureOptions | None = None) -> str:
    """The picture of a history; PictureError if there is nothing to draw."""
    wish = wish or PictureOptions()
    assert wish.width_px >= WIDTH_PX_MIN, "lanes need some room"
    return _page(make_scene(history, wish))


def _page(scene: Scene) -> str:
    drawing = Drawing(scene, TITLE_PX + NOTE_PX * (1 + len(scene.notes)) + 20)
    parts = _head(scene)
    parts += [
        text(scene.left - LABEL_GAP_PX, drawing.y(lane) + 4, name, "end")
        for lane, name in enumerate(scene.lanes)
    ]
    parts += drawing.all()
    parts += axis(scene, scene.wish.width_px - MARGIN_PX, drawing.bottom + 14)
    below, height = legend(scene, drawing.bottom + 14 + AXIS_PX, scene.wish.width_px - 2 * MARGIN_PX)
    parts += below
    width = scene.wish.width_px
    body = [
        element("title", {"id": "hop-title"}, escape(_title(scene))),
        element("desc", {"id": "hop-desc"}, escape(_description(scene))),
        element("style", None, "\n" + sheet()),
        element("defs", None, *_definitions()),
        rect(0, 0, width, height, "paper"),
        *parts,
    ]
    frame: Attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {round(height)}",
        "role": "img",
        "aria-labelledby": "hop-title hop-desc",
    }
    return element("svg", frame, "\n", *[f"{one}\n" for one in body]) + "\n"


def _head(scene: Scene) -> list[str]:
    span = f"{seconds(scene.from_us)} to {seconds(scene.to_us)} after the first event of the trace"
    span += "; time is not to scale" if scene.clock.step_px else ""
    lines = [span, *[f"Not shown: {note}." for note in scene.notes]]
    parts = [text(MARGIN_PX, 24, _title(scene), "title")]
    at = TITLE_PX + 12
    return parts + [text(MARGIN_PX, at + number * NOTE_PX, one, "faint") for number, one in enumerate(lines)]


def _title(scene: Scene) -> str:
    if scene.wish.title:
        return scene.wish.title
    return "Daemons" if scene.wish.group is None else f"Group {scene.wish.group}"


def _description(scene: Scene) -> str:
    views = [f"view {letter(number)}: {' '.join(them)}" for number, them in enumerate(scene.members.values())]
    messages = len({one.mark.message for one in scene.shown if one.mark.message is not None})
    kind = "daemons" if scene.wish.group is None else f"sessions of the group {scene.wish.group}"
    return (
        f"A space-time diagram. Lanes, from top to bottom, are {kind}: {', '.join(scene.lanes)}."
        f" Time goes from left to right, {seconds(scene.from_us)} to {seconds(scene.to_us)}."
        f" Views, in the order in which they appear: {'; '.join(views) or 'none'}."
        f" Messages: {messages}. {' '.join([f'Not shown: {note}.' for note in scene.notes])}".rstrip()
    )


def _definitions() -> list[str]:
    stripes = element("path", {"d": "M0 6 L6 0", "class": "texture", "stroke_width": 1.5})
    grid = element("path", {"d": "M3 0 V6 M0 3 H6", "class": "texture", "stroke_width": 1})
    tiles: Attributes = {"width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
    found = [
        element("pattern", {"id": "stripes", **tiles}, stripes),
        element("pattern", {"id": "grid", **tiles}, grid),
    ]
    for service in SERVICES:
        name = service_class(service)
        head: Attributes = {"id": f"to-{name}", "viewBox": "0 0 6 6", "refX": 6, "refY": 3, "orient": "auto"}
        size: Attributes = {"markerWidth": 6, "markerHeight": 6, "markerUnits": "userSpaceOnUse"}
        tip = element("path", {"d": "M0 0.5 L6 3 L0 5.5 Z", "class": f"head {name}"})
        found.append(element("marker", {**head, **size}, tip))
    return found


@dataclass(slots=True)
class _Rows:
    """Signs with their words, from left to right and then below."""

    y: float
    right: float
    x: float = MARGIN_PX
    parts: list[str] = field(default_factory=list)

    def add(self, sign: Sign, words: str) -> None:
        """Adds a sign and its text, on the next row if there is no space."""
        width = SIGN_PX + len(words) * CHARACTER_PX + SPACE_PX
        if self.x > MARGIN_PX and self.x + width > self.right:
            self.new()
        self.parts += [*sign(self.x, self.y), text(self.x + SIGN_PX, self.y + 4, words)]
        self.x += width

    def new(self) -> None:
        """Goes to a new row, unless this one is empty."""
        if self.x > MARGIN_PX:
            self.x, self.y = MARGIN_PX, self.y + ROW_PX


def legend(scene: Scene, y: float, right: float) -> tuple[list[str], float]:
    """The legend, and where the page ends."""
    rows = _Rows(y + ROW_PX / 2, right)
    _views(rows, scene)
    rows.new()
    _services(rows, scene)
    _signs(rows, scene)
    rows.new()
    return rows.parts, rows.y + ROW_PX / 2


def _views(rows: _Rows, scene: Scene) -> None:
    for number, members in enumerate(list(scene.members.values())[:VIEWS_LISTED_MAX]):
        few = " ".join(members[:MEMBERS_LISTED_MAX])
        more = len(members) - MEMBERS_LISTED_MAX
        rows.add(_swatch(number), f"{letter(number)}: {few}{f' and {more} more' if more > 0 else ''}")
    rows.new()
    more = len(scene.members) - VIEWS_LISTED_MAX
    if more > 0:
        rows.add(lambda _x, _y: [], f"and {more} more views, not listed")
    if len(scene.members) > len(VIEWS) * len(TEXTURES):
        rows.add(lambda _x, _y: [], f"colours repeat after {len(VIEWS) * len(TEXTURES)} views")


def _swatch(number: int) -> Sign:
    def draw(x: float, y: float) -> list[str]:
        parts = [rect(x, y - 7, 22, 14, view_class(number))]
        if texture(number):
            cover: Attributes = {
                "x": x,
                "y": y - 7,
                "width": 22,
                "height": 14,
                "fill": f"url(#{texture(number)})",
            }
            parts.append(element("rect", cover))
        return parts

    return draw


def _services(rows: _Rows, scene: Scene) -> None:
    used = sorted({one.mark.service for one in scene.shown if one.mark.service is not None})
    for service in used:
        name = service_class(service)
        rows.add(_flight(name), service.name.capitalize() if name != "fifo" else "FIFO")
    if used:
        name = service_class(used[-1])
        rows.add(lambda x, y: [_circle(x + 11, y, f"send {name}", 6)], "sent")
        rows.add(lambda x, y: [_circle(x + 11, y, f"dot {name}", 7)], "delivered")


def _flight(name: str) -> Sign:
    def draw(x: float, y: float) -> list[str]:
        ends = {"x1": x, "y1": y, "x2": x + 22, "y2": y}
        return [element("line", {**ends, "class": f"arrow {name}", "marker_end": f"url(#to-{name})"})]

    return draw


def _circle(x: float, y: float, classes: str, radius: float) -> str:
    return element("circle", {"cx": x, "cy": y, "r": radius, "class": classes})


def _signs(rows: _Rows, scene: Scene) -> None:
    kinds = {one.mark.kind for one in scene.shown}
    if MarkKind.SIGNAL in kinds:
        rows.add(lambda x, y: [line(x + 11, y - 9, x + 11, y + 9, "signal")], "transitional signal")
    if any(one.signal is not None for one in scene.stretches):
        rows.add(lambda x, y: [rect(x, y - 7, 22, 14, "closing v0")], "the view is closing")
    if MarkKind.RECOVER in kinds:
        rows.add(lambda x, y: [triangle(x + 11, y)], "starts")
    if MarkKind.CRASH in kinds:
        rows.add(lambda x, y: [cross(x + 11, y)], "ends")
    if MarkKind.LOST in kinds:
        rows.add(lambda x, y: [cross(x + 7, y), text(x + 16, y + 4, "?")], "last heard of")
    if MarkKind.JOIN in kinds:
        rows.add(lambda x, y: [text(x + 11, y + 4, "+", "letter middle")], "asks to join")
    if MarkKind.LEAVE in kinds:
        rows.add(lambda x, y: [text(x + 11, y + 4, "−", "letter middle")], "asks to leave")
