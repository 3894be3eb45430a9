"""HTML of the page: paragraphs, tables, figures, and the style sheet's colours. All foreign text is escaped."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from hopring.check.picture.svg import FAINT, INK, LINE, PAPER, SERVICES, VIEWS, Attributes, element, escape
from hopring.spark.report.texts import plural

SITES: Final = (
    ("#2f6fdf", "#79b0ff"),
    ("#c2540a", "#ff9d5c"),
    ("#0b7f6f", "#3fd0bb"),
    ("#b0267e", "#f07cc0"),
    ("#75700b", "#cfc74a"),
    ("#6d43c9", "#b39bff"),
    ("#b3372f", "#ff8a80"),
    ("#566273", "#a9b6c8"),
)

GOOD: Final = ("#15803d", "#4ade80")

BAD: Final = ("#b91c1c", "#ff8f8f")

PALE: Final = ("#f4f5f7", "#1c2027")

_SERVICE_NAMES: Final = {service.name.lower(): service for service in SERVICES}

WIDTHS: Final = {"wide": 1104.0, "middle": 704.0, "narrow": 360.0}
"""Widths of pictures across the page by style class: for a large screen, a tablet or paper, a phone."""

HALVES: Final = {"large": 536.0, "small": 348.0}
"""Widths of plots that stand side by side; a small one fills the width of a phone."""

TABLE_ROWS_MAX: Final = 60


class TableColumn(msgspec.Struct, frozen=True):
    """The head of a table's column; columns of numbers are aligned to the right."""

    name: str
    number: bool = True


class Raw(msgspec.Struct, frozen=True):
    """Text that is HTML already and must not be escaped again."""

    text: str


Cell = str | Raw


def tag(name: str, attributes: Attributes | None, *inside: str) -> str:
    """An element, with an end tag even if it is empty."""
    return element(name, attributes, *(inside or ("",)))


def paragraph(text: str, classes: str = "") -> str:
    """A paragraph of plain text, escaped."""
    return tag("p", {"class": classes} if classes else None, escape(text))


def table(title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], more: int = 0) -> str:
    """A table in a box that scrolls; it is cut after TABLE_ROWS_MAX rows, with a note on the rest."""
    shown = rows[:TABLE_ROWS_MAX]
    left_out = len(rows) - len(shown) + more
    head = "".join([tag("th", {"scope": "col", **_class(one)}, escape(one.name)) for one in columns])
    body = "".join([tag("tr", None, *_cells(columns, row)) + "\n" for row in shown])
    inside = [
        tag("caption", None, escape(title)),
        tag("thead", None, tag("tr", None, head)),
        tag("tbody", None, "\n", body),
    ]
    # A scrolling region has to be reachable by keyboard as well.
    frame: Attributes = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": title}
    found = tag("div", frame, tag("table", None, *inside))
    if left_out:
        found += paragraph(f"{plural(left_out, 'more row is', 'more rows are')} left out here.", "note")
    return found


def _cells(columns: Sequence[TableColumn], row: Sequence[Cell]) -> list[str]:
    cells = []
    for at, (column, cell) in enumerate(zip(columns, row, strict=True)):
        inside = cell.text if isinstance(cell, Raw) else escape(cell)
        cells.append(tag("td" if at else "th", {**({} if at else {"scope": "row"}), **_class(column)}, inside))
    return cells


def _class(column: TableColumn) -> Attributes:
    return {"class": "number"} if column.number else {}


def folded(title: str, inside: str) -> str:
    """Content that is folded until the reader opens it."""
    return tag("details", None, tag("summary", None, escape(title)), inside)


def bar(part: float, text: str, classes: str = "") -> Raw:
    """A number above a bar whose length is its share of the largest value."""
    width = f"{min(max(part, 0.0), 1.0) * 100:.1f}%"
    inner = tag("i", {"class": f"bar {classes}".rstrip(), "style": f"width:{width}"})
    return Raw(escape(text) + inner)


def svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """An SVG picture with a label for screen readers."""
    frame: Attributes = {
        "viewBox": f"0 0 {round(width)} {round(height)}",
        "width": round(width),
        "height": round(height),
        "role": "img",
        "aria-label": label,
    }
    return element("svg", frame, *parts)


def at_widths(draw: Callable[[float], str], widths: dict[str, float]) -> str:
    """The same picture drawn for several widths, so that its text has one size on all screens."""
    return "".join([tag("div", {"class": f"at {name}"}, draw(width)) for name, width in widths.items()])


def figure(title: str, caption: str, *inside: str) -> str:
    """A plot with its title above and its caption below."""
    below = tag("figcaption", None, escape(caption)) if caption else ""
    return tag("figure", None, tag("h3", None, escape(title)), *inside, below)


def sheet() -> str:
    """The rules for colours: light, dark if the reader prefers or selects it, and light in print."""
    light = f"{{ color-scheme: light; {_variables(0)} }}"
    dark = f"{{ color-scheme: dark; {_variables(1)} }}"
    rules = [
        f":root {light}",
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {dark} }}',
        f':root[data-theme="dark"] {dark}',
        f"@media print {{ :root, :root:not([data-theme]), :root[data-theme] {light} }}",
        *_classes(),
    ]
    return "\n".join(rules) + "\n"


def site_classes(sites: Iterable[str]) -> dict[str, str]:
    """The style class of each site, which is the same in all plots."""
    return {site: f"site{number % len(SITES)}" for number, site in enumerate(sorted(set(sites)))}


def service_class(service: str) -> str:
    """The style class of a service, as in the pictures of traces; unknown services share one."""
    name = service.lower()
    return f"service-{name}" if name in _SERVICE_NAMES else "service-other"


def service_order(services: Iterable[str]) -> list[str]:
    """Services from the weakest promise to the strongest, unknown ones last."""
    return sorted(set(services), key=lambda one: (_SERVICE_NAMES.get(one.lower(), 99), one))


def _variables(mode: int) -> str:
    fixed: Sequence[tuple[str, tuple[str, str]]] = (
        *(("paper", PAPER), ("ink", INK), ("faint", FAINT), ("line", LINE), ("pale", PALE)),
        *(("good", GOOD), ("bad", BAD)),
    )
    found = [*fixed, *[(f"site{number}", pair) for number, pair in enumerate(SITES)]]
    found += [(f"view{number}", pair) for number, pair in enumerate(VIEWS)]
    found += [(f"service-{service.name.lower()}", pair) for service, pair in SERVICES.items()]
    found.append(("service-other", FAINT))
    return " ".join([f"--{name}: {pair[mode]};" for name, pair in found])


def _classes() -> list[str]:
    names = [f"site{number}" for number in range(len(SITES))]
    names += [f"service-{name}" for name in (*_SERVICE_NAMES, "other")]
    rules = [f".{name} {{ --mine: var(--{name}) }}" for name in names]
    return rules + [f".v{number} {{ --mine: var(--view{number}) }}" for number in range(len(VIEWS))]
