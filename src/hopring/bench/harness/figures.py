"""Figures of several runs as one, and tables that are both plain text and Markdown."""

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

Row = Sequence[str]
WORST: Final = frozenset({"lost", "others_cpu_share", "max_us"})

Figures = dict[str, Any]


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
