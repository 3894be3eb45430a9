"""The queries of a stream: they append the records of spools to the bronze table, batch by batch.

A query of each spool runs as long as the stream. In this process's Java each of its batches is taken in by a
pass right away (`OwnQueries`). Behind Spark Connect the function of a batch runs in a process of the server,
which has neither the ledger nor the lock of the stream. There it writes the directory of its batch and nothing
else; batches are taken in here once Spark has committed them (`ServedQueries`).

Invariants  a batch is a function of its two offsets and has a directory of its own, which is replaced when
            Spark repeats the batch after a crash: every record is in the table once;
            upkeep touches batches that Spark has committed, while nothing is written to the spool's directory;
            a query that a killed client has left at a server writes nothing once another stream has begun
            (`OWNER`). Spark itself ends it when the next stream starts the query again at that server.
Limit       of two streams into one directory at the same time the later one goes on, and the other one ends.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hopring.spark.pipeline import ingest
from hopring.spark.pipeline.counters import query_name
from hopring.spark.pipeline.store import PipelineOptions, SpoolRoot, Store, uri
from hopring.spark.pipeline.upkeep import BATCH, SpoolUpkeep
from hopring.spark.schema import BRONZE, shaped
from hopring.spark.session import is_served

TRIGGER: Final = "5 seconds"
"""The interval between batches while records arrive; each batch is a directory."""

STARTS_MAX: Final = 5
"""Attempts to run a query without a batch in between: Spark gives each Python process ten seconds to begin."""

_SLOW_WORKER: Final = "failed to connect back"

OWNER: Final = "_owner"
"""The file in the directory of checkpoints with the id of the stream that writes the tables."""

Take = Callable[[str, int], object]
"""Takes in the batches of a spool up to this one."""


class RecordQueries(Protocol):
    """The queries of all spools of a stream."""

    def look(self) -> None:
        """Takes in batches that nothing else takes in; raises the error of a query that failed."""

    def are_idle(self) -> bool:
        """Whether the queries of a stream that ends have read everything that existed at its start."""

    def stop(self) -> None:
        """Ends the queries; a batch that is under way is repeated by the next stream."""


def start_queries(
    spark: SparkSession, options: PipelineOptions, store: Store, turn: AbstractContextManager[Any], take: Take
) -> RecordQueries:
    """Starts the queries that suit the session. `take` is called after each batch, in its `turn`."""
    store.checkpoints.mkdir(exist_ok=True)
    owner = uuid4().hex
    (store.checkpoints / OWNER).write_text(owner)
    if is_served(spark):
        return ServedQueries(spark, options, store, owner, turn, take)
    return OwnQueries(spark, options, store, turn, take)


class _Query:
    """The query of one spool, which is started again if Spark could not start a process for it in time.

    It then goes on behind its last batch; that one is repeated, as after any crash.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._failures = 0
        self._running = self._started()

    def _started(self) -> Any:
        while True:
            try:
                return self._start()
            except PySparkException as error:
                self._must_be_slow(error)

    def _must_be_slow(self, error: PySparkException) -> None:
        self._failures += 1
        if self._failures >= STARTS_MAX or _SLOW_WORKER not in str(error):
            raise error

    @property
    def is_through(self) -> bool:
        """Whether it has ended by itself, without an error."""
        return not self._running.isActive and self._running.exception() is None

    def look(self) -> None:
        """Raises the error that ended the query, if it is not started again."""
        if self._running.isActive:
            return
        try:
            self._running.awaitTermination()
        except PySparkException as error:
            self._must_be_slow(error)
            self._running = self._started()

    def goes_on(self) -> None:
        """Notes that it has made a batch: earlier failures do not count any more."""
        self._failures = 0

    def stop(self) -> None:
        """Ends the query, which may be started again."""
        self._running.stop()

    def restart(self) -> None:
        """Starts it again after it was stopped."""
        self._running = self._started()


class OwnQueries:
    """A query for each spool in this process's Java, as long as the stream runs."""

    def __init__(
        self,
        spark: SparkSession,
        options: PipelineOptions,
        store: Store,
        turn: AbstractContextManager[Any],
        take: Take,
    ) -> None:
        def started(spool: SpoolRoot) -> Any:
            write = _in_turn(spool, store, turn, taken, _upkeep(spool, options, store))
            writer = _writer(spark, spool, options, store).foreachBatch(write)
            return writer.trigger(**_trigger(options)).start()

        def taken(spool: str, batch: int) -> None:
            take(spool, batch)
            if spool in self._queries:  # A first batch may come before the constructor has ended.
                self._queries[spool].goes_on()

        self._queries: dict[str, _Query] = {}
        for spool in options.spools:
            self._queries[spool.name] = _Query(partial(started, spool))

    def look(self) -> None:
        for query in self._queries.values():
            query.look()

    def are_idle(self) -> bool:
        return all(query.is_through for query in self._queries.values())

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()


class ServedQueries:
    """A query for each spool at a Spark Connect server; the batches that it has committed are taken in here."""

    def __init__(
        self,
        spark: SparkSession,
        options: PipelineOptions,
        store: Store,
        owner: str,
        turn: AbstractContextManager[Any],
        take: Take,
    ) -> None:
        self._spark = spark
        self._options = options
        self._store = store
        self._owner = owner
        self._turn = turn
        self._take = take
        self._upkeep = {spool.name: _upkeep(spool, options, store) for spool in options.spools}
        self._taken = {spool.name: -1 for spool in options.spools}
        self._queries = {spool.name: _Query(partial(self._started, spool)) for spool in options.spools}

    def look(self) -> None:
        for spool in self._options.spools:
            query = self._queries[spool.name]
            query.look()
            last = ingest.last_committed(self._store, spool.name)
            if last > self._taken[spool.name]:
                with self._turn:
                    self._take(spool.name, last)
                self._taken[spool.name] = last
                query.goes_on()
                self._keep_up(spool)

    def _keep_up(self, spool: SpoolRoot) -> None:
        """Upkeep between two runs of the query: it replaces the directory that batches are written to."""
        upkeep, query = self._upkeep[spool.name], self._queries[spool.name]
        if self._options.until_idle or not upkeep.is_due(self._taken[spool.name] + 1):
            return
        query.stop()
        last = ingest.last_committed(self._store, spool.name)
        with self._turn:
            upkeep.keep_up(self._spark, last + 1, time.time_ns() // 1000)
        query.restart()

    def _started(self, spool: SpoolRoot) -> Any:
        write = fenced(str(_place(spool, self._store)), str(self._store.checkpoints / OWNER), self._owner)
        writer = _writer(self._spark, spool, self._options, self._store).foreachBatch(write)
        return writer.trigger(**_trigger(self._options)).start()

    def are_idle(self) -> bool:
        if not all(query.is_through for query in self._queries.values()):
            return False
        return all(ingest.last_committed(self._store, name) == last for name, last in self._taken.items())

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()


def _trigger(options: PipelineOptions) -> dict[str, Any]:
    return {"availableNow": True} if options.until_idle else {"processingTime": TRIGGER}


def _place(spool: SpoolRoot, store: Store) -> Path:
    return store.place("bronze", "records") / f"spool={spool.name}"


def _upkeep(spool: SpoolRoot, options: PipelineOptions, store: Store) -> SpoolUpkeep:
    place = str(_place(spool, store).relative_to(store.out))
    return SpoolUpkeep(store.out, place, store.workshop, options.upkeep)


def _writer(spark: SparkSession, spool: SpoolRoot, options: PipelineOptions, store: Store) -> Any:
    reader = spark.readStream.option("maxOffsetsPerTrigger", options.batch_records_max)
    records = shaped(ingest.labelled(spool, ingest.source(reader, spool)), BRONZE["records"])
    writer = records.writeStream.queryName(query_name(spool.name))
    return writer.option("checkpointLocation", uri(store.checkpoints / spool.name))


def _in_turn(
    spool: SpoolRoot, store: Store, turn: AbstractContextManager[Any], take: Take, upkeep: SpoolUpkeep
) -> Callable[[DataFrame, int], None]:
    place = str(_place(spool, store))

    def write(records: DataFrame, number: int) -> None:
        with turn:
            # All earlier batches were committed, and taken in.
            upkeep.keep_up(records.sparkSession, number, time.time_ns() // 1000)
            _write_batch(records, place, number)
            take(spool.name, number)

    return write


def fenced(place: str, own: str, owner: str) -> Callable[[DataFrame, int], None]:
    """What a server does with a batch; only values, because the function is sent there."""

    def write(records: DataFrame, number: int) -> None:
        if Path(own).read_text() != owner:
            raise RuntimeError("another stream writes into this directory now")
        _write_batch(records, place, number)

    return write


def _write_batch(records: DataFrame, place: str, number: int) -> None:
    target = uri(Path(place) / f"{BATCH}={number}")
    records.drop("spool").write.mode("overwrite").partitionBy("group").parquet(target)
