"""When a stream makes a batch, and how it reports its progress to retention. No pyspark.

Both are the memory of one query on the driver. After a restart the query begins without it, and a batch is due
at once.
"""

from dataclasses import dataclass, field
from pathlib import Path

from hopring.spark.errors import SparkError
from hopring.spark.source.inventory import all_spools, id_of
from hopring.spark.source.options import TRIGGER_DELAY_SECONDS_DEFAULT, ReadOptions
from hopring.spark.source.progress import Positions, is_entered, records_waiting
from hopring.spool.retention import permit


@dataclass(slots=True)
class BatchPace:
    """Holds a batch back until enough records wait, or the last batch was long ago."""

    options: ReadOptions
    last_at_seconds: float | None = None  # When the last batch was due.

    def is_due(self, start: Positions, end: Positions, now_seconds: float) -> bool:
        """Whether a batch with these records is made now."""
        least = self.options.offsets_min
        if least is None:
            return True
        count = sum(records_waiting(start, end).values())
        # A group enters without records, and its records count only afterwards.
        if is_entered(start, end):
            return True
        if not count or (count < least and not self._has_waited(now_seconds)):
            return False
        self.last_at_seconds = now_seconds
        return True

    def _has_waited(self, now_seconds: float) -> bool:
        its = self.options.delay_seconds
        delay_seconds = TRIGGER_DELAY_SECONDS_DEFAULT if its is None else its
        return self.last_at_seconds is None or now_seconds - self.last_at_seconds >= delay_seconds


@dataclass(slots=True)
class StreamConsumer:
    """Reports the position of a query to the spools, so that retention keeps the records that it needs."""

    options: ReadOptions
    reported: Positions = field(default_factory=dict)

    def report(self, done: Positions) -> None:
        """Reports that the query is done with all records before these positions; SparkError if it cannot."""
        if not self.options.consumer or done == self.reported:
            return
        there = all_spools(Path(self.options.path))
        for group, its in done.items():
            if self.reported.get(group) == its or group not in there or its.spool != id_of(there[group]):
                continue
            try:
                permit(there[group], self.options.consumer, its.offset)
            except OSError as error:
                remedy = "let the driver write there, or leave out the option consumer"
                raise SparkError(f"{there[group]}: {error.strerror or error}", remedy) from None
        self.reported = done
