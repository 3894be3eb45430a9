"""The whole page: title, lanes, time, legend."""

from collections.abc import Sequence

from hopring.check.picture.axis import axis, seconds
from hopring.check.picture.drawing import Drawing, letter
from hopring.check.picture.legend import legend
from hopring.check.picture.scene import LABEL_GAP_PX, MARGIN_PX, Scene, Wish, make_scene
from hopring.check.picture.style import SERVICES, service_class, sheet
from hopring.check.picture.svg import Attributes, element, escape, rect, text
from hopring.check.trace import Event

TITLE_PX = 30
NOTE_PX = 16
AXIS_PX = 34
WIDTH_PX_MIN = 320


def draw(history: Sequence[Event], wish: Wish | None = None) -> str:
    """The picture of a history; PictureError if there is nothing to draw."""
    wish = wish or Wish()
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
