"""A run: ingest, reconcile, measure, audit, report; each stage reads what those before it wrote."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from hopring.spark import register
from hopring.spark.audit import AuditReport, audit
from hopring.spark.audit.findings import as_json_text
from hopring.spark.audit.reading import as_parquet
from hopring.spark.audit.tables import partitions
from hopring.spark.errors import readable
from hopring.spark.pipeline import gaps, ingest, measure, reconcile
from hopring.spark.pipeline.inputs import PipelineOptions
from hopring.spark.pipeline.store import AUDIT, REPORT, Store, on_disk, uri
from hopring.spark.report import write_report
from hopring.spark.schema import BODIES, LAYERS, ddl, shaped

Say = Callable[[str], None]

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Pipeline:
    """One run over one directory, which `Store.open` has taken."""

    def __init__(self, spark: SparkSession, wish: PipelineOptions, store: Store, say: Say) -> None:
        self.spark = spark
        self.wish = wish
        self.store = store
        self.say = say

    def run(self) -> AuditReport | None:
        """All stages; what the audit found, or None if there is no trace. One line if something is wrong."""
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
        """bronze."""
        register(self.spark)
        wish, store = self.wish, self.store
        if wish.stream and wish.spools:
            ingest.stream(self.spark, wish, store, self.say)
        elif wish.spools:
            self.say("ingest: records")
            ingest.write_records(ingest.read_records(self.spark, wish.spools), store)
            ingest.forget(store)
        else:
            store.remove("bronze/records")
        if wish.trace is None:
            store.remove("bronze/trace")
            return
        self.say("ingest: trace")
        with as_parquet(wish.trace, store.workshop) as files:
            ingest.write_trace(self.spark, str(files or wish.trace), store)

    def reconcile(self) -> None:
        """silver."""
        records = ingest.bronze_records(self.spark, self.store)
        self.say("reconcile: messages")
        self._write("silver", "messages", reconcile.messages(records))
        self.say("reconcile: gaps")
        self._write("silver", "gaps", gaps.gaps(records, self._bodies(records)))

    def measure(self) -> None:
        """gold."""
        records = ingest.bronze_records(self.spark, self.store)
        trace = measure.on_the_wall(ingest.bronze_trace(self.spark, self.store))
        sites = self.wish.sites
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
        sites = self.wish.sites

        def percentiles() -> DataFrame:
            # Spools know which groups a place was for; without them, sessions know their groups.
            if self.wish.spools:
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
        """audit.json."""
        if self.wish.trace is None:
            self.store.remove(AUDIT)
            return None
        trace = ingest.bronze_trace(self.spark, self.store)
        found = audit(
            self.spark,
            trace,
            str(self.wish.trace),
            otherwise=self.wish.ends,
            say=lambda it: self.say(f"audit: {it}"),
        )
        self.store.write(AUDIT, as_json_text(found))
        return found

    def report(self) -> None:
        """report.html."""
        if not self.wish.report:
            self.store.remove(REPORT)
            return
        self.say("report")
        write_report(self.store.out)

    @contextmanager
    def _cut_by_size(self) -> Iterator[None]:
        """Shuffles have as many pieces as there are rows; Spark's default is for clusters, and slow for few."""
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
        """A table that a stage has written."""
        columns = LAYERS[layer][name]
        return shaped(self.spark.read.schema(ddl(columns)).parquet(uri(self.store.place(layer, name))), columns)

    def _bodies(self, records: DataFrame) -> DataFrame:
        """Without spools no worker of Python is started for nothing."""
        return reconcile.bodies(records) if self.wish.spools else self.spark.createDataFrame([], ddl(BODIES))

    def _write(self, layer: str, name: str, table: DataFrame, files: int | None = None) -> None:
        with self.store.making(layer, name) as place:
            (table if files is None else table.coalesce(files)).write.parquet(uri(place))


def run(
    spark: SparkSession, wish: PipelineOptions, store: Store, say: Say = lambda _words: None
) -> AuditReport | None:
    """A run; what the audit found, or None if there is no trace."""
    return Pipeline(spark, wish, store, say).run()
