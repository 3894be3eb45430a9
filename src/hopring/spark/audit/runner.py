"""Runs the queries of all properties over a trace: daemons by EVS-S, and the sessions in it by EVS-C.

Both audits are the same code with other tables, properties and names in witnesses.
"""

import json
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from hopring.check.client_history import ClientHistory
from hopring.check.history import History
from hopring.check.properties import CLIENTS, DAEMONS, SECTIONS
from hopring.check.properties.order import ONE_ORDER, circle_of, circle_sentence
from hopring.check.properties.property import PropertyInstance
from hopring.check.properties.sql import Masks
from hopring.spark.audit.clients.tables import ClientTables
from hopring.spark.audit.daemons.tables import DaemonTables
from hopring.spark.audit.reading import Ends, has_daemons, runs_with_sessions
from hopring.spark.audit.tables import Say, Tables
from hopring.spark.audit.witness import (
    AuditFinding,
    AuditReport,
    ClientWitnesses,
    DaemonWitnesses,
    Witnesses,
    merged,
)
from hopring.spark.errors import SparkError, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EDGES_MAX: Final = 2_000_000

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
) -> AuditReport:
    """Judges every history in the trace, which `read_trace` gives; `ends` says by run how they ended.

    Each is judged by the rows in it: of daemons, of sessions, or of both.
    """
    known = dict(ends or {})
    with readable(where):
        with_sessions = runs_with_sessions(trace)
        alone = bool(with_sessions) and not has_daemons(trace)
    clients = audit_clients(spark, trace, where, known, otherwise, say) if with_sessions else None
    if clients is not None and alone:
        return clients
    # Where daemons have clients, 2.11 is promised to each of these by itself.
    known |= {run: replace(known.get(run, otherwise), many_sessions=True) for run in with_sessions}
    daemons = _Audit(DaemonTables(spark, say), DAEMONS, DaemonWitnesses, known, otherwise).run(trace, where)
    return daemons if clients is None else merged(daemons, clients)


def audit_clients(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
) -> AuditReport:
    """Judges the sessions of every history of the trace; the arguments are those of `audit`."""
    audited = _Audit(ClientTables(spark, say), CLIENTS, ClientWitnesses, ends or {}, otherwise)
    return audited.run(trace, where)


class _Audit:
    """One audit, of daemons or of clients."""

    def __init__(
        self,
        tables: Tables,
        promises: Iterable[AnyPromise],
        witnesses: type[Witnesses],
        ends: Mapping[str, Ends],
        otherwise: Ends,
    ) -> None:
        self._tables = tables
        self._spark = tables.spark
        self._promises = tuple(promises)
        self._witnesses = witnesses
        self._ends = ends
        self._otherwise = otherwise

    def run(self, trace: "DataFrame", where: str) -> AuditReport:
        """Makes the tables, runs the queries of all judged properties, and drops the tables."""
        with readable(where):
            try:
                self._tables.make(trace, where, self._ends, self._otherwise)
                return self._report(self._violations(), self._circles())
            finally:
                self._tables.drop()

    def _judged(self, run: str) -> tuple[str, ...]:
        ends = self._ends.get(run, self._otherwise)
        return tuple([one.name for one in self._promises if _is_judged(one, ends)])

    def _violations(self) -> list[dict[str, Any]]:
        """All violations of judged properties; patterns of messages are queried before single messages."""
        judged = {name for run in self._tables.runs for name in self._judged(run)} - {self._one_order.name}
        found = []
        for section, properties in SECTIONS.items():
            names = {one.name for one in properties} | {one.clients.name for one in properties if one.clients}
            asked = [one for one in self._promises if one.name in judged & names]
            if asked:
                self._tables.say(section)
                found += violations(self._spark, asked, self._tables.masks)
        coarse = [
            one
            for one in {row["promise"].name: row["promise"] for row in found}.values()
            if self._is_coarse(one)
        ]
        if coarse:
            self._tables.say("single messages")
            self._tables.spell_out()
            found = [row for row in found if row["promise"] not in coarse]
            found += violations(self._spark, coarse, self._tables.masks)
        return found

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
        runs = self._tables.runs
        judged = {run: self._judged(run) for run in runs}
        facts = [json.loads(row["facts"]) | {"run": row["run"]} for row in found]
        words = self._witnesses(self._spark, facts, sorted(circles))
        findings = [
            AuditFinding(
                row["run"], row["promise"].name, row["violations"], words.witness(row["promise"].sentence, fact)
            )
            for row, fact in zip(found, facts, strict=True)
            if row["promise"].name in judged[row["run"]]
        ]
        findings += [
            AuditFinding(
                run, self._one_order.name, 1, circle_sentence([words.message(run, one) for one in messages])
            )
            for run, messages in circles.items()
        ]
        names = [one.name for one in self._promises]
        findings.sort(key=lambda finding: (finding.run, names.index(finding.property)))
        return AuditReport(runs, tuple(findings), judged)


def _is_judged(promise: AnyPromise, ends: Ends) -> bool:
    if promise.per_session and ends.many_sessions:
        return False
    return promise.is_judged(ends.quiet, ends.components is not None)


def violations(spark: "SparkSession", promises: list[AnyPromise], masks: Masks) -> list[dict[str, Any]]:
    """By property and run that break: how many, and the least of them. One job for all of these."""
    queries = [
        f"""SELECT {number} AS promise, run, count(*) AS violations, to_json(min(struct(*))) AS facts
            FROM ({one.query(masks)}) GROUP BY run"""
        for number, one in enumerate(promises)
    ]
    rows = spark.sql(" UNION ALL ".join(queries)).collect()
    return [row.asDict() | {"promise": promises[row["promise"]]} for row in rows]


def find_circles(edges: Iterable[tuple[str, int, int]]) -> dict[str, list[int]]:
    """By run: the places of one circle, beginning with the lowest."""
    graphs: dict[str, TopologicalSorter[int]] = {}
    for run, before, place in edges:
        graphs.setdefault(run, TopologicalSorter()).add(place, before)
    found = {run: circle_of(graph) for run, graph in sorted(graphs.items())}
    return {run: circle for run, circle in found.items() if circle}
