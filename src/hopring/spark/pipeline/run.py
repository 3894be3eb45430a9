"""Runs the pipeline: ingest, reconcile, measure, audit, report. Each stage reads tables of earlier stages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from hopring.spark import register
from hopring.spark.audit import AuditReport, audit
from hopring.spark.audit.reading import as_parquet
from hopring.spark.audit.tables import partitions
from hopring.spark.audit.witness import as_json_text
from hopring.spark.errors import readable
from hopring.spark.pipeline import ingest, measure, reconcile
from hopring.spark.pipeline.store import AUDIT, REPORT, PipelineOptions, Store, on_disk, uri
from hopring.spark.report import write_report
from hopring.spark.schema import BODIES, LAYERS, ddl, shaped

Say = Callable[[str], None]
"""Shows the step that begins."""

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Pipeline:
    """One run into one directory, which `Store.open` has prepared."""

    def __init__(self, spark: SparkSession, options: PipelineOptions, store: Store, say: Say) -> None:
        self.spark = spark
        self.options = options
        self.store = store
        self.say = say

    def run(self) -> AuditReport | None:
        """Runs all stages and returns the result of the audit, or None without a trace."""
        with on_disk(self.store.out), readable("pipeline"):
            self.ingest()
            with self._cut_by_size():
                self.reconcile()
                self.measure()
            report = self.audit()
            self.report()
            self.store.close()
            return report

    def ingest(self) -> None:
        """Copies spools and traces into the bronze tables."""
        register(self.spark)
        options, store = self.options, self.store
        if options.stream and options.spools:
            ingest.stream(self.spark, options, store, self.say)
        elif options.spools:
            self.say("ingest: records")
            ingest.write_records(ingest.read_records(self.spark, options.spools), store)
            ingest.forget(store)
        else:
            store.remove("bronze/records")
        if options.trace is None:
            store.remove("bronze/trace")
            return
        self.say("ingest: trace")
        with as_parquet(options.trace, store.workshop) as files:
            ingest.write_trace(self.spark, str(files or options.trace), store)

    def reconcile(self) -> None:
        """Deduplicates records into the silver table of messages, and lists the gaps of each spool."""
        records = ingest.bronze_records(self.spark, self.store)
        self.say("reconcile: messages")
        self._write("silver", "messages", reconcile.messages(records))
        self.say("reconcile: gaps")
        self._write("silver", "gaps", reconcile.gaps(records, self._bodies(records)))

    def measure(self) -> None:
        """Computes the gold tables from the trace and the records."""
        records = ingest.bronze_records(self.spark, self.store)
        trace = measure.on_the_wall(ingest.bronze_trace(self.spark, self.store))
        sites = self.options.sites
        journeys = measure.journeys(trace, sites).persist()
        for name, make in self._measures(records, trace, journeys).items():
            self.say(f"measure: {name.replace('_', ' ')}")
            self._write("gold", name, make(), files=1)
        journeys.unpersist()
        self.say("measure: summary")
        tables = {name: self.table("gold", name) for name in ("throughput", "membership")}
        tables |= {name: self.table("silver", name) for name in ("messages", "gaps")}
        daemons = trace.select("daemon").distinct().withColumn("site", measure.site("daemon", sites))
        self._write(
            "gold", "summary", measure.summary({**tables, "records": records, "daemons": daemons}), files=1
        )

    def _measures(
        self, records: DataFrame, trace: DataFrame, journeys: DataFrame
    ) -> dict[str, Callable[[], DataFrame]]:
        sites = self.options.sites

        def percentiles() -> DataFrame:
            # Records have the groups of each place in the order; without spools, sessions have theirs.
            if self.options.spools:
                by_group = measure.in_groups(journeys, records)
            else:
                by_group = measure.session_journeys(trace, sites)
            few = trace.where("kind = 'deliver'").count() <= measure.EXACT_MAX
            return measure.latency(journeys, by_group, exact=few)

        return {
            "throughput": lambda: measure.throughput(trace, sites),
            "latency": percentiles,
            "latency_histogram": lambda: measure.latency_histogram(journeys),
            "links": lambda: measure.links(trace),
            "membership": lambda: measure.membership(trace),
            "group_views": lambda: measure.group_views(trace, self._bodies(records)),
        }

    def audit(self) -> AuditReport | None:
        """Audits the trace and writes audit.json."""
        if self.options.trace is None:
            self.store.remove(AUDIT)
            return None
        trace = ingest.bronze_trace(self.spark, self.store)
        found = audit(
            self.spark,
            trace,
            str(self.options.trace),
            otherwise=self.options.ends,
            say=lambda it: self.say(f"audit: {it}"),
        )
        self.store.write(AUDIT, as_json_text(found))
        return found

    def report(self) -> None:
        """Writes report.html, or removes an old one."""
        if not self.options.report:
            self.store.remove(REPORT)
            return
        self.say("report")
        write_report(self.store.out)

    @contextmanager
    def _cut_by_size(self) -> Iterator[None]:
        """Sets the number of shuffle partitions by the number of rows: Spark's default is slow for few rows."""
        rows = sum(
            [read(self.spark, self.store).count() for read in (ingest.bronze_records, ingest.bronze_trace)]
        )
        before = self.spark.conf.get(_PARTITIONS)
        self.spark.conf.set(_PARTITIONS, str(partitions(rows)))
        try:
            yield
        finally:
            self.spark.conf.set(_PARTITIONS, before)

    def table(self, layer: str, name: str) -> DataFrame:
        """Reads a table that an earlier stage has written."""
        columns = LAYERS[layer][name]
        return shaped(self.spark.read.schema(ddl(columns)).parquet(uri(self.store.place(layer, name))), columns)

    def _bodies(self, records: DataFrame) -> DataFrame:
        """The decoded bodies; without spools an empty table, so that no Python worker is started."""
        return reconcile.bodies(records) if self.options.spools else self.spark.createDataFrame([], ddl(BODIES))

    def _write(self, layer: str, name: str, table: DataFrame, files: int | None = None) -> None:
        with self.store.making(layer, name) as place:
            (table if files is None else table.coalesce(files)).write.parquet(uri(place))


def run(
    spark: SparkSession, options: PipelineOptions, store: Store, say: Say = lambda _text: None
) -> AuditReport | None:
    """Runs the pipeline and returns the result of the audit, or None without a trace."""
    return Pipeline(spark, options, store, say).run()
