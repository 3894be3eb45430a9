"""The readers that Spark calls, for tables and streams. They plan on the driver and read on executors.

Invariant   the spans of a stream's batch are a function of its start and end, so a batch that is planned again
            after a crash has the same records.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from hopring.spark.source.filters import Pushed, push
from hopring.spark.source.inventory import all_spools, chosen, ranges_of
from hopring.spark.source.options import ReadOptions
from hopring.spark.source.progress import Offsets, bounded, bounded_by_bytes, ends, initial, latest, wanted
from hopring.spark.source.spans import read_span, spans_of


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads spools as a stream; on the driver it exists as long as its query."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.target: Offsets | None = None  # The end of a query with the trigger availableNow.

    def initialOffset(self) -> Offsets:
        """The start of a query without a checkpoint."""
        return initial(chosen(self.options), self.options)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; if both are given, `latestOffset` applies the one on bytes itself."""
        if self.options.offsets_max is not None:
            return ReadMaxRows(self.options.offsets_max)
        return ReadAllAvailable() if self.options.bytes_max is None else ReadMaxBytes(self.options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end of the query at the present ends of the spools."""
        self.target = ends(self.options)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        """The end of the next batch; the start if there is nothing to read."""
        end = latest(start, self.target, self.options)
        if isinstance(limit, ReadAllAvailable):
            return end
        if isinstance(limit, ReadMaxRows):
            end = bounded(start, end, limit.max_rows)
        if self.options.bytes_max is not None:
            end = bounded_by_bytes(all_spools(Path(self.options.path)), start, end, self.options.bytes_max)
        return end

    def reportLatestOffset(self) -> Offsets:
        """The ends of the spools, for the progress reports of the query."""
        return ends(self.options)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """A partition for each span of the batch."""
        its = self.options
        spans = spans_of(wanted(start, end, its), fail=its.fail_on_data_loss, partitions_min=its.partitions_min)
        return [InputPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The records of a span as record batches."""
        its = self.options
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)

    def commit(self, end: Offsets) -> None:
        """Spark has processed everything before this. It may never call this, so nothing depends on it."""


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
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)


class SpoolPushReader(SpoolReader):
    """A reader that applies filters. A class of its own: Spark refuses the method where push-down is off."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Accepts the filters on offsets and groups, and returns the others."""
        self.pushed, left = push(filters)
        return left
