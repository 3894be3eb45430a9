"""Gaps: what is missing in which spool, and why. Whatever columns the table has are shown."""

from datetime import datetime
from typing import Any, Final

from hopring.spark.report import words
from hopring.spark.report.html import Column, said, table
from hopring.spark.report.rows import Gold

COLUMNS_MAX: Final = 12
EXPLAINED: Final = "explained"
ROWS_MAX: Final = 2_000


def unexplained(gaps: Any) -> int | None:
    """How many have no reason; None if the table does not say."""
    if EXPLAINED not in gaps.column_names:
        return None
    return sum(value is False for value in gaps[EXPLAINED].to_pylist())


def gap_table(gaps: Any) -> str:
    """Without columns that are empty throughout; those without a reason first."""
    names = [name for name in gaps.column_names if gaps[name].null_count < gaps.num_rows][:COLUMNS_MAX]
    few = gaps.select(names).slice(0, ROWS_MAX)
    found = few.to_pylist()
    # Sorted by their text, so that the page does not depend on the order of the files.
    found.sort(key=lambda row: (row.get(EXPLAINED) is not False, [str(row[name]) for name in names]))
    rows = [[_cell(name, row[name]) for name in names] for row in found]
    columns = [Column(words.short(name).replace("_", " "), number=_is_number(gaps, name)) for name in names]
    return table("Gaps: what is missing in which spool", columns, rows, gaps.num_rows - few.num_rows)


def _is_number(gaps: Any, name: str) -> bool:
    return str(gaps.schema.field(name).type) in ("int32", "int64", "double", "float")


def _cell(name: str, value: object) -> str:
    match value:
        case None:
            return words.NOTHING
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return words.some(value)
        case datetime():
            return value.strftime("%H:%M:%S.%f")[:-3]
        case list():
            return words.names([str(one) for one in value], 8)
        case str() if name == "view":
            return words.group_view(value)
        case _:
            return words.short(str(value), 120)


def section(gold: Gold) -> tuple[str, str, str, str] | None:
    """The table; nothing if it was not made."""
    if gold.gaps is None:
        return None
    if not gold.gaps.num_rows:
        return "gaps", "Gaps", "", said("No gaps: every spool has all that the others have.", "empty")
    told = "What is missing in which spool, and why."
    if unexplained(gold.gaps) == 0:
        told += " All of it is explained: a spool on one side of a split has nothing of the other side."
    return "gaps", "Gaps", told, gap_table(gold.gaps)
