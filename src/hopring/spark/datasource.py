"""The data source `hopring`: reads spools as tables and streams, writes to spools and live groups.

Readers plan on the driver and read on executors. For writers, executors stage the rows of a batch, and the
driver publishes them with the number of the batch. To a spool a batch is one append; to a live group it is
messages, each with the batch and its index.

Invariant   the spans of a stream's batch are a function of its start and end, so a batch that is planned again
            after a crash has the same records.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from hopring.spark.errors import SparkError
from hopring.spark.schema import check_records, records_ddl
from hopring.spark.sink.live import multicast
from hopring.spark.sink.options import WriteOptions, check_written, write_options
from hopring.spark.sink.spools import publish_all
from hopring.spark.sink.staging import Staged, clear, on_disk, stage, staging_directory
from hopring.spark.source.inventory import all_spools, chosen, ranges_of
from hopring.spark.source.options import (
    BATCHES_ONLY,
    STREAMS_ONLY,
    Pushed,
    ReadOptions,
    note,
    push,
    read_options,
    refuse,
    with_noted,
)
from hopring.spark.source.pace import BatchPace, StreamConsumer
from hopring.spark.source.progress import (
    Positions,
    bounded,
    bounded_by_bytes,
    ends,
    from_json,
    initial,
    latest,
    to_json,
    wanted,
)
from hopring.spark.source.spans import read_span, spans_of
from hopring.spool.encode import AppendMark
from hopring.spool.files import directory_of


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads spools as a stream; on the driver it exists as long as its query."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.target: Positions | None = None  # The end of a query with the trigger availableNow.
        self.pace = BatchPace(options)
        self.consumer = StreamConsumer(options)

    def initialOffset(self) -> dict[str, Any]:
        """The start of a query without a checkpoint."""
        return to_json(initial(chosen(self.options), self.options))

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; `latestOffset` applies the others itself."""
        its = self.options
        if its.offsets_max is not None:
            return ReadMaxRows(its.offsets_max)
        if its.bytes_max is not None:
            return ReadMaxBytes(its.bytes_max)
        return ReadAllAvailable() if its.offsets_min is None else ReadMinRows(its.offsets_min)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end of the query at the present ends of the spools."""
        self.target = ends(self.options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; the start if there is nothing to read, or not enough yet."""
        begin = from_json(start)
        self.consumer.report(begin)
        end = latest(begin, self.target, self.options)
        if isinstance(limit, ReadAllAvailable):
            return to_json(end)
        if self.target is None and not self.pace.is_due(begin, end, time.monotonic()):
            return start
        if isinstance(limit, ReadMaxRows):
            end = bounded(begin, end, limit.max_rows)
        if self.options.bytes_max is not None:
            end = bounded_by_bytes(all_spools(Path(self.options.path)), begin, end, self.options.bytes_max)
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """The ends of the spools, for the progress reports of the query."""
        return to_json(ends(self.options))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A partition for each span of the batch."""
        its = self.options
        records = wanted(from_json(start), from_json(end), its)
        spans = spans_of(records, fail=its.fail_on_data_loss, partitions_min=its.partitions_min)
        return [InputPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of a span as record batches."""
        its = self.options
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has processed everything before this. It may never call this, so nothing depends on it."""
        self.consumer.report(from_json(end))


class SpoolReader(DataSourceReader):
    """Reads spools as a table, as they are when the query is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """A partition for each span of the table."""
        spools = chosen(self.options)
        wanted = {
            spools[group]: self.pushed.applied(group, its)
            for group, its in ranges_of(spools, self.options).items()
        }
        fail, least = self.options.fail_on_data_loss, self.options.partitions_min
        return [InputPartition(span) for span in spans_of(wanted, fail=fail, partitions_min=least)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of a span as record batches."""
        its = self.options
        if partition.value is None:
            return iter(())  # Spark makes one partition of an empty list, with no value.
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)


class SpoolPushReader(SpoolReader):
    """A reader that applies filters. A class of its own: Spark refuses the method where push-down is off."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Accepts the filters on offsets and groups, and returns the others."""
        self.pushed, left = push(filters)
        return left


SENDER: Final = "spark"
QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a stream's tasks with the id of the query, which is that of its checkpoint."""


@dataclass
class StagedTask(WriterCommitMessage):
    """The commit message of a task."""

    staged: Staged
    query: str = ""  # The id of the query; empty if it is not a stream.


class _Sink:
    """Common part of both writers; one object per run, on the driver and, as a copy, on executors."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        root = options.path or options.kept
        self.directory = directory_of(Path(root), options.group) if root else None
        self.place = staging_directory(self.directory, options.app or SENDER)

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """Stages the rows of a task, on an executor."""
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(QUERY_ID)
        with on_disk(self.place):
            return StagedTask(stage(iterator, self.place, self.options.group), query or "")

    def publish(self, messages: Sequence[StagedTask | None], mark: AppendMark | None) -> None:
        """Publishes the rows of all tasks in the order of the tasks, on the driver."""
        its = self.options
        tasks = [message for message in messages if message is not None]
        staged = [task.staged for task in tasks]
        query = tasks[0].query if tasks else ""
        with on_disk(self.place):
            if its.path:
                publish_all(Path(its.path), its.group, its.sender or its.app or SENDER, staged, mark, query)
            else:
                assert mark is not None, "options of live groups require one"
                multicast(its, self.directory, staged, mark, query)
        clear(self.place, staged)

    def discard(self, messages: Sequence[StagedTask | None]) -> None:
        """Removes the staged rows of all tasks."""
        clear(self.place, [message.staged for message in messages if message is not None])


class SinkWriter(_Sink, DataSourceArrowWriter):
    """The writer that `df.write` uses."""

    def commit(self, messages: Sequence[StagedTask | None]) -> None:
        """Publishes the rows, when all tasks are done."""
        self.publish(messages, self.options.mark)

    def abort(self, messages: Sequence[StagedTask | None]) -> None:
        """Removes the staged rows, when a task has failed; nothing is published."""
        self.discard(messages)


class SinkStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """The writer that `df.writeStream` uses."""

    def commit(self, messages: Sequence[StagedTask | None], batchId: int) -> None:
        """Publishes a batch, when all its tasks are done; a killed run may have published it before."""
        self.publish(messages, AppendMark(self.options.app, batchId))

    def abort(self, messages: Sequence[StagedTask | None], batchId: int) -> None:  # noqa: ARG002
        """Removes the staged rows, when a task has failed; nothing is published."""
        self.discard(messages)


NAME = "hopring"


class SpoolDataSource(DataSource):
    """The data source behind `format("hopring")` in Spark."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark finds the source."""
        return NAME

    def schema(self) -> str:
        """The columns of records. The first call, so wrong options are refused here."""
        return records_ddl(payload=read_options(self.options).payload, comment=note(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader that `spark.read` uses."""
        options = read_options(self._reading(schema, STREAMS_ONLY, "without a stream"))
        return (SpoolPushReader if options.push_filters else SpoolReader)(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader that `spark.readStream` uses."""
        return SpoolStreamReader(
            read_options(self._reading(schema, BATCHES_ONLY, "in a stream, which has no end"))
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer that `df.write` uses."""
        return SinkWriter(self._writing(schema, overwrite, stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer that `df.writeStream` uses."""
        return SinkStreamWriter(self._writing(schema, overwrite, stream=True))

    def _reading(self, schema: StructType, without: tuple[str, ...], where: str) -> dict[str, str]:
        check_records(schema.names)
        found = with_noted(self.options, [field.metadata.get("comment", "") for field in schema])
        refuse(found, without, where)
        return found

    def _writing(self, schema: StructType, overwrite: bool, *, stream: bool) -> WriteOptions:
        if overwrite:
            raise SparkError("a sink cannot overwrite", "append: .mode('append'), outputMode('append')")
        by_row = check_written([(field.name, field.dataType.simpleString()) for field in schema])
        return write_options(self.options, stream=stream, by_row=by_row)
