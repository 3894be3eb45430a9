"""Makes the tables of an audit, one after the other, and takes them away again.

Every table is a temporary view whose name begins with `audit_`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from hopring.spark.audit import courses, lives, messages, read
from hopring.spark.audit.ends import Ends, rows_of
from hopring.spark.audit.masks import WORD_BITS, WORDS_MAX, Masks
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]
"""Told what is done next."""

ROWS_PER_PARTITION: Final = 400_000
PARTITIONS_MAX: Final = 2_000
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Tables:
    """The tables of one audit."""

    def __init__(self, spark: "SparkSession", say: Say) -> None:
        self.spark = spark
        self.masks = Masks(1)
        self._say = say
        self._names: list[str] = []
        self._pieces_before = int(spark.conf.get(_PARTITIONS) or PARTITIONS_MAX)

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """All of them, from the trace."""
        self._say("reading the trace")
        self._put("trace", read.of_daemons(trace))
        self._cut_into(partitions(0))
        self._keep("extent", read.EXTENT)
        self._cut_into(partitions(read.check_extent(self.spark, where)))
        self._make_lives(ends, otherwise)
        self._make_messages()
        self._make_order()

    def _make_lives(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        runs = [row["run"] for row in self.spark.sql("SELECT DISTINCT run FROM audit_extent").collect()]
        flags, components = rows_of(sorted(runs), ends, otherwise)
        self._put(
            "ends", self.spark.createDataFrame(flags, "run string, quiet boolean, counters_survive boolean")
        )
        self._put(
            "components", self.spark.createDataFrame(components, "run string, component int, daemon string")
        )
        self._say("who lived, in which views")
        self._keep("small", lives.SMALL)
        self._keep("people", lives.PEOPLE)
        self.masks = Masks(_words(self.spark))
        self._keep("lives", lives.lives(self.masks))
        self._keep("stays", lives.stays(self.masks))
        self._keep("rooms", lives.rooms(self.masks))
        self._keep("ways", lives.ways(self.masks))
        self._keep("owed", messages.owed(self.masks))

    def _make_messages(self) -> None:
        self._say("what was sent")
        self._keep("sends", messages.SENDS)
        self._say("what was delivered")
        self._keep("deliveries", messages.DELIVERIES)
        self._keep("never_sent", messages.NEVER_SENT)
        first = messages.FIRST_SENDS
        if not self.spark.table("audit_never_sent").isEmpty():
            first = f"{first} UNION ALL {messages.FOUNDLINGS}"
        self._keep("messages", messages.messages(self.masks, first))
        self._say("who has which message")
        self._keep("holdings", messages.holdings(self.masks))
        self._keep("reach", messages.reach(self.masks))

    def _make_order(self) -> None:
        self._say("in which order")
        self._keep("courses", courses.COURSES)
        self._keep("fifo", courses.FIFO)

    def _keep(self, name: str, query: str) -> None:
        """A table that is made now, and of whose making the queries over it know nothing.

        Tables are made of tables: with the whole way of their making in every query, the plans would grow as
        the powers of two do, and planning would take minutes.
        """
        self._put(name, self.spark.sql(query).localCheckpoint())

    def _put(self, name: str, table: "DataFrame") -> None:
        table.createOrReplaceTempView(f"audit_{name}")
        self._names.append(f"audit_{name}")

    def _cut_into(self, pieces: int) -> None:
        """As many pieces as the trace is long; Spark's default is for clusters, and slow for small traces."""
        self.spark.conf.set(_PARTITIONS, str(pieces))

    def drop(self) -> None:
        """Takes everything away again."""
        for name in self._names:
            self.spark.catalog.dropTempView(name)
        self._cut_into(self._pieces_before)


def partitions(rows: int) -> int:
    """How many pieces so many rows are cut into."""
    return max(2, min(PARTITIONS_MAX, rows // ROWS_PER_PARTITION))


def _words(spark: "SparkSession") -> int:
    row = spark.sql("SELECT max(number) AS top FROM audit_people").first()
    assert row is not None, "an aggregate has a row"
    words = int(row["top"]) // WORD_BITS + 1
    if words > WORDS_MAX:
        raise SparkError(
            f"one history with more than {WORDS_MAX * WORD_BITS} lives of daemons",
            "audit it in pieces, each a history of its own in a directory run=NAME",
        )
    return words
