"""What the signs mean: only those that are in the picture."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hopring.check.picture.drawing import cross, letter, triangle
from hopring.check.picture.marks import Kind
from hopring.check.picture.scene import MARGIN_PX, Scene
from hopring.check.picture.style import TEXTURES, VIEWS, service_class, texture, view_class
from hopring.check.picture.svg import Attributes, element, line, rect, text

ROW_PX = 20.0
CHARACTER_PX = 7.6  # At most, about: what stands here is set side by side.
SIGN_PX = 30.0
SPACE_PX = 18.0
VIEWS_LISTED_MAX = 24
MEMBERS_LISTED_MAX = 8

Sign = Callable[[float, float], list[str]]
"""Draws a sign; given are its left end and the middle of its height."""


@dataclass(slots=True)
class _Rows:
    """Signs with their words, from left to right and then below."""

    y: float
    right: float
    x: float = MARGIN_PX
    parts: list[str] = field(default_factory=list)

    def add(self, sign: Sign, words: str) -> None:
        """One more."""
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
    if Kind.SIGNAL in kinds:
        rows.add(lambda x, y: [line(x + 11, y - 9, x + 11, y + 9, "signal")], "transitional signal")
    if any(one.signal is not None for one in scene.stretches):
        rows.add(lambda x, y: [rect(x, y - 7, 22, 14, "closing v0")], "the view is closing")
    if Kind.RECOVER in kinds:
        rows.add(lambda x, y: [triangle(x + 11, y)], "starts")
    if Kind.CRASH in kinds:
        rows.add(lambda x, y: [cross(x + 11, y)], "ends")
    if Kind.LOST in kinds:
        rows.add(lambda x, y: [cross(x + 7, y), text(x + 16, y + 4, "?")], "last heard of")
    if Kind.JOIN in kinds:
        rows.add(lambda x, y: [text(x + 11, y + 4, "+", "letter middle")], "asks to join")
    if Kind.LEAVE in kinds:
        rows.add(lambda x, y: [text(x + 11, y + 4, "−", "letter middle")], "asks to leave")
