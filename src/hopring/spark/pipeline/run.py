"""Runs the pipeline: ingest, reconcile, measure, audit, report. Each stage reads tables of earlier stages.

Below `SMALL_ROWS_MAX` rows most of the time of a run is planning and not work. So the tables of a small run are
made side by side, from tables that are kept in memory; those of a large one are made one after the other.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset
from pyspark.sql import DataFrame, SparkSession

from hopring.errors import HopError
from hopring.spark import register
from hopring.spark.audit import AuditReport, audit
from hopring.spark.audit.reading import as_parquet
from hopring.spark.audit.size import rows_in
from hopring.spark.audit.tables import partitions
from hopring.spark.audit.witness import as_json_text
from hopring.spark.errors import readable
from hopring.spark.pipeline import ingest, measure, reconcile
from hopring.spark.pipeline.alerts import of_gaps, of_violations, raise_alerts
from hopring.spark.pipeline.continuous import Continuous
from hopring.spark.pipeline.counters import CountersPage, PipelineCounters
from hopring.spark.pipeline.passes import arrow_schema
from hopring.spark.pipeline.publishing import (
    FILE_FORMATS,
    PARQUET,
    check_format,
    check_names,
    convert,
    refresh_tables,
    register_tables,
)
from hopring.spark.pipeline.store import AUDIT, METRICS, NEW, REPORT, STREAM, PipelineOptions, Store, on_disk
from hopring.spark.pipeline.upkeep import files_of
from hopring.spark.report import write_report
from hopring.spark.schema import BODIES, LAYERS, ddl, shaped
from hopring.spark.session import SMALL_ROWS_MAX, suited_to

_LOG: Final = logging.getLogger(__name__)
Say = Callable[[str], None]
"""Shows the step that begins."""

Start = Callable[[], SparkSession]

_SENT: Final = f"{NEW}/trace"
"""A trace of lines as Parquet, where the directory of the run is elsewhere."""

SIDE_BY_SIDE: Final = 4
"""Tables of a small run that are made at the same time: on two cores one is planned while another is made."""


class Pipeline:
    """One run into one directory, which `Store.open` has prepared."""

    def __init__(
        self,
        spark: SparkSession,
        options: PipelineOptions,
        store: Store,
        say: Say,
        counters: PipelineCounters | None = None,
    ) -> None:
        self.counters = counters or PipelineCounters()
        self.spark = spark
        self.options = options
        self.store = store
        self.say = say
        self.batches: Mapping[str, int] | None = None  # Of a stream, by spool: the last one that counts.
        self.passed: frozenset[str] = frozenset()  # Tables that the passes of a stream make.
        self._kept: list[DataFrame] = []
        self._registered = False

    def run(self, trace: str | None) -> AuditReport | None:
        """Runs all stages and returns the result of the audit, or None without a trace.

        `trace` is where the trace is as Parquet: a path or a URI.
        """
        with on_disk(self.store.shown), readable("pipeline"):
            register(self.spark)
            check_format(self.spark, self.options.form)
            if self.options.stream:
                return Continuous(self).run()
            self.ingest(trace)
            self.store.remove(STREAM)
            write_rows(self.store, "gold", "late", [])
            return self.finish(self.audit)

    def finish(self, judge: Callable[[], AuditReport | None]) -> AuditReport | None:
        """Makes tables and report from the bronze tables; `judge` makes the audit."""
        rows = {name: self._rows("bronze", name) for name in ("records", "trace")}
        with suited_to(self.spark, sum(rows.values()), partitions(sum(rows.values()))):
            report = self.tables(sum(rows.values()) <= SMALL_ROWS_MAX, rows["trace"], judge)
        self.violations(report)
        self.report()
        self.publish()
        self.tell(report, is_last=judge == self.audit)
        return report

    def publish(self) -> None:
        """Copies the tables to another format, and registers them, if that is wanted."""
        form, catalog = self.options.form, self.options.catalog
        if form != PARQUET or catalog:
            self.say("tables for others")
        convert(self.spark, self.store, form)
        if catalog and self._registered:
            refresh_tables(self.spark, self.store, catalog)
        elif catalog:
            register_tables(self.spark, self.store, form, catalog)
            self._registered = True

    def tell(self, report: AuditReport | None, *, is_last: bool) -> None:
        """Brings the counters up to date, and sends an alert for each new violation and unexplained gap.

        Alerts that cannot be sent wait for the next time; only the last time that is an error.
        """
        # Read here: for Spark it would be one more job.
        form = self.options.form if self.options.form in FILE_FORMATS else PARQUET
        with self.store.files.fetched(["silver/gaps"]) as place:
            table = dataset.dataset(place / "silver" / "gaps", format=form)
            gaps = table.to_table(filter=~dataset.field("explained")).to_pylist()
        self.counters.audit(report)
        self.counters.gaps(len(gaps))
        self.counters.ran()
        try:
            if self.options.alert is not None:
                self.say("alerts")
                found = [*of_violations(report.violations if report is not None else ()), *of_gaps(gaps)]
                self.counters.alerts(raise_alerts(self.options.alert, self.store.read, self.store.write, found))
        except HopError as error:
            if is_last:
                raise
            _LOG.warning("alerts wait for the next time: %s", error)
        finally:
            self.store.write(METRICS, self.counters.text())

    def ingest(self, trace: str | None) -> None:
        """Copies spools and traces into the bronze tables."""
        options, store = self.options, self.store
        ingest.forget(store)  # First: what is left of a stream does not fit to the tables of this run.
        if options.spools:
            self.say("ingest: records")
            ingest.write_records(ingest.read_records(self.spark, options.spools), store)
        else:
            store.remove("bronze/records")
        if trace is None:
            store.remove("bronze/trace")
            return
        self.say("ingest: trace")
        ingest.write_trace(self.spark, trace, store)

    def tables(self, small: bool, traced: int, judge: Callable[[], AuditReport | None]) -> AuditReport | None:
        """Makes all silver and gold tables, and audits the trace, of which `traced` is the number of rows."""
        try:
            steps = self._steps(small, traced)
            if small:
                self.say("reconcile, measure, audit")
                with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                    audited = pool.submit(judge)
                    done = [pool.submit(make) for make in steps.values()]
                    for one in done:
                        one.result()
                    report = audited.result()
            else:
                for name, make in steps.items():
                    self.say(name)
                    make()
                report = judge()
            self.say("measure: summary")
            self._write("gold", "summary", self._summary(), files=1)
        finally:
            for table in self._kept:
                table.unpersist()
            self._kept.clear()
        return report

    def _steps(self, small: bool, traced: int) -> dict[str, Callable[[], None]]:
        """By name: what writes each table. No query runs before one of these is called."""
        sites = self.options.sites
        records = ingest.bronze_records(self.spark, self.store, self.batches)
        bodies = self._keep(self._bodies(records), small)
        lean = self._keep(records.drop("payload"), small)
        trace = self._keep(measure.on_the_wall(ingest.bronze_trace(self.spark, self.store)), small)
        journeys = self._keep(measure.journeys(trace, sites), True)
        # Records have the groups of each place in the order; without spools, sessions have theirs.
        by_group = (
            measure.in_groups(journeys, lean) if self.options.spools else measure.session_journeys(trace, sites)
        )
        silver = {
            "messages": reconcile.messages(records),
            "gaps": reconcile.gaps(lean, bodies),
        }
        gold = {
            "throughput": measure.throughput(trace, sites),
            "latency": measure.latency(journeys, by_group, exact=traced <= measure.EXACT_MAX),
            "latency_by_minute": measure.latency_by_minute(measure.latencies(journeys)),
            "latency_histogram": measure.latency_histogram(journeys),
            "links": measure.links(trace),
            "membership": measure.membership(trace),
            "group_views": measure.group_views(trace, bodies),
        }
        for name in self.passed:
            silver.pop(name, None)
            gold.pop(name, None)
        return {
            **{f"reconcile: {name}": self._writer("silver", name, table) for name, table in silver.items()},
            **{f"measure: {name}": self._writer("gold", name, table, 1) for name, table in gold.items()},
        }

    def _summary(self) -> DataFrame:
        records = ingest.bronze_records(self.spark, self.store, self.batches)
        trace = ingest.bronze_trace(self.spark, self.store)
        daemons = trace.where("fields IS NULL").select("daemon").distinct()  # Records of blocks have none.
        tables = {name: self.table("gold", name) for name in ("throughput", "membership")}
        tables |= {name: self.table("silver", name) for name in ("messages", "gaps")}
        sites = daemons.withColumn("site", measure.site("daemon", self.options.sites))
        return measure.summary({**tables, "records": records, "daemons": sites})

    def audit(self) -> AuditReport | None:
        """Audits the trace and writes audit.json."""
        if self.options.trace is None:
            self.store.remove(AUDIT)
            return None
        found = audit(
            self.spark,
            ingest.bronze_trace(self.spark, self.store),
            str(self.options.trace),
            otherwise=self.options.ends,
            say=lambda it: self.say(f"audit: {it}"),
            engine=self.options.engine,
        )
        self.store.write(AUDIT, as_json_text(found))
        return found

    def violations(self, report: AuditReport | None) -> None:
        """Writes the table of violations: they are in the driver already."""
        found = [
            {
                "run": one.run,
                "property": one.property,
                "rank": one.rank,
                "witness": one.witness,
                "facts": json.dumps(one.facts),
            }
            for one in (report.violations if report is not None else ())
        ]
        write_rows(self.store, "gold", "violations", found)

    def report(self) -> None:
        """Writes report.html, or removes an old one."""
        if not self.options.report:
            self.store.remove(REPORT)
            return
        self.say("report")
        with self.store.files.fetched(["gold", "silver/gaps", AUDIT, STREAM]) as place:
            page = write_report(place)
            if not self.store.is_local:
                self.store.write(REPORT, page.read_text(encoding="utf-8"))

    def table(self, layer: str, name: str) -> DataFrame:
        """Reads a table that an earlier stage has written."""
        columns = LAYERS[layer][name]
        return shaped(self.spark.read.schema(ddl(columns)).parquet(self.store.uri(layer, name)), columns)

    def _rows(self, layer: str, name: str) -> int:
        """The number of rows of a table: from footers if its files are in reach, counted by Spark otherwise."""
        if self.store.is_local:
            return rows_of_table(self.store.place(layer, name), self.batches if name == "records" else None)
        if not self.store.has(layer, name):
            return 0
        return int(self.table(layer, name).count())

    def _bodies(self, records: DataFrame) -> DataFrame:
        """The decoded bodies; without spools an empty table, so that no Python worker is started."""
        return reconcile.bodies(records) if self.options.spools else self.spark.createDataFrame([], ddl(BODIES))

    def _keep(self, table: DataFrame, wanted: bool) -> DataFrame:
        """The table, to be kept in memory once it has been made, until the tables of the run are complete."""
        if wanted:
            self._kept.append(table.persist())
        return table

    def _writer(self, layer: str, name: str, table: DataFrame, files: int | None = None) -> Callable[[], None]:
        return lambda: self._write(layer, name, table, files)

    def _write(self, layer: str, name: str, table: DataFrame, files: int | None = None) -> None:
        with self.store.making(layer, name) as place:
            (table if files is None else table.coalesce(files)).write.parquet(self.store.files.uri(place))


def write_rows(store: Store, layer: str, name: str, rows: list[dict[str, Any]]) -> None:
    """Writes a table of rows that are here, replacing an old one."""
    with store.making(layer, name) as place:
        file = BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(LAYERS[layer][name])), file)
        store.files.make_directory(place)
        store.files.write(f"{place}/part-0.parquet", file.getvalue())


def rows_of_table(place: Path, batches: Mapping[str, int] | None = None) -> int:
    """The number of rows of a table in a directory, from the footers of its files; 0 if there is none.

    With `batches`, by spool, only up to these: the next one may be half written.
    """
    if batches is None:
        return sum([rows_in(str(file)) or 0 for file in place.rglob("*.parquet")])
    files = [
        file.path
        for spool, last in batches.items()
        for file in files_of(place / f"spool={spool}", last + 1)
        if file.path.suffix == ".parquet"
    ]
    return sum([rows_in(str(file)) or 0 for file in files])


def run(
    spark: SparkSession | Start, options: PipelineOptions, store: Store, say: Say = lambda _text: None
) -> AuditReport | None:
    """Runs the pipeline and returns the result of the audit, or None without a trace.

    The session may be given by a function that makes it or waits for it. This is called in a thread: Java can
    start while the lines of the trace are converted.
    """
    check_names(options.form, options.catalog)
    if options.stream:
        _ = store.out  # Refused if it is elsewhere.
    counters = PipelineCounters()
    page = CountersPage(options.metrics, counters) if options.metrics else nullcontext()
    with page, ThreadPoolExecutor(1) as pool:
        started = pool.submit(spark) if callable(spark) else None
        with _as_files(None if options.stream else options.trace, store) as trace:
            session = started.result() if started is not None else spark
            assert not callable(session), "a function has been called"
            report = Pipeline(session, options, store, say, counters).run(trace)
    store.close()
    return report


@contextmanager
def _as_files(trace: Path | None, store: Store) -> Iterator[str | None]:
    """The directory of the trace as Parquet, for as long as the block lasts."""
    if trace is None:
        yield None
        return
    with on_disk(store.shown), as_parquet(trace, store.workshop if store.is_local else None) as converted:
        if converted is None or store.is_local:
            yield str(converted or trace)
            return
        # Workers see the directory of the run, and perhaps nothing else of this machine.
        with readable(store.shown):
            store.files.remove(_SENT)
            store.files.send(converted, _SENT)
        yield store.files.uri(_SENT)
