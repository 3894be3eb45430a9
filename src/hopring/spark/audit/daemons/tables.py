"""Makes the tables of an audit of daemons, in the order of their dependencies."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hopring.check.properties.sql import LIVES_MAX, WORD_BITS, Masks
from hopring.spark.audit import reading, tables
from hopring.spark.audit.daemons import lives, messages
from hopring.spark.audit.reading import Ends, rows_of
from hopring.spark.audit.tables import Tables, partitions
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DaemonTables(Tables):
    """The tables of one audit of daemons."""

    has_patterns = True

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """Makes all tables from the trace."""
        self.say("reading the trace")
        self._put("trace", reading.of_daemons(trace))
        self._cut_into(partitions(0))
        self._keep_rare("extent", reading.EXTENT)
        self._events = reading.check_extent(self.spark, where)
        if trace.count() == self._events:
            # Without rows of sessions, which each query would have to skip.
            self._put("trace", trace)
        self._make_lives(ends, otherwise)
        self._cut_into(partitions(self._events))
        self._make_messages()
        self._make_holdings()
        self._make_order()
        self._cut_into(partitions(0))

    def _make_lives(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        self.say("lives and views")
        self._keep_rare("small", lives.SMALL)
        extent, small = (
            [row.asDict() for row in self.spark.table(f"audit_{name}").collect()]
            for name in ("extent", "small")
        )
        numbers = lives.number_processes(extent, small)
        self.runs = tuple(sorted(numbers))
        self.masks = Masks(_words(numbers))
        flags, components = rows_of(self.runs, ends, otherwise)
        self._constant("ends", [dict(zip(tables.ENDS, row, strict=True)) for row in flags], tables.ENDS)
        self._constant(
            "components",
            [dict(zip(tables.COMPONENTS, row, strict=True)) for row in components],
            tables.COMPONENTS,
        )
        lived = lives.lives_of(extent, small, numbers, ends, otherwise)
        stays = lives.stays_of(lived, numbers)
        self._constant("processes", lives.process_rows(numbers), tables.DAEMON_PROCESSES)
        self._constant("lives", lives.life_rows(lived), tables.LIVES)
        self._constant("stays", lives.stay_rows(stays), tables.DAEMON_STAYS)
        self._constant("views", lives.view_rows(stays), tables.DAEMON_VIEWS)
        self._constant("moves", lives.move_rows(stays), tables.MOVES)
        self._constant("owed", lives.owed_rows(stays), tables.DAEMON_OWED)

    def _make_messages(self) -> None:
        self.say("sends")
        self._view("stay_keys", messages.STAY_KEYS)
        self._view("named_sends", messages.NAMED_SENDS)
        self._keep_long("sends", messages.SENDS)
        self._keep_rare("wrong", messages.WRONG)
        self._keep_rare("odd", messages.ODD)
        self._keep_rare("twice", messages.TWICE)
        self._keep_rare("ties", messages.TIES)
        seen = self._is_any("twice") or self._is_any("ties")
        self._make_deliveries(messages.FIRST_OF_TWO if seen else messages.FIRST_SENDS, seen)
        first = messages.FIRST_OF_TWO
        self._keep_rare("missing", messages.MISSING)
        if self._is_any("missing"):
            self._keep_rare("never_sent", messages.NEVER_SENT)
            first, seen = f"{first} UNION ALL {messages.UNSENT}", True
            self._make_deliveries(first, seen)
        self._constant("alike", [], tables.ALIKE)
        if seen:
            self._keep_rare("alike", messages.ALIKE)
        self._view("named", messages.named(first))
        self._view("posts", messages.POSTS)
        self._view("deliveries", messages.DELIVERIES)

    def _make_deliveries(self, first: str, seen: bool) -> None:
        """Messages as far as they are known, and deliveries with the places of these."""
        self._keep_long("messages", messages.messages(first, seen))
        self.say("deliveries")
        self._keep_long("delivered", messages.delivered(self._hint()))

    def _make_holdings(self) -> None:
        self.say("holders of messages")
        self._keep_long("reach", messages.reach(self.masks))
        self._keep_rare("scattered", messages.SCATTERED)
        self._keep_rare("apart", messages.apart(self.masks))
        self._view("pieces", messages.pieces(self.masks))
        patterns = messages.patterns(self.masks)
        self._keep_rare("holdings", messages.holdings(self.masks, patterns, named=False))

    def spell_out(self) -> None:
        """From now on holdings are of each message, with its name, and not of each pattern."""
        self._cut_into(partitions(self._events))
        self._keep_long("holdings", messages.holdings(self.masks, "audit_pieces", named=True))

    def _make_order(self) -> None:
        self.say("order of events")
        self._keep_long("paces", messages.PACES)
        self._keep_rare("courses", messages.COURSES)
        self._keep_rare("fifo", messages.FIFO_LEGS)
        self._keep_rare("tops", messages.TOPS)
        self._view("missteps", messages.MISSTEPS)
        self._view("unsorted", messages.UNSORTED)


def _words(numbers: Mapping[str, lives.Numbers]) -> int:
    words = max(len(names) - 1 for names in numbers.values()) // WORD_BITS + 1
    if words * WORD_BITS > LIVES_MAX:
        raise SparkError(
            f"one history with more than {LIVES_MAX} lives of daemons",
            "audit it in pieces, each a history of its own in a directory run=NAME",
        )
    return words
