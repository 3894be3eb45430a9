"""The plain checkers inside Spark: each history is one group of rows, and one task judges it.

One job judges all histories, however many there are. A history has to fit into the memory of one worker;
`size.py` decides whether it does. A worker keeps nothing: if one is lost, Spark gives its histories to another.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hopring.check.block_kinds import BLOCKS, Block, records_of
from hopring.check.block_record import BlockRecord
from hopring.check.client_history import index_clients
from hopring.check.history import index
from hopring.check.properties import CLIENTS, DAEMONS
from hopring.check.properties.property import PropertyInstance, ShownViolation
from hopring.check.trace import BlockNoted, ClientEvent, Event
from hopring.check.trace_columns import COLUMNS, RowsMissing, events_of
from hopring.check.trace_files import TraceError
from hopring.spark.audit.blocks import blocks_judged
from hopring.spark.audit.reading import HALF, WRITTEN, Ends, unknown_kind
from hopring.spark.audit.size import AuditSize
from hopring.spark.audit.witness import AuditReport, AuditViolation, report_of, witnesses_max
from hopring.spark.errors import ForeignInput, readable
from hopring.spark.schema import KINDS, RUN, check_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS_PER_TASK: Final = 20_000
PARTITIONS_MIN: Final = 8
PARTITIONS_MAX: Final = 200

_RESULT: Final = {
    "run": "string",
    "what": "string",
    "property": "string",
    "rank": "bigint",
    "violations": "bigint",
    "witness": "string",
    "facts": "string",
}
_DAEMONS, _CLIENTS, _BLOCK, _BROKEN, _REFUSED = "daemons", "clients", "block", "broken", "refused"


class KernelRow(msgspec.Struct, frozen=True):
    """A row that a worker returns: a judged part of a history, a violation, or a reason to refuse it."""

    run: str
    what: str
    property: str = ""
    rank: int = 0
    violations: int = 0
    witness: str = ""
    facts: str = ""


def audit_in_workers(
    trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends, size: AuditSize
) -> AuditReport:
    """Judges every history of the trace, in one job."""
    pieces = max(1, min(size.runs, PARTITIONS_MAX, max(PARTITIONS_MIN, size.events // EVENTS_PER_TASK)))
    kernel = Kernel(where, dict(ends), otherwise, witnesses_max(size.runs))
    schema = ", ".join([f"{name} {kind}" for name, kind in _RESULT.items()])
    # The places of first rows and of sends are enough, and names of files are long.
    needed = "position = 0 OR kind = 'send'"
    places = [f"IF({needed}, `{name}`, NULL) AS `{name}`" for name in ("file", "row")]
    columns = [*[f"`{name}`" for name in (RUN, *COLUMNS)], *places]

    def judge(key: Any, table: Any) -> Any:  # Spark looks at its arguments, and wants a function.
        return kernel.verdict(key[0].as_py(), table)

    with readable(where):
        table = trace.selectExpr(*columns).repartition(pieces, RUN)
        rows = table.groupBy(RUN).applyInArrow(judge, schema).collect()
    return _report([KernelRow(**row.asDict()) for row in rows], where, ends, otherwise)


def _report(rows: list[KernelRow], where: str, ends: Mapping[str, Ends], otherwise: Ends) -> AuditReport:
    refused = min([row for row in rows if row.what == _REFUSED], key=lambda row: row.run, default=None)
    if refused is not None:
        raise ForeignInput(refused.witness, refused.facts)
    if not rows:
        raise ForeignInput(f"{where}: the trace has no events", "give a trace of daemons")
    parts = {(row.run, row.what) for row in rows}
    blocks = {(row.run, row.property) for row in rows if row.what == _BLOCK}
    judged: dict[str, tuple[str, ...]] = {}
    for run in sorted({row.run for row in rows}):
        with_clients = (run, _CLIENTS) in parts
        at_end = ends.get(run, otherwise)
        judged[run] = (
            *([one.name for one in daemons_judged(at_end, with_clients)] if (run, _DAEMONS) in parts else ()),
            *([one.name for one in clients_judged(at_end)] if with_clients else ()),
            *[one.name for one in blocks_judged([one for one in BLOCKS if (run, one.name) in blocks], at_end)],
        )
    found = [
        AuditViolation(row.run, row.property, row.rank, row.witness, json.loads(row.facts))
        for row in rows
        if row.what == _BROKEN
    ]
    counts = {(row.run, row.property): row.violations for row in rows if row.what == _BROKEN}
    return report_of(judged, found, counts)


def daemons_judged(ends: Ends, with_clients: bool) -> list[PropertyInstance[Any]]:
    """The properties of daemons that are judged of a history that ended so."""
    known = ends.components is not None
    # Where daemons have clients, 2.11 is promised to each of these by itself.
    many = ends.many_sessions or with_clients
    return [one for one in DAEMONS if one.is_judged(ends.quiet, known) and not (one.per_session and many)]


def clients_judged(ends: Ends) -> list[PropertyInstance[Any]]:
    """The properties of clients that are judged of a history that ended so."""
    return [one for one in CLIENTS if one.is_judged(ends.quiet, ends.components is not None)]


class Kernel:
    """Judges the rows of one history, in a worker."""

    def __init__(self, where: str, ends: Mapping[str, Ends], otherwise: Ends, witnesses: int) -> None:
        self._where = where
        self._ends = ends
        self._otherwise = otherwise
        self._witnesses = witnesses

    def verdict(self, run: str, table: Any) -> Any:
        """The verdict on one history, as a table."""
        import pyarrow as pa  # noqa: PLC0415  An extra.

        with _without_collector():
            rows = list(self.rows(run, table))
        types = {"string": pa.string(), "bigint": pa.int64()}
        schema = pa.schema([(name, types[kind]) for name, kind in _RESULT.items()])
        return pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows], schema=schema)

    def rows(self, run: str, table: Any) -> Iterator[KernelRow]:
        """The parts that were judged, and the violations; or one reason why the history is refused."""
        try:
            events = self._events(table)
        except ForeignInput as error:
            yield KernelRow(run, _REFUSED, witness=error.problem, facts=error.remedy)
            return
        ends = self._ends.get(run, self._otherwise)
        yield from self._blocks(run, events, ends)
        events = [event for event in events if not isinstance(event, BlockNoted)]
        clients = sum(isinstance(event, ClientEvent) for event in events)
        if clients < len(events):
            yield KernelRow(run, _DAEMONS)
            history = index(events, ends.quiet, ends.components, ends.counters_survive)
            yield from self._broken(run, history, daemons_judged(ends, clients > 0))
            del history
        if clients:
            yield KernelRow(run, _CLIENTS)
            sessions = index_clients(events, ends.quiet, ends.components)
            yield from self._broken(run, sessions, clients_judged(ends))

    def _blocks(self, run: str, events: list[Event], ends: Ends) -> Iterator[KernelRow]:
        try:
            records = records_of(events, ends.quiet)
        except TraceError as error:
            yield KernelRow(run, _REFUSED, witness=f"{self._where}: {error}", facts=WRITTEN)
            return
        by_block: dict[Block, list[BlockRecord]] = {}
        for block, record in records:
            by_block.setdefault(block, []).append(record)
        for block, its in by_block.items():
            yield KernelRow(run, _BLOCK, block.name)
            for promise in blocks_judged([block], ends):
                found = [promise.violations(record, self._witnesses) for record in its]
                shown = nsmallest(self._witnesses, [one for _count, some in found for one in some])
                yield from self._shown(run, promise, sum(count for count, _some in found), shown)

    def _events(self, table: Any) -> list[Event]:
        kinds = set(table.column("kind").unique().to_pylist()) - set(KINDS)
        check_version(sorted(table.column("schema").unique().to_pylist(), key=str), self._where)
        if kinds:
            raise ForeignInput(*unknown_kind(self._where, min(map(str, kinds))))
        try:
            return events_of(table)
        except RowsMissing as error:
            raise ForeignInput(f"{self._where}: {error}", HALF) from None
        except TraceError as error:
            raise ForeignInput(f"{self._where}: {error}", WRITTEN) from None

    def _broken(self, run: str, history: Any, promises: Iterable[PropertyInstance[Any]]) -> Iterator[KernelRow]:
        for promise in promises:
            count, shown = promise.violations(history, self._witnesses)
            yield from self._shown(run, promise, count, shown)

    def _shown(
        self, run: str, promise: PropertyInstance[Any], count: int, shown: Iterable[ShownViolation]
    ) -> Iterator[KernelRow]:
        for rank, one in enumerate(shown, start=1):
            facts = json.dumps(dict(zip(promise.names, one.facts, strict=True)))
            yield KernelRow(run, _BROKEN, promise.name, rank, count, one.witness, facts)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Without Python's cycle collector, which would go through millions of events again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
