"""Elements of SVG as text. Numbers have one decimal place, so that the text is the same everywhere.

Colours are light and dark ones, of views and of services. A view is recognized by its colour and its letter.
"""

from collections.abc import Iterable
from itertools import cycle
from typing import Final

from hopring.services import Service

Attribute = str | float | int
Attributes = dict[str, Attribute]


def element(tag: str, attributes: Attributes | None = None, *inside: str) -> str:
    """One element. Attributes are written with `-` for `_`; the content is SVG already."""
    named = "".join(
        [f' {name.replace("_", "-")}="{_value(value)}"' for name, value in (attributes or {}).items()]
    )
    if not inside:
        return f"<{tag}{named}/>"
    return f"<{tag}{named}>{''.join(inside)}</{tag}>"


def text(x: float, y: float, words: str, classes: str = "") -> str:
    """A `text` element with its position and attributes."""
    return element("text", {"x": x, "y": y} | ({"class": classes} if classes else {}), escape(words))


def line(x1: float, y1: float, x2: float, y2: float, classes: str) -> str:
    """A `line` element between two points."""
    return element("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": classes})


def rect(x: float, y: float, width: float, height: float, classes: str, *inside: str) -> str:
    """A `rect` element with its corner and size."""
    return element("rect", {"x": x, "y": y, "width": width, "height": height, "class": classes}, *inside)


def path(points: Iterable[tuple[str, Iterable[float]]], classes: str) -> str:
    """Letters of a path, each with its numbers."""
    d = " ".join([f"{letter}{' '.join([_value(one) for one in numbers])}" for letter, numbers in points])
    return element("path", {"d": d, "class": classes})


def tip(words: str) -> str:
    """The text shown when a reader points at an element."""
    return element("title", None, escape(words))


def escape(words: str) -> str:
    """Escapes text for SVG; names come from foreign files, so control characters are replaced."""
    shown = "".join([one if one.isprintable() else "\ufffd" for one in words])
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown


VIEWS: Final = (
    ("#bfdbfe", "#1e3a5f"),
    ("#fde68a", "#5c4a10"),
    ("#bbf7d0", "#1f4d2e"),
    ("#fbcfe8", "#5b2745"),
    ("#ddd6fe", "#3d3170"),
    ("#fed7aa", "#66391a"),
    ("#a5f3fc", "#155061"),
    ("#e5d3b8", "#4d3f2b"),
    ("#d9f99d", "#41561a"),
    ("#cbd5e1", "#3a4650"),
)
TEXTURES: Final = ("", "stripes", "grid")
"""When all colours are taken they come again with a texture."""

_SERVICE_COLOURS: Final = (
    ("#6b7280", "#9ca3af"),
    ("#0f766e", "#2dd4bf"),
    ("#7c3aed", "#c4b5fd"),
    ("#a16207", "#fbbf24"),
    ("#1d4ed8", "#7db5ff"),
    ("#b91c1c", "#f98080"),
    ("#be185d", "#f9a8d4"),
    ("#4d7c0f", "#bef264"),
)
SERVICES: Final = dict(zip(Service, cycle(_SERVICE_COLOURS)))
"""By number; there are colours to spare for services to come."""
PAPER: Final = ("#ffffff", "#14171c")
INK: Final = ("#1f2430", "#e6e9ef")
FAINT: Final = ("#6a7180", "#98a1b0")
LINE: Final = ("#c3c8d2", "#454c58")

_FIXED: Final = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.title { font-size: 15px; font-weight: 600 }
.letter { font-weight: 700 }
.small { font-size: 11px }
.number { font-size: 9px; font-weight: 700; text-anchor: middle }
.middle { text-anchor: middle }
.end { text-anchor: end }
.arrow { fill: none; stroke-width: 1.1; stroke-opacity: .75 }
.send { stroke-width: 1.6 }
.life { stroke-width: 1.5 }
.braid { fill-opacity: .38 }
.closing { fill-opacity: .45; stroke-width: 1; stroke-dasharray: 3 2 }
.signal { stroke-width: 2; stroke-dasharray: 4 3 }
.edge { stroke-width: 1.5 }
.crash { fill: none; stroke-width: 2.5 }
"""


def view_class(number: int) -> str:
    """The class of the view that is the n-th of a picture, from 0."""
    return f"v{number % len(VIEWS)}"


def texture(number: int) -> str:
    """The texture upon its colour, if it has one."""
    return TEXTURES[number // len(VIEWS) % len(TEXTURES)]


def service_class(service: Service) -> str:
    """The class of the marks of messages of this service."""
    return service.name.lower()


def sheet() -> str:
    """The style sheet: light, and dark where the reader prefers that."""
    dark = "\n".join(f"  {line}" for line in _colours(1))
    light = "\n".join(_colours(0))
    return f"{_FIXED}{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _colours(mode: int) -> list[str]:
    ink, faint, line, paper = INK[mode], FAINT[mode], LINE[mode], PAPER[mode]
    rules = [
        f"text {{ fill: {ink} }}",
        f".paper {{ fill: {paper} }}",
        f".faint {{ fill: {faint} }}",
        f".number {{ fill: {paper} }}",
        f".number.plain {{ fill: {ink} }}",
        f".life, .axis, .texture {{ stroke: {line} }}",
        f".signal, .edge, .crash, .wish {{ stroke: {ink} }}",
        f".closing {{ stroke: {faint} }}",
        f".start {{ fill: {ink} }}",
        f".send {{ fill: {paper} }}",
    ]
    rules += [f".{view_class(number)} {{ fill: {pair[mode]} }}" for number, pair in enumerate(VIEWS)]
    for service, pair in SERVICES.items():
        name = service_class(service)
        rules.append(f".arrow.{name}, .send.{name} {{ stroke: {pair[mode]} }}")
        rules.append(f".dot.{name}, .head.{name} {{ fill: {pair[mode]} }}")
    return rules
