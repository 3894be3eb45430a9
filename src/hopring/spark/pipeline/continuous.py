"""The continuous pipeline: follows spools and traces, and brings tables, audit and report along.

Each batch of records is appended to bronze by a query of Spark (`queries.py`) and taken in by a pass
(`passes.py`); so are new rows of the trace, every few seconds. At times a *refresh* makes the tables that
depend on everything, such as gaps and percentiles of the whole time, audits the closed views and renews the
report.

Invariants  one of these runs at a time: bronze does not change while it is read;
            when the stream has ended, all tables but `late` have the rows that a run without a stream makes of
            the same input, however often the stream was killed.
Limit       the cost of a refresh grows with the stream, so it takes at most a part of the time (REFRESH_PAUSE).
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hopring.spark.audit import AuditReport, audit
from hopring.spark.audit.closing import ClosedPart, StayInView, TracedLife, closed_part
from hopring.spark.audit.reading import Ends
from hopring.spark.audit.tables import partitions
from hopring.spark.audit.witness import as_json_text
from hopring.spark.errors import SparkError
from hopring.spark.pipeline import ingest, measure
from hopring.spark.pipeline.counters import watched
from hopring.spark.pipeline.following import TraceFollower, merge_pieces
from hopring.spark.pipeline.lateness import RECORDS_CLOCK, trace_clock
from hopring.spark.pipeline.passes import PASSED, Passes
from hopring.spark.pipeline.queries import start_queries
from hopring.spark.pipeline.store import AUDIT, STREAM
from hopring.spark.pipeline.upkeep import cutoff_us
from hopring.spark.report.gold import StreamState
from hopring.spark.schema import RUN
from hopring.spark.session import suited_to

if TYPE_CHECKING:
    from hopring.spark.pipeline.run import Pipeline

TRACE_SECONDS: Final = 5.0
"""The interval in which files of the trace are looked at."""

LOOK_SECONDS: Final = 0.2
FIRST_REFRESH_SECONDS: Final = 15.0
REFRESH_PAUSE: Final = 3.0
"""After a refresh, the stream runs at least so many times as long as the refresh took."""

BEGINNINGS_MAX: Final = 3
"""How often a stream begins anew because a daemon's clock became known too late, before it gives up."""


class StreamEnds(Exception):
    """A batch that was waiting for its turn when the stream was ended."""


class Turns:
    """Lets one thread at a time work on the tables, and none after the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._ended:
            self._lock.release()
            raise StreamEnds

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def end(self) -> None:
        """Waits for the turn that is under way; those who wait as well get none."""
        with self._lock:
            self._ended = True


class Continuous:
    """One stream into one directory."""

    def __init__(self, pipeline: "Pipeline") -> None:
        self.pipeline = pipeline
        self.spark: SparkSession = pipeline.spark
        self.options = pipeline.options
        self.store = pipeline.store
        self.turns = Turns()
        late_us = round(self.options.late_seconds * 1_000_000)
        self.passes = Passes(self.spark, self.store, self.options.sites, late_us)
        self.follower = TraceFollower(self.options.trace) if self.options.trace is not None else None
        self._closed: dict[str, ClosedPart] = {}
        self._judged: AuditReport | None = None
        self._beginnings = 0

    def run(self) -> AuditReport | None:
        """Follows until it is interrupted, or idle; then makes everything once more, over all rows."""
        with suited_to(self.spark, 0, partitions(0)):
            self._open()
            self._follow()
        self._note(running=False)
        return self._finish(self.pipeline.audit)

    def _open(self) -> None:
        if not self.store.checkpoints.exists():
            self.store.remove("bronze/records")  # The stream reads the records of an earlier batch run again.
        if not self.options.spools:
            self.store.remove("bronze/records")
        self.passes.open()
        if self.follower is None:
            self.store.remove("bronze/trace", AUDIT)
        self._catch_up()

    def _catch_up(self) -> None:
        """Takes in batches that an earlier stream has stored and not taken in."""
        for spool in self.options.spools:
            last = ingest.last_committed(self.store, spool.name)
            self.passes.take_records(spool.name, last)

    def _follow(self) -> None:
        idle = self.options.until_idle
        ends = self.follower.sizes() if self.follower is not None and idle else None
        watch = watched(self.spark, self.options.spools, self.pipeline.counters)
        with ingest.interrupted() as ended, watch:
            queries = start_queries(self.spark, self.options, self.store, self.turns, self.passes.take_records)
            first_seconds = min(FIRST_REFRESH_SECONDS, self.options.refresh_seconds)
            due, read_at = time.monotonic() + first_seconds, -TRACE_SECONDS
            try:
                while not ended.is_set():
                    queries.look()
                    new = False
                    if idle or time.monotonic() - read_at >= TRACE_SECONDS:
                        new, read_at = self._take_trace(ends), time.monotonic()
                    if idle and not new and queries.are_idle():
                        break
                    if time.monotonic() >= due:
                        due = time.monotonic() + self._refresh()
                    self.pipeline.say(self._progress())
                    ended.wait(LOOK_SECONDS)
                queries.look()
            finally:
                self.turns.end()
                queries.stop()

    def _take_trace(self, ends: dict[str, int] | None) -> bool:
        """Takes in new rows of the trace; false if there are none."""
        if self.follower is None:
            return False
        with self.turns:
            rows = self.follower.read(self.passes.ledger.files, ends)
            if rows is None:
                return False
            if not self.passes.take_trace(rows):
                self._begin_anew()
        return True

    def _begin_anew(self) -> None:
        self._beginnings += 1
        if self._beginnings > BEGINNINGS_MAX:
            raise SparkError(
                "daemons' clocks become known only after rows of their sessions, again and again",
                "give the trace when it is complete, without --stream",
            )
        self.passes.begin()
        self._catch_up()

    def _refresh(self) -> float:
        """Makes all tables that depend on everything; returns the seconds until the next time."""
        began = time.monotonic()
        with self.turns:
            retain_seconds = self.options.upkeep.retain_seconds
            if retain_seconds is not None:
                self.passes.forget_before(cutoff_us(retain_seconds, time.time_ns() // 1000))
            merge_pieces(self.store.place("bronze", "trace"), self.store.out, self.store.workshop)
            self._note(running=True)
            self._finish(self._audit_closed)
        taken = time.monotonic() - began
        return max(self.options.refresh_seconds, REFRESH_PAUSE * taken)

    def _finish(self, judge: Callable[[], AuditReport | None]) -> AuditReport | None:
        self.pipeline.batches = self.passes.ledger.batches
        self.pipeline.passed = PASSED
        return self.pipeline.finish(judge)

    def _audit_closed(self) -> AuditReport | None:
        """Audits the closed part of each history, unless it is that of the last time."""
        if self.follower is None:
            return None
        trace = ingest.bronze_trace(self.spark, self.store)
        lives, with_sessions = lives_of(measure.on_the_wall(trace))
        closed: dict[str, ClosedPart] = {}
        for run in sorted({life.run for life in lives}):
            watermark_us = self.passes.watermark_us(trace_clock(run))
            assert watermark_us is not None, "rows that are in the table have been counted"
            closed[run] = closed_part([life for life in lives if life.run == run], watermark_us)
        if closed != self._closed:
            self._closed = closed
            self._judged = self._audit(trace, with_sessions)
        self._note(running=True)
        if self._judged is None:
            self.store.remove(AUDIT)
        else:
            self.store.write(AUDIT, as_json_text(self._judged))
        return self._judged

    def _audit(self, trace: DataFrame, with_sessions: set[str]) -> AuditReport | None:
        rows = [
            (run, process, position)
            for run, part in self._closed.items()
            if part.closed
            for process, position in part.upto.items()
        ]
        if not rows:
            return None
        upto = self.spark.createDataFrame(rows, f"{RUN} string, process string, upto bigint")
        part = trace.join(F.broadcast(upto), [RUN, "process"]).where("position <= upto").drop("upto")
        given = self.options.ends
        ends = Ends(False, None, given.counters_survive, given.many_sessions)
        many = msgspec.structs.replace(ends, many_sessions=True)
        return audit(
            self.spark,
            part,
            str(self.options.trace),
            ends=dict.fromkeys(with_sessions, many),
            otherwise=ends,
            engine=self.options.engine,
        )

    def _note(self, *, running: bool) -> None:
        """Writes what the report says about the stream."""
        parts = self._closed.values()
        state = StreamState(
            running,
            self.passes.watermark_us(RECORDS_CLOCK),
            sum([part.closed for part in parts]),
            sum([part.views for part in parts]),
        )
        self.store.write(STREAM, msgspec.json.encode(state).decode())

    def _progress(self) -> str:
        how = "" if self.options.until_idle else "; Ctrl-C ends it"
        behind = self.pipeline.counters.behind()
        lag = f", {behind.records:,} records ({behind.seconds or 0:.1f} s) behind" if behind.records else ""
        return f"streaming, pass {self.passes.ledger.passes}{lag}{how}"


def lives_of(trace: DataFrame) -> tuple[list[TracedLife], set[str]]:
    """The lives of daemons in a trace with wall clock times, in one query, and the runs that have sessions."""
    stay = F.struct("position", "view", "members", "at_us")
    is_stay = (F.col("kind") == "view") & (F.col("group") == "")
    found = trace.groupBy(RUN, "process").agg(
        F.collect_list(F.when(is_stay, stay)).alias("stays"),
        F.bool_or(F.col("kind") == "crash").alias("crashed"),
        *(F.min("at_us").alias("first_us"), F.max("at_us").alias("last_us")),
        F.max("position").alias("last_position"),
    )
    lives, with_sessions = [], set()
    for row in found.collect():
        if not row["process"].endswith("/0"):
            with_sessions.add(row[RUN])
            continue
        stays = sorted(
            [StayInView(one[0], one[1], tuple(one[2]), one[3]) for one in row["stays"]], key=_position
        )
        lives.append(TracedLife(row[RUN], row["process"], tuple(stays), *row[3:]))
    return lives, with_sessions


def _position(stay: StayInView) -> int:
    return stay.position
