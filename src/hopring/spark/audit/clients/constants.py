"""The columns of the tables that the driver makes of what sessions did, beside messages."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hopring.spark.audit import constants
from hopring.spark.audit.constants import COMPONENTS, ENDS, FLAG, NUMBER, SET, TEXT
from hopring.spark.audit.masks import Masks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPONENTS", "ENDS", "constant"]

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
    """The table of rows with their values in the order of the columns."""
    return constants.constant(spark, [dict(zip(columns, row, strict=True)) for row in rows], columns, m)
