"""The writer of a spool: appends whole batches, and says when they are safe.

Invariants  what `synced_end` covers survives any crash; nothing else is shown to readers;
            of an append that failed nothing is kept, unless the disk also refuses to cut it off:
            then the writer is at its end, and what is there is seen when the spool is opened again;
            after a sync that failed nothing is acknowledged ever, and the writer is at its end.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.spool.disk import Disk
from hopring.spool.encode import Encoded, Mark, encode_append
from hopring.spool.errors import (
    AppendFailed,
    NotASpool,
    SpoolError,
    SpoolFull,
    SyncFailed,
    WriterClosed,
    refusal,
)
from hopring.spool.heads import SPOOL_ID_BYTES, SegmentHead
from hopring.spool.layout import bases, directory_of, make_directory
from hopring.spool.limits import check_limits
from hopring.spool.lock import take_lock
from hopring.spool.options import SpoolOptions
from hopring.spool.record import Run
from hopring.spool.recovery import Recovery, open_last, sweep
from hopring.spool.retention import retain
from hopring.spool.segment import OpenSegment, Written, create_segment


class Appended(NamedTuple):
    """What came of an append: its records have the offsets from `start` to before `end`."""

    start: int
    end: int
    replayed: bool = False  # Whether the batch had been appended before, so that nothing was done now.


def wall_us() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class SpoolWriter:
    """The one writer of the spool of a group."""

    def __init__(
        self,
        root: Path | str,
        group: str,
        options: SpoolOptions | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], int] = wall_us,
    ) -> None:
        """Opens the spool, or makes it; SpoolOwned if it has a writer, another SpoolError if it is spoiled."""
        if not is_legal_group(GroupName(group)):
            raise ValueError(f"{group!r} is no name of a group")
        self.group = group
        self.directory = directory_of(Path(root), group)
        self.options = options or SpoolOptions()
        self._disk = disk or Disk()
        self._clock = clock
        self._ended = ""
        self._end = self._synced_end = 0
        self._apps: dict[str, int] = {}
        self._synced_apps: dict[str, int] = {}
        self._synced_at_us = 0
        self.recovery = Recovery()
        self._segment: OpenSegment
        try:
            make_directory(self.directory, self._disk)
            self._lock = take_lock(self.directory)
        except OSError as error:
            raise refusal(self.directory, error) from error
        try:
            self._open()
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError) and not isinstance(error, SpoolError):
                raise refusal(self.directory, error) from error
            raise

    # What is known.

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self._end

    @property
    def synced_end(self) -> int:
        """All records before this offset are safe."""
        return self._synced_end

    def last_batch(self, app: str) -> int | None:
        """The last batch of this application that was appended."""
        return self._apps.get(app)

    # What is done.

    def append(self, runs: Sequence[Run], mark: Mark | None = None) -> Appended:
        """Adds the records of these runs, all or none; those of a batch that was appended before, not again.

        They are safe when `synced_end` has reached the end that is returned: at once if `sync_seconds` is 0.
        """
        self._check()
        if mark is not None and mark.batch <= self._apps.get(mark.app, -1):
            return Appended(self._end, self._end, replayed=True)
        now_us = self._clock()
        blocks = encode_append(runs, self._end, self._segment.head.key, now_us, mark)
        if not blocks:
            return Appended(self._end, self._end)
        check_limits(self.directory, blocks, mark, self._apps)
        start = self._end
        if self._is_due_to_roll(sum([block.head.size_bytes for block in blocks]), now_us):
            self.roll()
        before, apps = self._segment.mark(), self._apps
        self._write(blocks)
        self._end = blocks[-1].head.end
        if mark is not None:
            self._apps = {**apps, mark.app: mark.batch}
        if self._is_due_to_sync(now_us):
            try:
                self.sync()
            except (SpoolFull, AppendFailed):
                self._end, self._apps = start, apps
                self._take_back(before)
                raise
        return Appended(start, self._end)

    def sync(self) -> None:
        """Makes all that was appended safe, and shows it to readers.

        After SpoolFull or AppendFailed it is all still here, to be shown by a later call. After SyncFailed the
        writer is at its end.
        """
        self._check()
        self._synced_at_us = self._clock()
        if self._end == self._synced_end:
            return
        try:
            self._segment.sync()
        except OSError as error:
            self._end, self._apps = self._synced_end, self._synced_apps
            self._take_back(self._segment.synced)
            self._end_with(f"a sync has failed ({error.strerror})")
            raise SyncFailed(self.directory, f"the disk said: {error.strerror}", self._end) from error
        try:
            self._segment.write_index()
        except OSError as error:
            if self._segment.broken:
                self._end_with(self._segment.broken)
            raise refusal(self.directory, error) from error
        self._synced_end, self._synced_apps = self._end, self._apps

    def tick(self) -> None:
        """What time asks for: a sync, a new segment, the end of old ones. Call it when nothing is appended."""
        self._check()
        now_us = self._clock()
        if self._is_due_to_sync(now_us):
            self.sync()
        if self._is_due_to_roll(0, now_us):
            self.roll()
        else:
            self._retain()

    def roll(self) -> None:
        """Seals the segment and begins another, unless it has no records."""
        self.sync()
        if self._end == self._segment.head.base:
            return
        old = self._segment
        try:
            old.seal()
        except OSError as error:
            raise refusal(self.directory, error) from error
        self._begin(old.head.spool_id)
        old.close()
        self._retain()

    def close(self) -> None:
        """Makes all safe and lets the spool go; an error says what is not acknowledged."""
        if self._ended == "it was closed":
            return
        try:
            if not self._ended:
                self.sync()
        finally:
            self._segment.close()
            os.close(self._lock)
            self._ended = "it was closed"

    def __enter__(self) -> "SpoolWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Within.

    def _open(self) -> None:
        removed = sweep(self.directory, self._disk)
        if not bases(self.directory):
            self.recovery = Recovery(removed=removed)
            self._begin(os.urandom(SPOOL_ID_BYTES))
        else:
            last = open_last(self.directory, self._disk)
            self._segment = last.segment
            if last.segment.head.group != self.group:
                last.segment.close()
                held = f"the spool of {last.segment.head.group!r}"
                raise NotASpool(self.directory, held, "each group has a directory of its own")
            self._end = self._synced_end = last.end
            self._apps = last.apps
            report = last.report
            self.recovery = Recovery(report.cut_bytes, report.kept_records, report.damage, removed)
            if last.seal:
                self._begin(last.segment.head.spool_id)
                last.segment.close()
        self._synced_apps = self._apps
        self._synced_at_us = self._clock()

    def _begin(self, spool_id: bytes) -> None:
        head = SegmentHead(self._end, self._clock(), spool_id, self.group, dict(self._apps))
        try:
            self._segment = create_segment(self.directory, head, self._disk)
        except OSError as error:
            raise refusal(self.directory, error) from error

    def _write(self, blocks: list[Encoded]) -> None:
        try:
            self._segment.write(blocks)
        except OSError as error:
            if self._segment.broken:
                self._end_with(self._segment.broken)
            raise refusal(self.directory, error) from error

    def _retain(self) -> None:
        try:
            retain(self.directory, self.options.retention, self._clock(), self._disk)
        except OSError as error:
            raise refusal(self.directory, error) from error

    def _take_back(self, before: Written) -> None:
        self._segment.take_back(before)
        if self._segment.broken:
            self._end_with(self._segment.broken)

    def _is_due_to_roll(self, more_bytes: int, now_us: int) -> bool:
        segment = self._segment
        if self._end == segment.head.base:
            return False
        too_old = now_us - segment.head.time_us >= self.options.segment_seconds * 1_000_000
        return too_old or segment.position + more_bytes > self.options.segment_bytes

    def _is_due_to_sync(self, now_us: int) -> bool:
        # A clock that was set back must not put it off.
        waited_us = abs(now_us - self._synced_at_us)
        return waited_us >= self.options.sync_seconds * 1_000_000

    def _check(self) -> None:
        if self._ended:
            raise WriterClosed(self.directory, self._ended)

    def _end_with(self, reason: str) -> None:
        self._ended = reason
