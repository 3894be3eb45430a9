"""Publishing to a spool, once: the rows of a batch and its number are one append. No pyspark here.

After a crash Spark makes its last batch again, under the same number. The spool says whether that one is in it,
since its mark is in the same blocks as its records: both are there or neither is.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hopring.spark.errors import DataLost, SparkError
from hopring.spark.staging import Staged, staged_runs
from hopring.spool.encode import Mark
from hopring.spool.errors import AppendTooLarge, SpoolOwned
from hopring.spool.record import Facts, Kind
from hopring.spool.writer import Appended, SpoolWriter, wall_us

OWNED_SECONDS_MAX: Final = 30.0
"""A run that was killed may still be at its last append; others wait so long for their turn."""

_RETRY_SECONDS: Final = 0.1


def publish(root: Path, group: str, sender: str, staged: Sequence[Staged], mark: Mark | None) -> Appended:
    """Appends what was staged, unless the batch is in the spool already."""
    with _opened(root, group) as writer:
        last = None if mark is None else writer.last_batch(mark.app)
        if mark is not None and last is not None and mark.batch < last:
            # Only the last batch is ever made again. Dropping this one would lose it in silence.
            raise DataLost(
                f"{writer.directory}: batch {mark.batch} of {mark.app!r} comes behind batch {last}",
                "a query with another checkpoint needs another txnAppId",
            )
        if mark is not None and mark.batch == last:
            return Appended(writer.end, writer.end, replayed=True)
        facts = Facts(Kind.MESSAGE, wall_us(), sender, (group,))
        try:
            return writer.append(list(staged_runs(staged, facts)), mark)
        except AppendTooLarge as error:
            remedy = "make batches smaller, by maxBytesPerTrigger of the reader, or write in parts"
            raise SparkError(str(error.reason), remedy) from error


def _opened(root: Path, group: str) -> SpoolWriter:
    """The writer; waits for its turn if there is another one."""
    until = time.monotonic() + OWNED_SECONDS_MAX
    while True:
        try:
            return SpoolWriter(root, group)
        except SpoolOwned:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)
