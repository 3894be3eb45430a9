"""Rows that the driver has made, as a table that Spark takes for a constant.

So Spark knows its size, and gives it to every worker instead of sorting both sides of a join.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hopring.spark.audit.masks import WORD_BITS, Masks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SET: Final = "set"
TEXT: Final = "string"
NUMBER: Final = "int64"
FLAG: Final = "bool"

_WHO: Final = {"run": TEXT, "process": TEXT}
_WHERE: Final = {
    "room": NUMBER,
    "group_id": NUMBER,
    "run": TEXT,
    "group_name": TEXT,
    "view": TEXT,
    "nth": NUMBER,
}

BORDERS: Final = _WHO | {"daemon": TEXT, "kind": TEXT, "file": TEXT, "row": NUMBER}
ENDS: Final = {"run": TEXT, "quiet": FLAG, "counters_survive": FLAG}
COMPONENTS: Final = {"run": TEXT, "component": NUMBER, "daemon": TEXT}
SMALL: Final = _WHO | {"position": NUMBER, "kind": TEXT, "group_name": TEXT}
SESSIONS: Final = _WHO | {
    **{"id": NUMBER, "daemon": TEXT, "high": NUMBER, "connected": FLAG, "private_group": TEXT},
    **{"asked_end": NUMBER, "gone_at": NUMBER, "crashed": FLAG, "ends": FLAG, "alive": FLAG},
}
PEOPLE: Final = _WHO | {
    **{"group_id": NUMBER, "group_name": TEXT, "session_id": NUMBER, "number": NUMBER, "shown": FLAG},
    **{"self": SET},
}
STAYS: Final = _WHERE | {
    **{"id": NUMBER, "session_id": NUMBER, "process": TEXT, "begins": NUMBER, "leaves": FLAG, "ended": FLAG},
    **{"earlier_view": TEXT, "before_view": TEXT, "after_view": TEXT, "signals": NUMBER},
    **{"misplaced_signal": NUMBER, "self": SET, "members": SET, "together": SET, "before_members": SET},
    **{"after_together": SET, "signal_together": SET},
}
ROOMS: Final = _WHERE | {"installed": SET, "signalled": SET}
OWED: Final = {"room": NUMBER, "kind": TEXT, "owed": SET, "said_by": SET, "gone": SET}
WISHES: Final = _WHO | {
    **{"daemon": TEXT, "group_id": NUMBER, "group_name": TEXT, "view": TEXT, "leaves": FLAG},
    **{"self": SET, "members": SET},
}
STRAYS: Final = _WHO | {"position": NUMBER}
SPANS: Final = {
    **{"run": TEXT, "process": TEXT, "group_name": TEXT, "piece": NUMBER, "begins": NUMBER, "ends": NUMBER},
    **{"private": FLAG, "wanted": FLAG, "parting": FLAG, "last_leave_at": NUMBER, "group_id": NUMBER},
    **{"number": NUMBER, "stay_id": NUMBER, "room": NUMBER, "cut": NUMBER},
}


def constant(
    spark: "SparkSession", rows: Iterable[Sequence[Any]], columns: Mapping[str, str], m: Masks
) -> "DataFrame":
    """The table of rows with their values in the order of the columns; a set has a column for each word."""
    import pyarrow as pa  # noqa: PLC0415  An extra.

    listed = list(rows)
    found = zip(*listed, strict=True) if listed else [()] * len(columns)
    arrays: dict[str, Any] = {}
    for (name, kind), values in zip(columns.items(), found, strict=True):
        if kind != SET:
            arrays[name] = pa.array(values, kind)
            continue
        for word in range(m.words):
            arrays[f"{name}{word}"] = pa.array([_word(value, word) for value in values], NUMBER)
    return spark.createDataFrame(pa.table(arrays))


def _word(bits: int, word: int) -> int:
    """One word of a set, as a number with a sign."""
    value = bits >> word * WORD_BITS & (1 << WORD_BITS) - 1
    return value - (1 << WORD_BITS) if value >> WORD_BITS - 1 else value
