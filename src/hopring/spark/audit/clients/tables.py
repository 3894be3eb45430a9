"""Makes the tables of an audit of clients, one after the other.

They are named as those of daemons are, with columns of their own; the two audits never run at the same time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hopring.spark.audit import read
from hopring.spark.audit.clients import agreed, messages, order, promises, sessions, spans, stays
from hopring.spark.audit.clients.read import of_sessions, starts_and_ends
from hopring.spark.audit.ends import Ends, rows_of
from hopring.spark.audit.masks import WORD_BITS, WORDS_MAX, Masks
from hopring.spark.audit.tables import BROADCAST_MESSAGES_MAX, Tables, partitions
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_ROWS_MAX: Final = 100_000


class ClientTables(Tables):
    """The tables of one audit of clients."""

    runs: tuple[str, ...] = ()

    def make(self, trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        """All of them, from the trace."""
        self._say("reading what sessions wrote")
        self._put("trace", of_sessions(trace))
        self._put("daemons", starts_and_ends(trace))
        self._cut_into(partitions(0))
        self._keep_small("extent", read.EXTENT)
        self._cut_into(partitions(read.check_extent(self.spark, where)))
        self._make_ends(ends, otherwise)
        self._make_people()
        self._make_stays()
        self._make_messages()
        self._make_order()

    def _make_ends(self, ends: Mapping[str, Ends], otherwise: Ends) -> None:
        rows = self.spark.sql("SELECT DISTINCT run FROM audit_extent").collect()
        self.runs = tuple(sorted(row["run"] for row in rows))
        flags, components = rows_of(self.runs, ends, otherwise)
        quiet = [(run, quiet) for run, quiet, *_ in flags]
        self._put("ends", self.spark.createDataFrame(quiet, "run string, quiet boolean"))
        self._put(
            "components", self.spark.createDataFrame(components, "run string, component int, daemon string")
        )

    def _make_people(self) -> None:
        self._say("which sessions there were, in which groups")
        self._keep_small("small", sessions.SMALL)
        self._keep_small("borders", sessions.BORDERS)
        self._keep_small("sessions", sessions.SESSIONS)
        self._keep_small("groups", sessions.GROUPS)
        self._keep_small("people", sessions.PEOPLE)
        self.masks = Masks(self._words_needed())

    def _make_stays(self) -> None:
        self._say("who was in which views, and what is owed to whom there")
        self._keep_small("signals", stays.SIGNALS)
        self._keep_small("stays", stays.stays(self.masks))
        self._keep_small("rooms", stays.rooms(self.masks))
        self._keep_small("friends", promises.friends(self.masks))
        self._keep_small("early", promises.early(self.masks, self._stays_max()))
        self._keep_small("gone", promises.gone(self.masks))
        self._keep_small("owed", promises.owed(self.masks))
        self._keep_small("spans", spans.SPANS)

    def _make_messages(self) -> None:
        self._say("what sessions sent")
        self._keep("sends", messages.SENDS)
        self._keep("posts", messages.POSTS)
        self._keep("origins", messages.origins(self.masks))
        self._say("what they got")
        self._keep_long("deliveries", messages.DELIVERIES)
        self._keep("reach", messages.REACH)
        self._keep_small("never_sent", messages.NEVER_SENT)
        self._keep_small("unlike", messages.UNLIKE)
        self._keep("messages", messages.messages(self._hint(), self._is_any("never_sent")))
        self._keep("own", messages.own(self._hint()))
        self._say("who has which message")
        self._keep_long("holdings", messages.holdings(self.masks, self._is_any("unlike")))

    def _make_order(self) -> None:
        self._say("in which order")
        self._keep("order", messages.ORDER)
        self._keep_small("tops", agreed.tops(self._hint()))
        self._keep_small("missteps", order.missteps(self._hint()))

    def _keep_small(self, name: str, query: str) -> None:
        """A table that grows with sessions and views and not with messages: it goes through the driver.

        Spark then knows how small it is, and gives it to all workers instead of sorting what it is joined with.
        """
        rows = self.spark.sql(query).limit(SMALL_ROWS_MAX + 1).toArrow()
        if rows.num_rows > SMALL_ROWS_MAX:
            self._keep(name, query)
        else:
            self._put(name, self.spark.createDataFrame(rows))

    def _is_any(self, name: str) -> bool:
        return not self.spark.table(f"audit_{name}").isEmpty()

    def _hint(self) -> str:
        """Whether messages are few enough to be given to every worker, which saves sorting the deliveries."""
        if self._messages is None:
            self._messages = max(self.spark.table(f"audit_{name}").count() for name in ("sends", "reach"))
        return "/*+ BROADCAST(m) */" if self._messages <= BROADCAST_MESSAGES_MAX else ""

    def _stays_max(self) -> int:
        """How often a session was shown a view of one group, at most."""
        return self._number(
            "SELECT max(n) FROM (SELECT count(*) AS n FROM audit_stays GROUP BY group_id, session_id)"
        )

    def _words_needed(self) -> int:
        words = self._number("SELECT max(number) FROM audit_people") // WORD_BITS + 1
        if words > WORDS_MAX:
            raise SparkError(
                f"one group with more than {WORDS_MAX * WORD_BITS} sessions",
                "audit the trace in pieces, each a history of its own in a directory run=NAME",
            )
        return words

    def _number(self, query: str) -> int:
        row = self.spark.sql(query).first()
        assert row is not None, "an aggregate has a row"
        return int(row[0] or 0)
