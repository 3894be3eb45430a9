"""Elements of HTML as text: paragraphs, tables, figures. Everything from outside goes through `escape`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hopring.check.picture.svg import Attributes, element, escape
from hopring.spark.report.words import plural
from hopring.value import Value

TABLE_ROWS_MAX: Final = 60


class Column(Value, frozen=True):
    """The head of a column; numbers stand to the right."""

    name: str
    number: bool = True


class Raw(Value, frozen=True):
    """Text that is HTML already, and escaped."""

    text: str


Cell = str | Raw


def tag(name: str, attributes: Attributes | None, *inside: str) -> str:
    """An element, which has an end tag even if nothing is in it."""
    return element(name, attributes, *(inside or ("",)))


def said(words: str, classes: str = "") -> str:
    """A paragraph of plain text."""
    return tag("p", {"class": classes} if classes else None, escape(words))


def table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], more: int = 0) -> str:
    """A table in a box that scrolls by itself. Cut after some rows, and says how many were left out."""
    shown = rows[:TABLE_ROWS_MAX]
    left_out = len(rows) - len(shown) + more
    head = "".join([tag("th", {"scope": "col", **_class(one)}, escape(one.name)) for one in columns])
    body = "".join([tag("tr", None, *_cells(columns, row)) + "\n" for row in shown])
    inside = [
        tag("caption", None, escape(title)),
        tag("thead", None, tag("tr", None, head)),
        tag("tbody", None, "\n", body),
    ]
    # A region that scrolls has to be reached by keyboard too.
    frame: Attributes = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": title}
    found = tag("div", frame, tag("table", None, *inside))
    if left_out:
        found += said(f"{plural(left_out, 'more row is', 'more rows are')} left out here.", "note")
    return found


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> list[str]:
    cells = []
    for at, (column, cell) in enumerate(zip(columns, row, strict=True)):
        inside = cell.text if isinstance(cell, Raw) else escape(cell)
        cells.append(tag("td" if at else "th", {**({} if at else {"scope": "row"}), **_class(column)}, inside))
    return cells


def _class(column: Column) -> Attributes:
    return {"class": "number"} if column.number else {}


def folded(title: str, inside: str) -> str:
    """What is there for those who want it."""
    return tag("details", None, tag("summary", None, escape(title)), inside)


def bar(part: float, words: str, classes: str = "") -> Raw:
    """A number with a small bar below it, as long as its part of the greatest."""
    width = f"{min(max(part, 0.0), 1.0) * 100:.1f}%"
    inner = tag("i", {"class": f"bar {classes}".rstrip(), "style": f"width:{width}"})
    return Raw(escape(words) + inner)


def svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """A picture that says in words what it shows."""
    frame: Attributes = {
        "viewBox": f"0 0 {round(width)} {round(height)}",
        "width": round(width),
        "height": round(height),
        "role": "img",
        "aria-label": label,
    }
    return element("svg", frame, *parts)


def at_widths(draw: Callable[[float], str], widths: dict[str, float]) -> str:
    """The same picture drawn for several widths, so that its letters are of one size on all screens."""
    return "".join([tag("div", {"class": f"at {name}"}, draw(width)) for name, width in widths.items()])


def figure(title: str, caption: str, *inside: str) -> str:
    """A plot with its title above and its words below."""
    below = tag("figcaption", None, escape(caption)) if caption else ""
    return tag("figure", None, tag("h3", None, escape(title)), *inside, below)
