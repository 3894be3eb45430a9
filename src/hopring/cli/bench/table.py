"""Tables of figures, for a terminal or for a page: the same text is both, Markdown with its columns in line."""

from collections.abc import Sequence

Row = Sequence[str]


def table(head: Row, rows: Sequence[Row]) -> str:
    """Names on the left, figures on the right."""
    widths = [max(3, *[len(row[at]) for row in (head, *rows)]) for at in range(len(head))]
    line = [":" + "-" * (widths[0] - 1), *["-" * (width - 1) + ":" for width in widths[1:]]]
    return "\n".join([_line(row, widths) for row in (head, line, *rows)])


def _line(row: Row, widths: Sequence[int]) -> str:
    cells = [
        row[0].ljust(widths[0]),
        *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)],
    ]
    return f"| {' | '.join(cells)} |"
