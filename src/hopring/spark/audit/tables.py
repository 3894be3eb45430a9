"""Makes the tables of an audit, one after the other, and takes them away again.

Every table is a temporary view whose name begins with `audit_`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.spark.audit import constants, courses, holdings, lives, messages, read, rooms
from hopring.spark.audit.ends import Ends, rows_of
from hopring.spark.audit.masks import LIVES_MAX, WORD_BITS, Masks
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]
"""Told what is done next."""

ROWS_PER_PARTITION: Final = 400_000
BROADCAST_MESSAGES_MAX: Final = 4_000_000
PARTITIONS_MAX: Final = 2_000
RARE_MAX: Final = 100_000
"""Rows of a table that go through the driver."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_COMPRESSED: Final = "spark.sql.inMemoryColumnarStorage.compressed"


class Tables:
    """The tables of one audit."""

    def __init__(self, spark: "SparkSession", say: Say) -> None:
        self.spark = spark
        self.masks = Masks(1)
        self.runs: tuple[str, ...] = ()
        self._say = say
        self._names: list[str] = []
        self._long: dict[str, DataFrame] = {}
        self._events = 0
        self._messages: int | None = None
        self._before = {name: str(spark.conf.get(name)) for name in (_PARTITIONS, _COMPRESSED)}
        # Numbers that lie anywhere gain little by it, and looking for what they would gain takes its time.
        spark.conf.set(_COMPRESSED, "false")

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """All of them, from the trace."""
        self._say("reading the trace")
        self._put("trace", read.of_daemons(trace))
        self._cut_into(partitions(0))
        self._keep_rare("extent", read.EXTENT)
        self._events = read.check_extent(self.spark, where)
        if trace.count() == self._events:
            self._put(
                "trace", trace
            )  # There is nothing of sessions that would have to be passed over each time.
        self._make_lives(ends, otherwise)
        self._cut_into(partitions(self._events))
        self._make_messages()
        self._make_holdings()
        self._make_order()
        self._cut_into(partitions(0))

    def _make_lives(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        self._say("who lived, in which views")
        self._keep_rare("small", lives.SMALL)
        extent, small = (
            [row.asDict() for row in self.spark.table(f"audit_{name}").collect()]
            for name in ("extent", "small")
        )
        people = lives.number_people(extent, small)
        self.runs = tuple(sorted(people))
        self.masks = Masks(_words(people))
        flags, components = rows_of(self.runs, ends, otherwise)
        self._constant("ends", [dict(zip(constants.ENDS, row, strict=True)) for row in flags], constants.ENDS)
        self._constant(
            "components",
            [dict(zip(constants.COMPONENTS, row, strict=True)) for row in components],
            constants.COMPONENTS,
        )
        lived = lives.lives_of(extent, small, people, ends, otherwise)
        stays = lives.stays_of(lived, people)
        self._constant("people", lives.people_rows(people), constants.PEOPLE)
        self._constant("lives", lives.life_rows(lived), constants.LIVES)
        self._constant("stays", lives.stay_rows(stays), constants.STAYS)
        self._constant("rooms", rooms.room_rows(stays), constants.ROOMS)
        self._constant("ways", rooms.way_rows(stays), constants.WAYS)
        self._constant("owed", rooms.owed_rows(stays), constants.OWED)

    def _make_messages(self) -> None:
        self._say("what was sent")
        self._view("doors", messages.DOORS)
        self._view("letters", messages.LETTERS)
        self._keep_long("sends", messages.SENDS)
        self._keep_rare("wrong", messages.WRONG)
        self._keep_rare("odd", messages.ODD)
        self._keep_rare("twice", messages.TWICE)
        self._keep_rare("ties", messages.TIES)
        seen = self._is_any("twice") or self._is_any("ties")
        self._make_deliveries(messages.FIRST_OF_TWO if seen else messages.FIRST_SENDS, seen)
        first = messages.FIRST_OF_TWO
        self._keep_rare("missing", holdings.MISSING)
        if self._is_any("missing"):
            self._keep_rare("never_sent", messages.NEVER_SENT)
            first, seen = f"{first} UNION ALL {messages.FOUNDLINGS}", True
            self._make_deliveries(first, seen)
        self._constant("alike", [], constants.ALIKE)
        if seen:
            self._keep_rare("alike", messages.ALIKE)
        self._view("named", messages.named(first))
        self._view("posts", messages.POSTS)
        self._view("deliveries", holdings.DELIVERIES)

    def _make_deliveries(self, first: str, seen: bool) -> None:
        """Messages as far as they are known, and deliveries with the places of these."""
        self._keep_long("messages", messages.messages(first, seen))
        self._say("what was delivered")
        self._keep_long("delivered", holdings.delivered(self._hint()))

    def _make_holdings(self) -> None:
        self._say("who has which message")
        self._keep_long("reach", holdings.reach(self.masks))
        self._keep_rare("scattered", holdings.SCATTERED)
        self._keep_rare("apart", holdings.apart(self.masks))
        self._view("pieces", holdings.pieces(self.masks))
        patterns = holdings.patterns(self.masks)
        self._keep_rare("holdings", holdings.holdings(self.masks, patterns, named=False))

    def spell_out(self) -> None:
        """From now on holdings are of each message, with its name, and not of each pattern."""
        self._cut_into(partitions(self._events))
        self._keep_long("holdings", holdings.holdings(self.masks, "audit_pieces", named=True))

    def _make_order(self) -> None:
        self._say("in which order")
        self._keep_long("paces", courses.PACES)
        self._keep_rare("courses", courses.COURSES)
        self._keep_rare("fifo", courses.FIFO_LEGS)
        self._keep_rare("tops", courses.TOPS)

    def _keep(self, name: str, query: str) -> None:
        """A table that is made now, and of whose making the queries over it know nothing.

        Tables are made of tables: with the whole way of their making in every query, the plans would grow as
        the powers of two do, and planning would take minutes.
        """
        self._put(name, self.spark.sql(query).localCheckpoint())

    def _keep_rare(self, name: str, query: str) -> None:
        """The same for a table that is small, or should be: it comes to the driver, and goes out a constant."""
        rows = self.spark.sql(query).limit(RARE_MAX + 1).toArrow()
        if rows.num_rows <= RARE_MAX:
            self._put(name, constants.from_arrow(self.spark, rows))
        else:
            self._keep(name, query)

    def _constant(self, name: str, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
        self._put(name, constants.constant(self.spark, rows, columns, self.masks))

    def _keep_long(self, name: str, query: str) -> None:
        """A table of many rows: kept by columns, which is small and gives Java's collector nothing to do.

        Its making stays in the plans, so it must be made of kept tables only.
        """
        if name in self._long:
            self._long.pop(name).unpersist()
        table = self.spark.sql(query).persist()
        table.count()
        self._long[name] = table
        self._put(name, table)

    def _view(self, name: str, query: str) -> None:
        """Another look at tables that are kept."""
        self._put(name, self.spark.sql(query))

    def _is_any(self, name: str) -> bool:
        """Whether there is anything in a table."""
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
        """As many pieces as the trace is long; Spark's default is for clusters, and slow for small traces."""
        self.spark.conf.set(_PARTITIONS, str(pieces))

    def drop(self) -> None:
        """Takes everything away again."""
        for table in reversed(self._long.values()):
            table.unpersist()
        for name in self._names:
            self.spark.catalog.dropTempView(name)
        for name, value in self._before.items():
            self.spark.conf.set(name, value)


def partitions(rows: int) -> int:
    """How many pieces so many rows are cut into."""
    return max(2, min(PARTITIONS_MAX, rows // ROWS_PER_PARTITION))


def _words(people: Mapping[str, lives.People]) -> int:
    words = max(len(names) - 1 for names in people.values()) // WORD_BITS + 1
    if words * WORD_BITS > LIVES_MAX:
        raise SparkError(
            f"one history with more than {LIVES_MAX} lives of daemons",
            "audit it in pieces, each a history of its own in a directory run=NAME",
        )
    return words
