"""Makes the tables of an audit of clients, in the order of their dependencies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hopring.check.properties.sql import WORD_BITS, WORDS_MAX, Masks
from hopring.spark.audit import reading, tables
from hopring.spark.audit.clients import messages, sessions, stays, survivors
from hopring.spark.audit.clients.sessions import TracedSession
from hopring.spark.audit.clients.stays import TracedGroup
from hopring.spark.audit.reading import Ends, of_daemons, of_sessions, rows_of, starts_and_ends
from hopring.spark.audit.tables import BROADCAST_MESSAGES_MAX, Tables, from_arrow, partitions
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_ROWS_MAX: Final = 100_000
CONSTANT_ROWS_MAX: Final = 1_000


class ClientTables(Tables):
    """The tables of one audit of clients."""

    _groups: list[TracedGroup]

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """Makes all tables from the trace."""
        self.say("reading the events of sessions")
        self._put("trace", of_sessions(trace))
        self._put("daemons", starts_and_ends(trace))
        self._put("daemon_trace", of_daemons(trace))
        self._cut_into(partitions(0))
        self._keep_small("extent", reading.EXTENT)
        self._cut_into(partitions(reading.check_extent(self.spark, where)))
        self._make_small(ends, otherwise)
        self._make_messages()
        self._make_survivors(ends, otherwise)
        self._make_order()

    def _make_small(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        self.say("sessions and their groups")
        extent, small, borders = (
            self._fetch(query) for query in ("SELECT * FROM audit_extent", sessions.SMALL, sessions.BORDERS)
        )
        found = sessions.sessions_of(extent, small, borders, ends, otherwise)
        self.runs = tuple(sorted({one.run for one in found}))
        flags, components = rows_of(self.runs, ends, otherwise)
        self._rows("ends", flags, tables.ENDS)
        self._rows("components", components, tables.COMPONENTS)
        self._rows("borders", ([row[name] for name in tables.BORDERS] for row in borders), tables.BORDERS)
        self._rows("sessions", [one.row() for one in found], tables.SESSIONS)
        self._rows("small", sessions.small_rows(found), tables.SESSION_SMALL)
        self._make_stays(found)

    def _make_stays(self, found: list[TracedSession]) -> None:
        self.say("stays in views, and promises")
        by_name = stays.groups_of(found)
        strays: list[tuple[str, str, int]] = []
        passages = list(stays.courses_of(found, by_name, strays))
        groups = self._groups = list(by_name.values())
        alive = {(one.run, one.process) for one in found if one.alive}
        self.masks = Masks(_words(groups))
        self._rows("processes", stays.process_rows(groups, found), tables.SESSION_PROCESSES)
        self._rows("stays", (one.row() for group in groups for one in group.stays), tables.SESSION_STAYS)
        self._rows("views", stays.view_rows(groups), tables.SESSION_VIEWS)
        self._rows("owed", messages.owed_rows(groups, alive), tables.SESSION_OWED)
        self._rows("strays", strays, tables.STRAYS)
        self._rows("wishes", (row for one in passages for row in one.wish()), tables.WISHES)
        self._rows("pieces", (row for one in passages for row in one.rows()), tables.SPANS)
        self._keep("spans", stays.SPANS)

    def _make_messages(self) -> None:
        self.say("sends")
        self._keep_small("known", messages.KNOWN)
        self._keep("sends", messages.SENDS)
        self._keep("posts", messages.POSTS)
        self._keep("origins", messages.origins(self.masks))
        self.say("deliveries")
        self._keep_long("deliveries", messages.DELIVERIES)
        self._keep("reach", messages.REACH)
        self._keep_small("never_sent", messages.NEVER_SENT)
        self._keep_small("unlike", messages.UNLIKE)
        self._keep("stamped", messages.stamped(self._hint(), self._is_any("never_sent")))
        self._keep("messages", messages.MESSAGES)
        self._view("named", messages.NAMED)
        self._view("order", messages.ORDER)
        self._keep("own", messages.own(self._hint()))
        self.say("holders of messages")
        self._keep_long("holdings", messages.holdings(self.masks, self._is_any("unlike")))

    def _make_survivors(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """The sessions that resilient messages are promised to; empty if there are no such messages."""
        levels = [row["resilience"] for row in self.spark.sql(survivors.LEVELS).collect()]
        moves = self._fetch(survivors.DAEMON_MOVES) if levels else []
        rows = survivors.steady_rows(self._groups if levels else [], moves, levels, ends, otherwise)
        self._rows("steady", rows, tables.STEADY)

    def _make_order(self) -> None:
        self.say("order of events")
        self._keep_small("tops", stays.tops(self._hint()))
        self._keep("paces", stays.paces(self._hint()))
        self._keep_small("suspects", stays.SUSPECTS)
        self._keep_small("missteps", stays.missteps(self._hint(), self._is_any("suspects")))
        self._view("unsorted", stays.UNSORTED)

    def _keep_small(self, name: str, query: str) -> None:
        """A table that is small, or empty if nothing is wrong: it goes through the driver.

        Spark then knows how small it is, and gives it to all workers instead of sorting the other side of a
        join.
        """
        rows = self.spark.sql(query).limit(SMALL_ROWS_MAX + 1).toArrow()
        if rows.num_rows > SMALL_ROWS_MAX:
            self._keep(name, query)
            return
        table = from_arrow(self.spark, rows)
        self._put(name, table.localCheckpoint() if rows.num_rows > CONSTANT_ROWS_MAX else table)

    def _hint(self) -> str:
        """Whether messages are few enough to be given to every worker, which saves sorting the deliveries."""
        if self._messages is None:
            self._messages = max(self.spark.table(f"audit_{name}").count() for name in ("sends", "reach"))
        return "/*+ BROADCAST(m) */" if self._messages <= BROADCAST_MESSAGES_MAX else ""

    def _fetch(self, query: str) -> list[dict[str, Any]]:
        """Rows for the driver itself; SparkError if there are too many."""
        rows = self.spark.sql(query).limit(sessions.MARKS_MAX + 1).toArrow()
        if rows.num_rows > sessions.MARKS_MAX:
            raise SparkError(
                f"more than {sessions.MARKS_MAX} events of sessions beside messages",
                "audit the histories in several runs",
            )
        fetched: list[dict[str, Any]] = rows.to_pylist()
        return fetched

    def _rows(self, name: str, rows: Iterable[Sequence[Any]], columns: Mapping[str, str]) -> None:
        """A table that the driver has made; queries over a long one take Spark's optimizer too much time."""
        listed = list(rows)
        rows_by_name = [dict(zip(columns, row, strict=True)) for row in listed]
        table = tables.constant(self.spark, rows_by_name, columns, self.masks)
        self._put(name, table.localCheckpoint() if len(listed) > CONSTANT_ROWS_MAX else table)


def _words(groups: Iterable[TracedGroup]) -> int:
    words = max((len(group.numbers) - 1 for group in groups), default=0) // WORD_BITS + 1
    if words > WORDS_MAX:
        raise SparkError(
            f"one group with more than {WORDS_MAX * WORD_BITS} sessions",
            "audit the trace in pieces, each a history of its own in a directory run=NAME",
        )
    return words
