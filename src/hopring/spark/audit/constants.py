"""Rows that the driver has made, as a table that Spark takes for a constant.

So Spark knows its size, gives it to every worker instead of sorting both sides of a join, and leaves out what
depends on an empty one.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.spark.audit.masks import WORD_BITS, Masks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SET: Final = "set"
TEXT: Final = "string"
NUMBER: Final = "int64"
FLAG: Final = "bool"

_IN: Final = {"run": TEXT, "process": TEXT}
_VIEW: Final = {"run": TEXT, "room": NUMBER, "view": TEXT}

PEOPLE: Final = _IN | {"number": NUMBER, "self": SET}
LIVES: Final = _IN | {
    **{"daemon": TEXT, "high": NUMBER, "number": NUMBER, "start": NUMBER, "starts": NUMBER},
    **{"crashed": FLAG, "alive": FLAG, "self": SET},
}
STAYS: Final = _IN | {
    **{"id": NUMBER, "room": NUMBER, "stay": NUMBER, "nth": NUMBER, "view": TEXT, "begins": NUMBER},
    **{"ends": NUMBER, "members": SET, "together": SET, "cut": NUMBER, "signals": NUMBER},
    **{"misplaced_signal": NUMBER, "signal_together": SET, "ended": FLAG, "daemon": TEXT, "alive": FLAG},
    **{"self": SET, "before_view": TEXT, "after_view": TEXT, "before_members": SET, "after_together": SET},
}
ROOMS: Final = _VIEW | {"nth": NUMBER, "installed": SET, "ended": SET, "signalled": SET}
WAYS: Final = _VIEW | {"id": NUMBER, "process": TEXT, "after_view": TEXT, "self": SET, "friends": SET}
OWED: Final = {"room": NUMBER, "behind": FLAG, "owed": SET, "said_by": SET}
ENDS: Final = {"run": TEXT, "quiet": FLAG, "counters_survive": FLAG}
ALIKE: Final = {"place": NUMBER, "other_place": NUMBER}
COMPONENTS: Final = {"run": TEXT, "component": NUMBER, "daemon": TEXT}


def constant(
    spark: "SparkSession", rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], m: Masks
) -> "DataFrame":
    """The table; of a set as many columns as it has words."""
    import pyarrow as pa  # noqa: PLC0415  An extra.

    listed = list(rows)
    arrays: dict[str, Any] = {}
    for name, kind in columns.items():
        values = [row[name] for row in listed]
        if kind != SET:
            arrays[name] = pa.array(values, kind)
            continue
        for word in range(m.words):
            arrays[f"{name}{word}"] = pa.array([_word(value, word) for value in values], NUMBER)
    return from_arrow(spark, pa.table(arrays))


def from_arrow(spark: "SparkSession", table: Any) -> "DataFrame":
    """A table of the driver's; Spark Connect does not see for itself what an empty one would hold."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  An extra.

    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema))


def _word(bits: int, word: int) -> int:
    """One word of a set, as a number with a sign."""
    value = bits >> word * WORD_BITS & (1 << WORD_BITS) - 1
    return value - (1 << WORD_BITS) if value >> WORD_BITS - 1 else value
