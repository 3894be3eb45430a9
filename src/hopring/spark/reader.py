"""Reading spools in one go. Plans on the driver, reads on executors, in record batches."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from hopring.spark.options import ReadOptions
from hopring.spark.pushing import Pushed, push
from hopring.spark.spans import read_span, spans_of
from hopring.spark.stock import chosen, ranges_of


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
