"""Elements of HTML as text: paragraphs, tables, figures. Everything from outside goes through `escape`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from hopring.check.picture.style import FAINT, INK, LINE, PAPER, SERVICES, VIEWS
from hopring.check.picture.svg import Attributes, element, escape
from hopring.spark.report.texts import plural

TABLE_ROWS_MAX: Final = 60


class TableColumn(msgspec.Struct, frozen=True):
    """The head of a column; numbers stand to the right."""

    name: str
    number: bool = True


class Raw(msgspec.Struct, frozen=True):
    """Text that is HTML already, and escaped."""

    text: str


Cell = str | Raw


def tag(name: str, attributes: Attributes | None, *inside: str) -> str:
    """An element, which has an end tag even if nothing is in it."""
    return element(name, attributes, *(inside or ("",)))


def said(words: str, classes: str = "") -> str:
    """A paragraph of plain text."""
    return tag("p", {"class": classes} if classes else None, escape(words))


def table(title: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], more: int = 0) -> str:
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


def _cells(columns: Sequence[TableColumn], row: Sequence[Cell]) -> list[str]:
    cells = []
    for at, (column, cell) in enumerate(zip(columns, row, strict=True)):
        inside = cell.text if isinstance(cell, Raw) else escape(cell)
        cells.append(tag("td" if at else "th", {**({} if at else {"scope": "row"}), **_class(column)}, inside))
    return cells


def _class(column: TableColumn) -> Attributes:
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


def sheet() -> str:
    """Light; dark where the reader likes it dark or asks for it; light on paper."""
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
    """The class of each site, the same in all plots."""
    return {site: f"site{number % len(SITES)}" for number, site in enumerate(sorted(set(sites)))}


def service_class(service: str) -> str:
    """That of the pictures; a service that is not known has a plain one."""
    name = service.lower()
    return f"service-{name}" if name in _SERVICE_NAMES else "service-other"


def service_order(services: Iterable[str]) -> list[str]:
    """The weakest promise first; what is not known last."""
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


WIDTHS: Final = {"wide": 1104.0, "middle": 704.0, "narrow": 360.0}
"""Of the whole page: a desk, a tablet or a sheet of paper, a phone."""

HALVES: Final = {"large": 536.0, "small": 348.0}
"""Of plots that stand side by side; one of the small ones fills a phone."""
