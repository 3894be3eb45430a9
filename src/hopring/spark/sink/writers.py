"""Sinks to spools and live groups: executors stage, the driver publishes, a batch with its number in it.

To a spool it is one append; to a live group it is messages, each with the batch and its index.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hopring.spark.sink.options import WriteOptions
from hopring.spark.sink.publish import multicast, publish
from hopring.spark.sink.staging import Staged, clear, stage, staging_directory
from hopring.spool.encode import AppendMark
from hopring.spool.layout import directory_of

SENDER: Final = "spark"


@dataclass
class StagedTask(WriterCommitMessage):
    """A task's word to the driver."""

    staged: Staged


class _Sink:
    """What both writers do; one object stands for one run, on the driver and, as a copy, on executors."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        root = options.path or options.kept
        self.directory = directory_of(Path(root), options.group) if root else None
        temporary = Path(gettempdir()) / "hopring-staging"
        self.place = staging_directory(self.directory or temporary, options.app or SENDER)

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """On an executor: the rows of a task."""
        return StagedTask(stage(iterator, self.place))

    def publish(self, messages: Sequence[StagedTask | None], mark: AppendMark | None) -> None:
        """On the driver: the rows of all tasks, in the order of the tasks."""
        its = self.options
        staged = [message.staged for message in messages if message is not None]
        if its.path:
            publish(Path(its.path), its.group, its.sender or its.app or SENDER, staged, mark)
        else:
            assert mark is not None, "options for live groups are refused without"
            multicast(its, self.directory, staged, mark)
        clear(self.place)


class SinkWriter(_Sink, DataSourceArrowWriter):
    """For `df.write`."""

    def commit(self, messages: Sequence[StagedTask | None]) -> None:
        """All tasks are done."""
        self.publish(messages, self.options.mark)

    def abort(self, messages: Sequence[StagedTask | None]) -> None:  # noqa: ARG002  Its files are all in one place.
        """One has failed, and nothing is published."""
        clear(self.place)


class SinkStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """For `df.writeStream`."""

    def commit(self, messages: Sequence[StagedTask | None], batchId: int) -> None:
        """All tasks of a batch are done; they may have been before, in a run that was killed."""
        self.publish(messages, AppendMark(self.options.app, batchId))

    def abort(self, messages: Sequence[StagedTask | None], batchId: int) -> None:  # noqa: ARG002
        """One has failed, and nothing is published."""
        clear(self.place)
