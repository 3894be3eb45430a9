"""The first stage, ingest: copies spools and traces unchanged into the bronze tables.

Records get the name of their spool and are partitioned by spool, batch and group; a run that is not a stream
has one batch, 0. A stream runs one query per spool (`queries.py`). Rows of the trace keep their file and row
number, which order the starts of a daemon.
"""

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hopring.spark.audit.reading import read_trace
from hopring.spark.pipeline.store import CHECKPOINTS, SpoolRoot, Store, uri
from hopring.spark.pipeline.upkeep import BATCH
from hopring.spark.schema import BRONZE, RECORDS, RUN, ddl, shaped
from hopring.spark.source.native import native_part

RECORD_PARTS = ("spool", BATCH, "group")
TRACE_PARTS = (RUN, "daemon")


def read_records(spark: SparkSession, spools: tuple[SpoolRoot, ...]) -> DataFrame:
    """All records that can be read now; `gaps` lists those that are missing."""
    return reduce(DataFrame.unionByName, [labelled(spool, _table(spark, spool)) for spool in spools])


def write_records(records: DataFrame, store: Store) -> None:
    """Writes the table of records, replacing an old one."""
    with store.making("bronze", "records") as place:
        table = shaped(records, BRONZE["records"]).withColumn(BATCH, F.lit(0))
        table.write.partitionBy(*RECORD_PARTS).parquet(store.files.uri(place))


def _table(spark: SparkSession, spool: SpoolRoot) -> DataFrame:
    """The records of a spool: Spark reads the files of the archive itself, and our source reads the rest."""
    native = native_part(Path(spool.path))
    rest = source(spark.read.option("startingOffsets", json.dumps(native.ends)), spool)
    if not native.files:
        return rest
    archived = spark.read.schema(ddl(RECORDS)).parquet(*[uri(file) for file in native.files])
    return archived.unionByName(rest)


def source(reader: Any, spool: SpoolRoot) -> DataFrame:
    """The records of a spool, as a table or as a stream."""
    found: DataFrame = reader.format("hopring").option("failOnDataLoss", "false").load(spool.path)
    return found


def labelled(spool: SpoolRoot, records: DataFrame) -> DataFrame:
    """Records with the name of their spool."""
    return records.withColumn("spool", F.lit(spool.name))


def bronze_records(spark: SparkSession, store: Store, batches: Mapping[str, int] | None = None) -> DataFrame:
    """The bronze table of records; empty if there is none.

    With `batches`, by spool, up to these: a stream that was killed may have left a part of the next one.
    """
    if batches is None:
        return _read(spark, store, "records", {BATCH: "int"})
    complete = [(F.col("spool") == name) & (F.col(BATCH) <= last) for name, last in sorted(batches.items())]
    only = reduce(Column.__or__, complete, F.lit(False))
    return _read(spark, store, "records", {BATCH: "int"}, only)


def records_of_batches(spark: SparkSession, store: Store, spool: str, batches: range) -> DataFrame:
    """The records of some batches of a spool, from the bronze table."""
    root = store.place("bronze", "records")
    places = [root / f"spool={spool}" / f"{BATCH}={number}" for number in batches]
    found = [uri(place) for place in places if place.exists()]
    columns = BRONZE["records"]
    if not found:
        return spark.createDataFrame([], ddl(columns))
    reader = spark.read.schema(ddl({**columns, BATCH: "int"})).option("basePath", uri(root))
    return shaped(reader.parquet(*found), columns)


def last_committed(store: Store, spool: str) -> int:
    """The last batch of a spool that Spark has committed and never repeats; -1 if there is none."""
    commits = (store.checkpoints / spool / "commits").glob("[0-9]*")
    return max([int(file.name) for file in commits if file.name.isdigit()], default=-1)


def write_trace(spark: SparkSession, where: str, store: Store) -> None:
    """Writes the table of the trace of all daemons, replacing an old one."""
    with store.making("bronze", "trace") as place:
        trace = shaped(read_trace(spark, where), BRONZE["trace"])
        trace.write.partitionBy(*TRACE_PARTS).parquet(store.files.uri(place))


def bronze_trace(spark: SparkSession, store: Store) -> DataFrame:
    """The bronze table of the trace, which `audit` reads as well; empty if there is none."""
    trace = _read(spark, store, "trace", {})
    return trace.withColumn(RUN, F.coalesce(RUN, F.lit("")))  # A partition directory turns "" into null.


def _read(
    spark: SparkSession, store: Store, table: str, more: dict[str, str], only: Column | None = None
) -> DataFrame:
    columns = BRONZE[table]
    if not store.has("bronze", table):
        return spark.createDataFrame([], ddl(columns))
    # The schema is given, so that a group or daemon with the name 1 stays a string.
    found = spark.read.schema(ddl({**columns, **more})).parquet(store.uri("bronze", table))
    return shaped(found if only is None else found.where(only), columns)


def forget(store: Store) -> None:
    """Removes the checkpoints of streams, because a batch run replaces their records."""
    store.remove(CHECKPOINTS)


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """An event that is set on SIGINT or SIGTERM inside the block; outside the main thread it is never set."""
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
