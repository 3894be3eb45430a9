"""The writers that Spark calls. Executors stage the rows of a batch; the driver publishes them with its number.

To a spool a batch is one append; to a live group it is messages, each with the batch and its index.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hopring.spark.sink.options import WriteOptions
from hopring.spark.sink.publish import Staged, clear, multicast, publish, stage, staging_directory
from hopring.spool.encode import AppendMark
from hopring.spool.layout import directory_of

SENDER: Final = "spark"


@dataclass
class StagedTask(WriterCommitMessage):
    """The commit message of a task."""

    staged: Staged


class _Sink:
    """Common part of both writers; one object per run, on the driver and, as a copy, on executors."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        root = options.path or options.kept
        self.directory = directory_of(Path(root), options.group) if root else None
        temporary = Path(gettempdir()) / "hopring-staging"
        self.place = staging_directory(self.directory or temporary, options.app or SENDER)

    def write(self, iterator: Iterator[Any]) -> StagedTask:
        """Stages the rows of a task, on an executor."""
        return StagedTask(stage(iterator, self.place))

    def publish(self, messages: Sequence[StagedTask | None], mark: AppendMark | None) -> None:
        """Publishes the rows of all tasks in the order of the tasks, on the driver."""
        its = self.options
        staged = [message.staged for message in messages if message is not None]
        if its.path:
            publish(Path(its.path), its.group, its.sender or its.app or SENDER, staged, mark)
        else:
            assert mark is not None, "options of live groups require one"
            multicast(its, self.directory, staged, mark)
        clear(self.place)


class SinkWriter(_Sink, DataSourceArrowWriter):
    """The writer that `df.write` uses."""

    def commit(self, messages: Sequence[StagedTask | None]) -> None:
        """Publishes the rows, when all tasks are done."""
        self.publish(messages, self.options.mark)

    def abort(self, messages: Sequence[StagedTask | None]) -> None:  # noqa: ARG002  Its files are all in one place.
        """Removes the staged rows, when a task has failed; nothing is published."""
        clear(self.place)


class SinkStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """The writer that `df.writeStream` uses."""

    def commit(self, messages: Sequence[StagedTask | None], batchId: int) -> None:
        """Publishes a batch, when all its tasks are done; a killed run may have published it before."""
        self.publish(messages, AppendMark(self.options.app, batchId))

    def abort(self, messages: Sequence[StagedTask | None], batchId: int) -> None:  # noqa: ARG002
        """Removes the staged rows, when a task has failed; nothing is published."""
        clear(self.place)
