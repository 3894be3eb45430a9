"""The tables of an audit while it runs: how they are kept, and dropped again.

Every table is a temporary view whose name begins with `audit_`. Daemons and clients have tables of the same
names with columns of their own; the two audits never run at the same time.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.check.properties.sql import Masks
from hopring.spark.audit import constants
from hopring.spark.audit.reading import Ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]
"""Called with the step that begins."""

ROWS_PER_PARTITION: Final = 400_000
BROADCAST_MESSAGES_MAX: Final = 4_000_000
PARTITIONS_MAX: Final = 2_000
RARE_MAX: Final = 100_000
"""Rows of a table that go through the driver."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_COMPRESSED: Final = "spark.sql.inMemoryColumnarStorage.compressed"


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

    def spell_out(self) -> None:
        """From now on holdings are of each message, with its name, and not of each pattern."""

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
            self._put(name, constants.from_arrow(self.spark, rows))
        else:
            self._keep(name, query)

    def _constant(self, name: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        self._put(name, constants.constant(self.spark, rows, columns, self.masks))

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
