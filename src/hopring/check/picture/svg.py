"""Elements of SVG as text. Numbers have one decimal place, so that the text is the same everywhere."""

from collections.abc import Iterable

Attribute = str | float | int
Attributes = dict[str, Attribute]


def element(tag: str, attributes: Attributes | None = None, *inside: str) -> str:
    """One element. Attributes are written with `-` for `_`; what is inside is SVG already."""
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
    """Text as SVG has it; names come from files of others, so control characters are shown as what they are."""
    shown = "".join([one if one.isprintable() else "\ufffd" for one in words])
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _value(value: Attribute) -> str:
    if isinstance(value, str):
        return escape(value)
    shown = f"{value:.1f}".removesuffix(".0")
    return "0" if shown == "-0" else shown
