"""Runs the queries of all properties over a trace: daemons by EVS-S, and the sessions in it by EVS-C.

Both audits are the same code with other tables, properties and names in witnesses.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hopring.check.client_history import ClientHistory
from hopring.check.history import History
from hopring.check.properties import CLIENTS, DAEMONS, SECTIONS
from hopring.check.properties.order import ONE_ORDER, circle_of, circle_sentence
from hopring.check.properties.property import PropertyInstance
from hopring.spark.audit.asking import MESSAGE, broken, violations
from hopring.spark.audit.blocks import audit_blocks
from hopring.spark.audit.clients.tables import ClientTables
from hopring.spark.audit.daemons.tables import DaemonTables
from hopring.spark.audit.kernel import audit_in_workers
from hopring.spark.audit.reading import Ends, has_daemons, runs_with_blocks, runs_with_sessions
from hopring.spark.audit.size import Engine, size_of
from hopring.spark.audit.tables import Say, Tables
from hopring.spark.audit.witness import (
    AuditReport,
    AuditViolation,
    ClientWitnesses,
    DaemonWitnesses,
    Witnesses,
    merged,
    report_of,
    witnesses_max,
)
from hopring.spark.errors import SparkError, of_spark, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EDGES_MAX: Final = 2_000_000
ATTEMPTS_MAX: Final = 4
"""Times that an audit by queries is tried where executors are lost."""

_LOST: Final = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "Checkpoint block rdd_")

AnyPromise = PropertyInstance[History] | PropertyInstance[ClientHistory]
Circles = dict[str, list[str]]
"""By run that has one: the messages of a circle, each before the next at one process or another."""


def audit(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
    engine: Engine = "auto",
) -> AuditReport:
    """Judges every history in the trace, which `read_trace` gives; `ends` says by run how they ended.

    Each is judged by the rows in it: of daemons, of sessions, or of both. The engine `kernel` has one worker
    judge each history by the plain checkers, `queries` judges all of them by queries; `auto` takes the first
    where the longest history is short enough for a worker. Both give the same verdicts and witnesses.
    """
    known = dict(ends or {})
    if engine != "queries":
        with readable(where):
            size = size_of(trace)
        if engine == "kernel" or size.engine == "kernel":
            many = "one history" if size.runs == 1 else f"{size.runs} histories"
            say(f"{many}, {size.events} events")
            return audit_in_workers(trace, where, known, otherwise, size)
    with readable(where):
        with_sessions, with_blocks = runs_with_sessions(trace), runs_with_blocks(trace)
        others = bool(with_sessions or with_blocks)
        alone = others and not has_daemons(trace)
    reports = [audit_clients(spark, trace, where, known, otherwise, say)] if with_sessions else []
    if with_blocks:
        reports.append(audit_blocks(spark, trace, where, known, otherwise, say))
    if not alone:
        # Where daemons have clients, 2.11 is promised to each of these by itself.
        shared = {run: replace(known.get(run, otherwise), many_sessions=True) for run in with_sessions}
        audited = _Audit(lambda: DaemonTables(spark, say), DAEMONS, DaemonWitnesses, known | shared, otherwise)
        reports.insert(0, audited.run(trace, where))
    return reduce(merged, reports)


def audit_clients(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
) -> AuditReport:
    """Judges the sessions of every history of the trace; the arguments are those of `audit`."""
    audited = _Audit(lambda: ClientTables(spark, say), CLIENTS, ClientWitnesses, ends or {}, otherwise)
    return audited.run(trace, where)


def is_lost(error: Exception) -> bool:
    """Whether a kept table was lost with the executor that kept it."""
    return of_spark(error) and any(sign in str(error) for sign in _LOST)


class _Audit:
    """One audit, of daemons or of clients."""

    def __init__(
        self,
        tables: Callable[[], Tables],
        promises: Iterable[AnyPromise],
        witnesses: type[Witnesses],
        ends: Mapping[str, Ends],
        otherwise: Ends,
    ) -> None:
        self._make_tables = tables
        self._tables = tables()
        self._spark = self._tables.spark
        self._promises = tuple(promises)
        self._witnesses = witnesses
        self._ends = ends
        self._otherwise = otherwise

    def run(self, trace: "DataFrame", where: str) -> AuditReport:
        """Judges the trace; once more if an executor was lost with the tables that it kept.

        Kept tables have no origin from which Spark could make the lost part again: plans would be too long.
        """
        with readable(where):
            for left in reversed(range(ATTEMPTS_MAX)):
                try:
                    return self._run_once(trace, where)
                except Exception as error:
                    if not left or not is_lost(error):
                        raise
                    self._tables.say("once more: an executor was lost")
                    self._tables = self._make_tables()
        raise AssertionError("the last attempt returns or raises")

    def _run_once(self, trace: "DataFrame", where: str) -> AuditReport:
        """Makes the tables, runs the queries of all judged properties, and drops the tables."""
        try:
            self._tables.make(trace, where, self._ends, self._otherwise)
            return self._report(self._violations(), self._circles())
        finally:
            self._tables.drop()

    def _judged(self, run: str) -> tuple[str, ...]:
        ends = self._ends.get(run, self._otherwise)
        return tuple([one.name for one in self._promises if _is_judged(one, ends)])

    def _violations(self) -> list[dict[str, Any]]:
        """The violations of judged properties that are shown, with the count of all.

        Patterns of messages are queried before single messages, and whether there are any before which.
        """
        judged = {name for run in self._tables.runs for name in self._judged(run)} - {self._one_order.name}
        found: dict[AnyPromise, set[int]] = {}
        for section, properties in SECTIONS.items():
            names = {one.name for one in properties} | {one.clients.name for one in properties if one.clients}
            asked = [one for one in self._promises if one.name in judged & names]
            if asked:
                self._tables.say(section)
                found |= broken(self._spark, asked, self._tables.masks)
        if not found:
            return []
        coarse = [one for one in found if self._is_coarse(one)]
        if coarse:
            self._tables.say("single messages")
            places = sorted(set().union(*[found[one] for one in coarse]))
            self._tables.spell_out(places, misplaced=any(MESSAGE not in one.names for one in coarse))
        self._tables.say("witnesses")
        return violations(self._spark, list(found), self._tables.masks, witnesses_max(len(self._tables.runs)))

    def _is_coarse(self, promise: AnyPromise) -> bool:
        return self._tables.has_patterns and "audit_holdings" in promise.query(self._tables.masks)

    @property
    def _one_order(self) -> AnyPromise:
        return next(one for one in self._promises if one.name.endswith(ONE_ORDER.name))

    def _circles(self) -> Circles:
        """There is one order for all unless agreed messages go round in a circle.

        Where every process delivers them in the order of their places, they do not. Elsewhere a circle lies
        between the lowest and the highest place at which some process steps back, so only that range is
        examined: each process's successors there, as edges of one graph.
        """
        if self._spark.table("audit_unsorted").isEmpty():
            return {}
        query = self._one_order.query(self._tables.masks)
        edges = self._spark.sql(query).limit(EDGES_MAX + 1).collect()
        if len(edges) > EDGES_MAX:
            raise SparkError(
                "agreed messages come in different orders over too long a stretch to look for a circle",
                "cut the trace in pieces, or examine the other broken properties first",
            )
        found = find_circles((row["run"], row["before"], row["place"]) for row in edges)
        return {run: self._names(run, places) for run, places in found.items()}

    def _names(self, run: str, places: list[int]) -> list[str]:
        # As text: Spark refuses an array in which some numbers need 64 bits and others do not.
        listed = ", ".join(map(str, places))
        query = f"SELECT place, message FROM audit_named WHERE run = :run AND place IN ({listed})"
        rows = self._spark.sql(query, {"run": run}).collect()
        names = {row["place"]: row["message"] for row in rows}
        return [names[place] for place in places]

    def _report(self, found: list[dict[str, Any]], circles: Circles) -> AuditReport:
        judged = {run: self._judged(run) for run in self._tables.runs}
        found = [row for row in found if row["promise"].name in judged[row["run"]]]
        facts = [json.loads(row["facts"]) | {"run": row["run"]} for row in found]
        words = self._witnesses(self._spark, facts, sorted(circles))
        shown = [
            AuditViolation(
                row["run"],
                row["promise"].name,
                row["rank"],
                words.witness(row["promise"].sentence, fact),
                {name: fact[name] for name in row["promise"].names},
            )
            for row, fact in zip(found, facts, strict=True)
        ]
        counts = {(row["run"], row["promise"].name): row["violations"] for row in found}
        for run, messages in circles.items():
            sentence = circle_sentence([words.message(run, one) for one in messages])
            two = dict(zip(self._one_order.names, messages, strict=False))
            shown.append(AuditViolation(run, self._one_order.name, 1, sentence, two))
            counts[run, self._one_order.name] = 1
        return report_of(judged, shown, counts)


def _is_judged(promise: AnyPromise, ends: Ends) -> bool:
    if promise.per_session and ends.many_sessions:
        return False
    return promise.is_judged(ends.quiet, ends.components is not None)


def find_circles(edges: Iterable[tuple[str, int, int]]) -> dict[str, list[int]]:
    """By run: the places of one circle, beginning with the lowest."""
    by_run: dict[str, list[tuple[int, int]]] = {}
    for run, before, place in edges:
        by_run.setdefault(run, []).append((before, place))
    found = {run: circle_of(edges_of_run) for run, edges_of_run in sorted(by_run.items())}
    return {run: circle for run, circle in found.items() if circle}
