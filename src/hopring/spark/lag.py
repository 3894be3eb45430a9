"""The lag of streams that read spools: by group, the records and the seconds behind the end of the spool.

Spark's progress of a Python source has offsets and no figures. `LagListener` makes figures of them for each
progress report; `lag_of` does the same for one.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from hopring.spark.source.inventory import all_spools
from hopring.spark.source.progress import Positions, SpoolPosition, from_json, waiting
from hopring.spool.errors import SpoolError
from hopring.spool.reading import entries


class GroupLag(msgspec.Struct, frozen=True):
    """How far a stream is behind the end of a group's spool."""

    records: int
    seconds: float | None  # Between the last record that was read and the last one; None if that is not known.


Tell = Callable[[str, Mapping[str, GroupLag]], None]
"""Gets the name of a query and its lag by group."""


class LagListener(StreamingQueryListener):
    """Tells the lag of queries by their names, each time that Spark reports their progress.

    `roots` has the root of the spools of each query. A query that is not named there is ignored.
    """

    def __init__(self, roots: Mapping[str, str | Path], tell: Tell) -> None:
        self._roots = {name: Path(root) for name, root in roots.items()}
        self._tell = tell

    def onQueryStarted(self, event: Any) -> None:
        """A query has started: it has no progress yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Tells the lag of a query that has made a batch."""
        progress = event.progress
        root = self._roots.get(progress.name)
        if root is None:
            return
        found: dict[str, GroupLag] = {}
        for source in progress.sources:
            if source.endOffset and source.latestOffset:
                found |= lag_of(root, json.loads(source.endOffset), json.loads(source.latestOffset))
        self._tell(progress.name, found)

    def onQueryIdle(self, event: Any) -> None:
        """A query has nothing to read; the last progress says where it is."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended: its lag stays as it was told."""


def lag_of(root: Path, read: Mapping[str, Any], latest: Mapping[str, Any]) -> dict[str, GroupLag]:
    """The lag by group between two offsets of a stream: up to where it has read, and the ends of the spools."""
    done, ends = from_json(read), from_json(latest)
    return {group: _lag(root, group, done, end) for group, end in sorted(ends.items())}


def _lag(root: Path, group: str, done: Positions, end: SpoolPosition) -> GroupLag:
    start = done.get(group)
    if start is None or start.spool not in ("", end.spool):
        return GroupLag(end.offset, None)  # A group, or a spool in the place of another, that is yet to come.
    records = len(waiting(start, end))
    return GroupLag(records, _seconds(root, group, start.offset, end.offset) if records else 0.0)


def _seconds(root: Path, group: str, start: int, end: int) -> float | None:
    """The time between the append before `start`, or the first one, and the last one before `end`."""
    try:
        directory = all_spools(root)[group]
        first = next(entries(directory, max(start - 1, 0), max(start, 1)))
        last = next(entries(directory, end - 1, end))
    except (SpoolError, OSError, KeyError, StopIteration):
        return None  # Not in reach of this process, or removed by retention.
    return max(0.0, (last.time_us - first.time_us) / 1_000_000)
