"""Ids in records as the text that the trace has for them, so that the two can be joined."""

from pyspark.sql import Column
from pyspark.sql import functions as F


def _hex(number: str, digits: int) -> str:
    return f"lpad(lower(hex({number})), {digits}, '0')"


def view_text(struct: str) -> Column:
    """A view of daemons; null where a record has none. It is `check.trace_names.view_text`."""
    parts = [_hex(f"{struct}.counter", 16), _hex(f"{struct}.representative", 4), _hex(f"{struct}.nonce", 16)]
    return F.expr(f"CASE WHEN {struct}.counter <> 0 THEN concat_ws('.', {', '.join(parts)}) END")


def group_view_text() -> Column:
    """The view of its group that a record is in, as far as records carry it: of a closing one not the way."""
    step = F.expr(f"concat(CASE WHEN view.step < 0 THEN '/..-' ELSE '-' END, {_hex('abs(view.step)', 8)})")
    return F.concat(view_text("view"), step)
