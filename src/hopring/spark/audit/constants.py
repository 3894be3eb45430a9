"""Rows that the driver has made, as tables that Spark takes for constants; and the columns of these tables.

Spark knows the size of a constant, gives it to every worker instead of sorting both sides of a join, and leaves
out whatever depends on an empty one.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.check.properties.sql import WORD_BITS, Masks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SET: Final = "set"
TEXT: Final = "string"
NUMBER: Final = "int64"
FLAG: Final = "bool"

ENDS: Final = {"run": TEXT, "quiet": FLAG, "counters_survive": FLAG}
COMPONENTS: Final = {"run": TEXT, "component": NUMBER, "daemon": TEXT}

# Daemons.

_WHO: Final = {"run": TEXT, "process": TEXT}
_VIEW: Final = {"run": TEXT, "view_id": NUMBER, "view": TEXT}

DAEMON_PROCESSES: Final = _WHO | {"number": NUMBER, "self": SET}
LIVES: Final = _WHO | {
    **{"daemon": TEXT, "high": NUMBER, "number": NUMBER, "start": NUMBER, "starts": NUMBER},
    **{"crashed": FLAG, "alive": FLAG, "self": SET},
}
DAEMON_STAYS: Final = _WHO | {
    **{"id": NUMBER, "view_id": NUMBER, "stay": NUMBER, "nth": NUMBER, "view": TEXT, "begins": NUMBER},
    **{"ends": NUMBER, "members": SET, "together": SET, "cut": NUMBER, "signals": NUMBER},
    **{"misplaced_signal": NUMBER, "signal_together": SET, "ended": FLAG, "daemon": TEXT, "alive": FLAG},
    **{"self": SET, "group_name": TEXT, "earlier_view": TEXT, "before_view": TEXT, "after_view": TEXT},
    **{"before_members": SET, "after_together": SET},
}
DAEMON_VIEWS: Final = _VIEW | {"nth": NUMBER, "installed": SET, "ended": SET, "signalled": SET}
MOVES: Final = _VIEW | {"id": NUMBER, "process": TEXT, "after_view": TEXT, "self": SET, "companions": SET}
DAEMON_OWED: Final = {"view_id": NUMBER, "kind": TEXT, "owed": SET, "said_by": SET}
ALIKE: Final = {"place": NUMBER, "other_place": NUMBER}

# Clients.

_WHERE: Final = {
    "view_id": NUMBER,
    "group_id": NUMBER,
    "run": TEXT,
    "group_name": TEXT,
    "view": TEXT,
    "nth": NUMBER,
}

BORDERS: Final = _WHO | {"daemon": TEXT, "kind": TEXT, "file": TEXT, "row": NUMBER}
SESSION_SMALL: Final = _WHO | {"position": NUMBER, "kind": TEXT, "group_name": TEXT}
SESSIONS: Final = _WHO | {
    **{"id": NUMBER, "daemon": TEXT, "high": NUMBER, "connected": FLAG, "private_group": TEXT},
    **{"asked_end": NUMBER, "gone_at": NUMBER, "crashed": FLAG, "ends": FLAG, "alive": FLAG},
}
SESSION_PROCESSES: Final = _WHO | {
    **{"group_id": NUMBER, "group_name": TEXT, "session_id": NUMBER, "number": NUMBER, "shown": FLAG},
    **{"self": SET},
}
SESSION_STAYS: Final = _WHERE | {
    **{"id": NUMBER, "session_id": NUMBER, "process": TEXT, "stay": NUMBER, "begins": NUMBER},
    **{"leaves": FLAG, "ended": FLAG},
    **{"earlier_view": TEXT, "before_view": TEXT, "after_view": TEXT, "signals": NUMBER},
    **{"misplaced_signal": NUMBER, "self": SET, "members": SET, "together": SET, "before_members": SET},
    **{"after_together": SET, "signal_together": SET},
}
SESSION_VIEWS: Final = _WHERE | {"installed": SET, "signalled": SET}
SESSION_OWED: Final = {"view_id": NUMBER, "kind": TEXT, "owed": SET, "said_by": SET, "gone": SET}
WISHES: Final = _WHO | {
    **{"daemon": TEXT, "group_id": NUMBER, "group_name": TEXT, "view": TEXT, "leaves": FLAG},
    **{"self": SET, "members": SET},
}
STRAYS: Final = _WHO | {"position": NUMBER}
SPANS: Final = {
    **{"run": TEXT, "process": TEXT, "group_name": TEXT, "piece": NUMBER, "begins": NUMBER, "ends": NUMBER},
    **{"private": FLAG, "wanted": FLAG, "parting": FLAG, "last_leave_at": NUMBER, "group_id": NUMBER},
    **{"number": NUMBER, "stay_id": NUMBER, "view_id": NUMBER, "cut": NUMBER},
}


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
    """A table of the driver, with its schema: Spark Connect cannot infer that of an empty one."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  An extra.

    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema))


def _word(bits: int, word: int) -> int:
    """One word of a set, as a number with a sign."""
    value = bits >> word * WORD_BITS & (1 << WORD_BITS) - 1
    return value - (1 << WORD_BITS) if value >> WORD_BITS - 1 else value
