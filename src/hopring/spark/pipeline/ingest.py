"""Ingest: spools and traces as they are, into partitioned Parquet. The first stage.

Records keep their spool's name and are cut by spool, batch and group; a batch run has one batch, 0. Rows of the
trace keep the file and the place in it where they stood, because of the starts of one daemon the earlier is the
one that comes first there.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hopring.spark.audit.reading import read_trace
from hopring.spark.pipeline.inputs import PipelineOptions, SpoolRoot
from hopring.spark.pipeline.store import CHECKPOINTS, Store, uri
from hopring.spark.schema import BRONZE, RUN, ddl, shaped

BATCH = "batch"
RECORD_PARTS = ("spool", BATCH, "group")
TRACE_PARTS = (RUN, "daemon")


def read_records(spark: SparkSession, spools: tuple[SpoolRoot, ...]) -> DataFrame:
    """All records that can be read now; what retention or damage has taken is named by `gaps`."""
    return reduce(DataFrame.unionByName, [_labelled(spool, _source(spark.read, spool)) for spool in spools])


def write_records(records: DataFrame, store: Store) -> None:
    """In place of what was there."""
    with store.making("bronze", "records") as place:
        table = shaped(records, BRONZE["records"]).withColumn(BATCH, F.lit(0))
        table.write.partitionBy(*RECORD_PARTS).parquet(uri(place))


def stream_records(spark: SparkSession, spool: SpoolRoot, store: Store, trigger: dict[str, Any]) -> Any:
    """A query, started, that appends what comes to this spool.

    A batch is a function of its two offsets, and its directory is replaced when it is made again after a crash:
    so every record is there once.
    """
    place = store.place("bronze", "records") / f"spool={spool.name}"

    def write(records: DataFrame, number: int) -> None:
        target = uri(place / f"{BATCH}={number}")
        records.drop("spool").write.mode("overwrite").partitionBy("group").parquet(target)

    records = shaped(_labelled(spool, _source(spark.readStream, spool)), BRONZE["records"])
    writer = records.writeStream.queryName(f"ingest {spool.name}").foreachBatch(write)
    writer = writer.option("checkpointLocation", uri(store.checkpoints / spool.name))
    return writer.trigger(**trigger).start()


def _source(reader: Any, spool: SpoolRoot) -> DataFrame:
    found: DataFrame = reader.format("hopring").option("failOnDataLoss", "false").load(spool.path)
    return found


def _labelled(spool: SpoolRoot, records: DataFrame) -> DataFrame:
    return records.withColumn("spool", F.lit(spool.name))


def bronze_records(spark: SparkSession, store: Store) -> DataFrame:
    """The table, as the later stages read it."""
    return _read(spark, store, "records", {BATCH: "int"})


def write_trace(spark: SparkSession, where: str, store: Store) -> None:
    """The rows of all daemons, in place of what was there."""
    with store.making("bronze", "trace") as place:
        trace = shaped(read_trace(spark, where), BRONZE["trace"])
        trace.write.partitionBy(*TRACE_PARTS).parquet(uri(place))


def bronze_trace(spark: SparkSession, store: Store) -> DataFrame:
    """The table, as the later stages read it; also what `audit` takes."""
    trace = _read(spark, store, "trace", {})
    return trace.withColumn(RUN, F.coalesce(RUN, F.lit("")))  # A directory cannot be named by no text.


def _read(spark: SparkSession, store: Store, table: str, more: dict[str, str]) -> DataFrame:
    columns = BRONZE[table]
    place = store.place("bronze", table)
    if not place.exists():
        return spark.createDataFrame([], ddl(columns))
    # With the schema given, a group or daemon that is called 1 stays a text.
    return shaped(spark.read.schema(ddl({**columns, **more})).parquet(uri(place)), columns)


TRIGGER: Final = "5 seconds"
"""How often a batch is made while records come; each is a directory."""

LOOK_SECONDS: Final = 0.2

Say = Callable[[str], None]


def stream(spark: SparkSession, wish: PipelineOptions, store: Store, say: Say) -> None:
    """Reads on where the checkpoints of an earlier stream into this directory are, or from the beginning."""
    if not store.checkpoints.exists():
        store.remove("bronze/records")  # What a batch run has left there would be there twice.
    trigger: dict[str, Any] = {"availableNow": True} if wish.until_idle else {"processingTime": TRIGGER}
    with interrupted() as ended:
        queries = [stream_records(spark, spool, store, trigger) for spool in wish.spools]
        try:
            while any(query.isActive for query in queries) and not ended.is_set():
                say(_progress(queries, wish.until_idle))
                time.sleep(LOOK_SECONDS)
            for query in queries:
                if not query.isActive:
                    query.awaitTermination()  # Raises what ended it.
        finally:
            for query in queries:
                query.stop()


def forget(store: Store) -> None:
    """A batch run begins anew: what streams had read is of no use to later ones."""
    store.remove(CHECKPOINTS)


def _progress(queries: list[Any], until_idle: bool) -> str:
    last = [query.lastProgress for query in queries]
    batches = sum([one["batchId"] + 1 for one in last if one is not None])
    return f"streaming, batch {batches}" + (
        "" if until_idle else "; Ctrl-C ends it, and the later stages follow"
    )


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Set when SIGINT or SIGTERM comes inside the block; elsewhere than in the main thread, never."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
