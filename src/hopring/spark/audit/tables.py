"""The tables of an audit while it runs: their columns, how they are made and kept, and dropped again.

Every table is a temporary view whose name begins with `audit_`. Daemons and clients have tables of the same
names with columns of their own; the two audits never run at the same time.

Rows that the driver has made become constants of Spark. Spark knows the size of a constant, gives it to every
worker instead of sorting both sides of a join, and leaves out everything that depends on an empty one.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.check.properties.sql import WORD_BITS, Masks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from collections.abc import Callable

from hopring.spark.audit.reading import Ends

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
    **{"before_members": SET, "after_together": SET, "primary": TEXT},
}
DAEMON_VIEWS: Final = _VIEW | {"nth": NUMBER, "installed": SET, "ended": SET, "signalled": SET}
MOVES: Final = _VIEW | {"id": NUMBER, "process": TEXT, "after_view": TEXT, "self": SET, "companions": SET}
DAEMON_OWED: Final = {"view_id": NUMBER, "kind": TEXT, "owed": SET, "said_by": SET}
SURVIVORS: Final = {"view_id": NUMBER, "resilience": "int32", "owed": SET}
OUTSIDE: Final = {"view_id": NUMBER, "early": SET, "late": SET}
KEPT: Final = {
    **{"place": NUMBER, "view_id": NUMBER, "resilience": "int32", "early": SET, "late": SET, "held": SET},
    **{"got": SET},
}
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
STEADY: Final = {"group_id": NUMBER, "ord_view": TEXT, "resilience": "int32", "steady": SET}
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


Say = Callable[[str], None]
"""Called with the step that begins."""

ROWS_PER_PARTITION: Final = 400_000
BROADCAST_MESSAGES_MAX: Final = 4_000_000
PARTITIONS_MAX: Final = 2_000
RARE_MAX: Final = 100_000
"""Rows of a table that go through the driver."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_COMPRESSED: Final = "spark.sql.inMemoryColumnarStorage.compressed"


NEAR_PROCESSES_MAX: Final = 64
NEAR_POSITIONS_MAX: Final = 10
"""More positions of one process are a range: Spark gives a longer list to Parquet as one, too."""


def near(trace: "DataFrame", places: Iterable[tuple[str, int]]) -> "DataFrame":
    """The events at these processes and positions, with some others; all, if that saves nothing.

    By such a condition most of a Parquet file is skipped, while a join reads all of it.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    positions: dict[str, set[int]] = {}
    for process, position in places:
        positions.setdefault(process, set()).add(position)
    if len(positions) > NEAR_PROCESSES_MAX:
        return trace
    found = F.lit(False)
    for process, its in sorted(positions.items()):
        at = F.col("position")
        there = at.isin(*sorted(its)) if len(its) <= NEAR_POSITIONS_MAX else at.between(min(its), max(its))
        found |= (F.col("process") == process) & there
    return trace.where(found)


class Tables:
    """The tables of one audit."""

    has_patterns = False  # Whether its holdings are of patterns of messages first.

    def __init__(self, spark: "SparkSession", say: Say) -> None:
        self.spark = spark
        self.masks = Masks(1)
        self.runs: tuple[str, ...] = ()
        self.say = say
        self._names: list[str] = []
        self._long: dict[str, DataFrame] = {}
        self._events = 0
        self._messages: int | None = None
        self._before = {name: str(spark.conf.get(name)) for name in (_PARTITIONS, _COMPRESSED)}
        # Scattered numbers hardly compress, and the attempt takes time.
        spark.conf.set(_COMPRESSED, "false")

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """Makes all tables from the trace."""
        raise NotImplementedError

    def spell_out(self, places: Iterable[int], *, misplaced: bool) -> None:
        """From now on holdings are of the messages of these patterns, with their names."""

    def _keep(self, name: str, query: str) -> None:
        """Computes a table now, and hides its origin from the queries over it.

        Tables are made from tables: with all origins in every query, plans would grow exponentially, and
        planning would take minutes.
        """
        self._put(name, self.spark.sql(query).localCheckpoint())

    def _keep_rare(self, name: str, query: str) -> None:
        """The same for a table that should be small: it goes through the driver and becomes a constant."""
        rows = self.spark.sql(query).limit(RARE_MAX + 1).toArrow()
        if rows.num_rows <= RARE_MAX:
            self._put(name, from_arrow(self.spark, rows))
        else:
            self._keep(name, query)

    def _constant(self, name: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        self._put(name, constant(self.spark, rows, columns, self.masks))

    def _keep_long(self, name: str, query: str) -> None:
        """Keeps a table of many rows by columns, which is compact and spares Java's garbage collector.

        Its origin stays in the plans, so it must be made from kept tables only.
        """
        if name in self._long:
            self._long.pop(name).unpersist()
        table = self.spark.sql(query).persist()
        table.count()
        self._long[name] = table
        self._put(name, table)

    def _view(self, name: str, query: str) -> None:
        """Another view of kept tables."""
        self._put(name, self.spark.sql(query))

    def _is_any(self, name: str) -> bool:
        """Whether a table has any rows."""
        return not self.spark.table(f"audit_{name}").isEmpty()

    def _hint(self) -> str:
        """Whether messages are few enough to be given to every worker, which saves sorting the deliveries."""
        if self._messages is None:
            self._messages = self.spark.table("audit_sends").count()
        return "/*+ BROADCAST(m) */" if self._messages <= BROADCAST_MESSAGES_MAX else ""

    def _put(self, name: str, table: "DataFrame") -> None:
        # Its columns anew, under the same names: a table that was made of another keeps the other's
        # columns as its own, and then Spark cannot tell them apart where the two are joined.
        table.toDF(*table.columns).createOrReplaceTempView(f"audit_{name}")
        self._names.append(f"audit_{name}")

    def _cut_into(self, pieces: int) -> None:
        """Sets the number of partitions; Spark's default is for clusters, and slow for small traces."""
        self.spark.conf.set(_PARTITIONS, str(pieces))

    def drop(self) -> None:
        """Drops all tables and restores the settings of the session."""
        for table in reversed(self._long.values()):
            table.unpersist()
        for name in self._names:
            self.spark.catalog.dropTempView(name)
        for name, value in self._before.items():
            self.spark.conf.set(name, value)


def partitions(rows: int) -> int:
    """The number of partitions for this many rows."""
    return max(2, min(PARTITIONS_MAX, rows // ROWS_PER_PARTITION))
