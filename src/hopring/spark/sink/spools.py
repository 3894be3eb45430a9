"""Publishes a batch to spools: one append to each, unless it is there already."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hopring.spark.errors import DataLost, SparkError
from hopring.spark.sink.claims import claim, claim_of_spool
from hopring.spark.sink.staging import Staged, groups_of, staged_runs
from hopring.spool.encode import AppendMark
from hopring.spool.errors import AppendTooLarge, SpoolOwned
from hopring.spool.record import RecordHeader, RecordKind
from hopring.spool.writer import Appended, SpoolWriter, wall_us

OWNED_SECONDS_MAX: Final = 30.0
"""How long to wait for the spool's lock: a run that was killed may still be writing its last append."""

_RETRY_SECONDS: Final = 0.1


def publish_all(
    root: Path, group: str, sender: str, staged: Sequence[Staged], mark: AppendMark | None, query: str = ""
) -> None:
    """Appends the staged rows to the spools of the groups that they name, or else to that of this group."""
    named = groups_of(staged, group)
    if group and not named:
        named = [group]  # A spool is made even without rows.
    for name in named:
        publish(root, name, sender, staged, mark, query)


def publish(
    root: Path, group: str, sender: str, staged: Sequence[Staged], mark: AppendMark | None, query: str = ""
) -> Appended:
    """Appends the staged rows of a group to its spool, unless the batch is there already."""
    with _opened(root, group) as writer:
        last = None if mark is None else writer.last_batch(mark.app)
        if mark is not None and last is not None and mark.batch < last:
            # Spark repeats only the last batch. Dropping this one would lose it silently.
            raise DataLost(
                f"{writer.directory}: batch {mark.batch} of {mark.app!r} comes after batch {last}",
                "a query with another checkpoint needs another txnAppId",
            )
        if mark is not None and query:
            claim(claim_of_spool(writer.directory, mark.app), mark.app, query, anew=last is None)
        if mark is not None and mark.batch == last:
            return Appended(writer.end, writer.end, replayed=True)
        header = RecordHeader(RecordKind.MESSAGE, wall_us(), sender, (group,))
        try:
            return writer.append(list(staged_runs(staged, header)), mark)
        except AppendTooLarge as error:
            remedy = "make batches smaller with the reader's option maxBytesPerTrigger, or write in parts"
            raise SparkError(str(error.reason), remedy) from error


def _opened(root: Path, group: str) -> SpoolWriter:
    """The writer of the spool; waits while another process has the lock."""
    until = time.monotonic() + OWNED_SECONDS_MAX
    while True:
        try:
            return SpoolWriter(root, group)
        except SpoolOwned:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)
