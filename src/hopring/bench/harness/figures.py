"""Figures of several runs as one, and tables that are both plain text and Markdown."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

Row = Sequence[str]
WORST: Final = frozenset({"lost", "others_cpu_share", "max_us"})

Figures = dict[str, Any]
CLEAR: Final = "clear"
SEALED: Final = "sealed"
TLS: Final = "tls"


def summary(runs: Sequence[Figures]) -> Figures:
    """The median of each figure; the maximum of losses; a flag only if all runs have it."""
    return {name: _of_all(name, [run[name] for run in runs]) for name in runs[0]}


def _of_all(name: str, values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return summary(values)
    if isinstance(values[0], bool):
        return all(values)
    if name in WORST:
        return max(values)
    return round(median(values), 3) if isinstance(values[0], int | float) else values[0]


def spread_percent(values: Sequence[float]) -> float:
    """The range of values, in percent of their median."""
    middle = median(values)
    return round((max(values) - min(values)) / middle * 100, 1) if middle else 0.0


def both_columns(clear: Figures, encrypted: Figures, *, kind: str = SEALED) -> Figures:
    """The figures without and with encryption, and the ratio of each: encrypted by clear."""
    return {CLEAR: clear, kind: encrypted, "ratio": _ratios(clear, encrypted)}


def _ratios(clear: Figures, sealed: Figures) -> Figures:
    ratios: Figures = {}
    for name, value in clear.items():
        if isinstance(value, dict):
            ratios[name] = _ratios(value, sealed[name])
        elif isinstance(value, int | float) and not isinstance(value, bool):
            ratios[name] = round(sealed[name] / value, 3) if value else None
    return ratios


def both_columns_text(both: Figures, kind: str = SEALED) -> str:
    """The same as a table: figure, clear, encrypted, ratio."""
    rows = [
        [name, _shown(value), _shown(_find(both[kind], name)), _shown(_find(both["ratio"], name))]
        for name, value in _flat(both[CLEAR])
    ]
    return table(["figure", CLEAR, kind, "ratio"], rows)


def _flat(figures: Figures, prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in figures.items():
        flat += _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return flat


def _find(figures: Figures, name: str) -> Any:
    found: Any = figures
    for part in name.split(" "):
        found = found.get(part)
    return found


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def table(head: Row, rows: Sequence[Row]) -> str:
    """A table with names on the left and figures on the right."""
    widths = [max(3, *[len(row[at]) for row in (head, *rows)]) for at in range(len(head))]
    line = [":" + "-" * (widths[0] - 1), *["-" * (width - 1) + ":" for width in widths[1:]]]
    return "\n".join([_line(row, widths) for row in (head, line, *rows)])


def _line(row: Row, widths: Sequence[int]) -> str:
    cells = [
        row[0].ljust(widths[0]),
        *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)],
    ]
    return f"| {' | '.join(cells)} |"
