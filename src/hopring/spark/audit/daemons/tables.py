"""Makes the tables of an audit of daemons, in the order of their dependencies."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from hopring.check.properties.sql import LIVES_MAX, WORD_BITS, Masks
from hopring.spark.audit import reading, tables
from hopring.spark.audit.daemons import lives, messages
from hopring.spark.audit.reading import Ends, rows_of
from hopring.spark.audit.tables import Tables, near, partitions
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEAR_MAX: Final = 1_000
"""Events, messages or stays that are named in a query, one by one."""


class DaemonTables(Tables):
    """The tables of one audit of daemons."""

    has_patterns = True
    _stays: list[lives.DaemonStay]
    _names_query: str

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
        stays = self._stays = lives.stays_of(lived, numbers)
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
        self._view("sent_names", messages.SENT_NAMES)
        self._keep_long("sends", messages.SENDS)
        self._keep_rare("wrong", messages.WRONG)
        self._keep_rare("odd", messages.ODD)
        self._keep_rare("twice", messages.TWICE)
        self._keep_rare("ties", messages.TIES)
        seen = self._is_any("twice") or self._is_any("ties")
        if seen:
            self._keep_rare("doubtful", messages.DOUBTFUL)
        first, names = messages.FIRST_OF_TWO if seen else messages.FIRST_SENDS, messages.NAMES
        self._make_deliveries(first, seen)
        self._keep_rare("missing", messages.MISSING)
        if self._is_any("missing"):
            names = f"{names} UNION ALL SELECT key, run, message, view FROM audit_unsent"
            self._make_unsent(seen)
        self._constant("alike", [], tables.ALIKE)
        if seen or self._is_any("missing"):
            self._keep_rare("alike", messages.ALIKE)
        self._names_query = names
        self._view("named", messages.named(names))
        self._view("posts", messages.POSTS)
        self._view("deliveries", messages.DELIVERIES)

    def _make_deliveries(self, first: str, seen: bool) -> None:
        """Messages as far as they are known, and deliveries with the places of these."""
        self._keep_long("known_messages", messages.messages(first, seen))
        self._view("messages", "SELECT * FROM audit_known_messages")
        self.say("deliveries")
        self._keep_long("known_deliveries", messages.delivered(self._hint()))
        self._view("delivered", "SELECT * FROM audit_known_deliveries")

    def _make_unsent(self, seen: bool) -> None:
        """Messages that were delivered and never sent, and their deliveries.

        A few get places between the others. Many, or some among messages of one stamp, are sorted with all.
        """
        self.say("messages that nobody sent")
        self._put_near_trace(messages.MISSING_AT)
        self._keep_rare("strange_rows", messages.STRANGE_ROWS)
        self._keep_rare("unsent", messages.UNSENT)
        few = self.spark.table("audit_unsent").count() <= messages.UNSENT_MAX
        if not few or self._is_any("ties"):
            if not seen:
                self._constant("doubtful", [], {"key": tables.NUMBER})
            self._make_deliveries(f"{messages.FIRST_OF_TWO} UNION ALL SELECT * FROM audit_unsent", seen=True)
            return
        self._keep_rare("unsent_messages", messages.PLACED_BETWEEN)
        both = "SELECT * FROM audit_known_messages UNION ALL SELECT * FROM audit_unsent_messages"
        self._view("messages", both)
        self._keep_rare("strange", messages.STRANGE)
        known = "SELECT * FROM audit_known_deliveries WHERE place IS NOT NULL"
        self._view("delivered", f"{known} UNION ALL SELECT * FROM audit_strange")

    def _put_near_trace(self, query: str) -> None:
        """The events at these processes and positions; all events, if these are many or not known."""
        places = [tuple(row) for row in self.spark.sql(query).limit(NEAR_MAX + 1).collect()]
        trace = self.spark.table("audit_trace")
        few = len(places) <= NEAR_MAX and all(process is not None for process, _ in places)
        self._put("near_trace", near(trace, places) if few else trace)

    def _make_holdings(self) -> None:
        self.say("holders of messages")
        self._keep_long("reach", messages.reach(self.masks))
        self._keep_rare("scattered", messages.SCATTERED)
        scattered = self._few("SELECT place FROM audit_scattered")
        self._view("delivered_apart", messages.only("audit_delivered", "place", scattered))
        self._keep_rare("apart", messages.apart(self.masks))
        self._view("pieces", messages.pieces(self.masks))
        patterns = messages.patterns(self.masks)
        self._keep_rare("holdings", messages.holdings(self.masks, patterns, named=False))
        self._keep_wrong_deliveries()
        self._make_resilience()

    def _keep_wrong_deliveries(self) -> None:
        """The deliveries that properties look at one by one: of the messages in the holdings."""
        places = self._few(messages.WRONG_PLACES)
        query = messages.only("audit_deliveries", "place", places)
        if places is None:
            self._view("wrong_deliveries", query)
        else:
            self._keep_rare("wrong_deliveries", query)

    def _few(self, query: str) -> list[int] | None:
        """The numbers that a query finds; None if there are too many to name them."""
        rows = self.spark.sql(query).limit(NEAR_MAX + 1).collect()
        return [row[0] for row in rows] if len(rows) <= NEAR_MAX else None

    def _make_resilience(self) -> None:
        """To whom resilient messages are promised, and who has them; empty if there are none."""
        levels = [row["resilience"] for row in self.spark.sql(messages.RESILIENCES).collect()]
        stays = self._stays if levels else []
        self._constant("survivors", lives.survivor_rows(stays, levels), tables.SURVIVORS)
        self._constant("outside", lives.outside_rows(stays), tables.OUTSIDE)
        if levels:
            self._keep_long("kept", messages.kept(self.masks))
        else:
            self._constant("kept", [], tables.KEPT)

    def spell_out(self, places: Iterable[int], *, misplaced: bool) -> None:
        """From now on holdings are of the messages of these patterns, with their names."""
        self._cut_into(partitions(self._events))
        self._keep_rare("wrong_pieces", messages.wrong_pieces(self.masks, places, misplaced=misplaced))
        self._put_near_trace(messages.WRONG_SENT_AT)
        self._view("near_names", messages.SENT_NAMES.replace("audit_trace", "audit_near_trace"))
        names = self._names_query.replace("audit_sent_names", "audit_near_names")
        self._view("near_named", messages.named(names))
        self._keep_rare("named_pieces", messages.NAMED_PIECES)
        self._keep_long("holdings", messages.holdings(self.masks, "audit_wrong_pieces", named=True))
        self._keep_wrong_deliveries()

    def _make_order(self) -> None:
        self.say("order of events")
        self._keep_long("paces", messages.PACES)
        self._keep_rare("courses", messages.COURSES)
        self._keep_rare("fifo", messages.FIFO_LEGS)
        self._keep_rare("tops", messages.TOPS)
        late = self._few(messages.LATE_STAYS)
        self._view("late_deliveries", messages.only("audit_deliveries", "stay_id", late))
        self._keep_rare("missteps", messages.MISSTEPS)
        self._view("unsorted", messages.UNSORTED)


def _words(numbers: Mapping[str, lives.Numbers]) -> int:
    words = max(len(names) - 1 for names in numbers.values()) // WORD_BITS + 1
    if words * WORD_BITS > LIVES_MAX:
        raise SparkError(
            f"one history with more than {LIVES_MAX} lives of daemons",
            "audit it in pieces, each a history of its own in a directory run=NAME",
        )
    return words
