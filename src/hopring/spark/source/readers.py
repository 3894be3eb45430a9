"""Reading spools as a stream. Plans on the driver, reads on executors, in record batches.

Invariant   the spans of a batch are a function of its start and end, so a batch that is planned again after a
            crash has the same records.
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
    """A stream over spools; on the driver it lives as long as its query."""

    def __init__(self, options: ReadOptions) -> None:
        """Nothing is looked at yet."""
        self.options = options
        self.target: Offsets | None = None  # Where a query ends that reads what is available now.

    def initialOffset(self) -> Offsets:
        """Where a query begins that has no checkpoint."""
        return initial(chosen(self.options), self.options)

    def getDefaultReadLimit(self) -> ReadLimit:
        """By the options; if both limits are given, `latestOffset` minds the other one, too."""
        if self.options.offsets_max is not None:
            return ReadMaxRows(self.options.offsets_max)
        return ReadAllAvailable() if self.options.bytes_max is None else ReadMaxBytes(self.options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is here now is the whole of it."""
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
        """How far the spools are, for whoever watches the query."""
        return ends(self.options)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """One for each span of the batch."""
        its = self.options
        spans = spans_of(wanted(start, end, its), fail=its.fail_on_data_loss, partitions_min=its.partitions_min)
        return [InputPartition(span) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a span."""
        its = self.options
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)

    def commit(self, end: Offsets) -> None:
        """Spark is done with what is before this. It may never say so, so nothing here depends on it."""


class SpoolReader(DataSourceReader):
    """A batch over the spools that are there when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        """Nothing is looked at yet."""
        self.options = options
        self.pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """One for each span."""
        spools = chosen(self.options)
        wanted = {
            spools[group]: self.pushed.applied(group, its)
            for group, its in ranges_of(spools, self.options).items()
        }
        fail, least = self.options.fail_on_data_loss, self.options.partitions_min
        return [InputPartition(span) for span in spans_of(wanted, fail=fail, partitions_min=least)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a span."""
        its = self.options
        return read_span(partition.value, payload=its.payload, fail=its.fail_on_data_loss)


class SpoolPushReader(SpoolReader):
    """The same with filters. A class of its own: the method is an error where Spark pushes none."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Takes those on offsets and groups, gives the others back."""
        self.pushed, left = push(filters)
        return left
