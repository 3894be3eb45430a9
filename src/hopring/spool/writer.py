"""The writer of a spool: appends whole batches and reports when they are on disk.

Invariants  records before `synced_end` survive any crash; readers see no others;
            nothing of a failed append is kept, unless the disk also fails to cut it off:
            then the writer ends, and the next one to open the spool determines which records are there;
            after a failed sync nothing more is acknowledged, and the writer ends.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.spool.encode import AppendMark, EncodedBlock, encode_append
from hopring.spool.errors import (
    AppendFailed,
    AppendTooLarge,
    SpoolError,
    SpoolFull,
    SyncFailed,
    WriterClosed,
    refusal,
)
from hopring.spool.files import BackgroundSync, Disk, directory_of, make_directory, take_lock
from hopring.spool.format import APP_BYTES_MAX, APPS_MAX, SegmentHead
from hopring.spool.record import RecordRun
from hopring.spool.retention import Retention, retain
from hopring.spool.segment import LogPosition, create_segment, open_spool

SEGMENT_BYTES_DEFAULT: Final = 64 * 1024 * 1024


SEGMENT_SECONDS_DEFAULT: Final = 3600.0


APPEND_BYTES_MAX: Final = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SpoolOptions:
    """Options of a writer: when it syncs, when it begins a new segment, and what it removes."""

    sync_seconds: float = 0.0
    """0: an append is on disk when it returns. Otherwise it is synced, and visible to readers, later."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    segment_seconds: float = SEGMENT_SECONDS_DEFAULT
    retention: Retention = field(default_factory=Retention)

    def __post_init__(self) -> None:
        """Checks the options; ValueError if one is not positive."""
        if self.sync_seconds < 0 or self.segment_bytes < 1 or self.segment_seconds <= 0:
            raise ValueError(f"{self}: sizes and times have to be positive")


class Appended(NamedTuple):
    """The result of an append: its records have the offsets from `start` to before `end`."""

    start: int
    end: int
    replayed: bool = False  # The batch had been appended before, so nothing was appended now.


def wall_us() -> int:
    """The wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


class _State(NamedTuple):
    """An end of the spool: the state that a sync makes durable."""

    waiting: int  # Blocks that are not in the index yet.
    end: int
    apps: dict[str, int]


class SpoolWriter:
    """The writer of a group's spool; there is at most one at a time."""

    def __init__(
        self,
        root: Path | str,
        group: str,
        options: SpoolOptions | None = None,
        *,
        disk: Disk | None = None,
        clock: Callable[[], int] = wall_us,
    ) -> None:
        """Opens or creates the spool; SpoolOwned if it has a writer, another SpoolError if it is damaged."""
        if not is_legal_group(GroupName(group)):
            raise ValueError(f"{group!r} is not a legal name of a group")
        self.group = group
        self.directory = directory_of(Path(root), group)
        self.options = options or SpoolOptions()
        self._disk = disk or Disk()
        self._clock = clock
        self._ended = ""
        self._background = BackgroundSync(self._disk)
        self._under_way = _State(0, 0, {})
        try:
            make_directory(self.directory, self._disk)
            self._lock = take_lock(self.directory)
        except OSError as error:
            raise refusal(self.directory, error) from error
        try:
            found = open_spool(self.directory, group, self._disk, clock())
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError) and not isinstance(error, SpoolError):
                raise refusal(self.directory, error) from error
            raise
        self.recovery = found.report
        self._segment = found.segment
        self._end = self._synced_end = found.end
        self._apps = self._synced_apps = found.apps
        self._synced_at_us = clock()

    # State.

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._end

    @property
    def synced_end(self) -> int:
        """All records before this offset are on disk."""
        return self._synced_end

    def last_batch(self, app: str) -> int | None:
        """The number of the last batch that this application appended."""
        return self._apps.get(app)

    @property
    def marks(self) -> dict[str, int]:
        """The number of the last batch of each application."""
        return dict(self._apps)

    def takes_mark(self, mark: AppendMark) -> bool:
        """Whether an append with this mark is new and its application is within the limit."""
        last = self._apps.get(mark.app)
        return len(self._apps) < APPS_MAX if last is None else mark.batch > last

    # Actions.

    def append(self, runs: Sequence[RecordRun], mark: AppendMark | None = None) -> Appended:
        """Appends the records of these runs, all or none; a batch that was appended before is skipped.

        The records are on disk when `synced_end` reaches the returned end: at once if `sync_seconds` is 0.
        """
        self._check()
        self._fetch_sync()
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
        if self.options.sync_seconds:
            self._sync_if_due(now_us)
            return Appended(start, self._end)
        try:
            self.sync()
        except (SpoolFull, AppendFailed):
            self._end, self._apps = start, apps
            self._take_back(before)
            raise
        return Appended(start, self._end)

    def sync(self) -> None:
        """Syncs all appended records and makes them visible to readers.

        After SpoolFull or AppendFailed the records are still there, and a later call may succeed. After
        SyncFailed the writer is closed.
        """
        self._check()
        self._fetch_sync(wait=True)
        if self._end != self._synced_end:
            self._synced_at_us = self._clock()
            try:
                self._disk.sync(self._segment.log)
            except OSError as error:
                raise self._sync_failed(error) from error
            self._show(self._written())

    def tick(self) -> None:
        """Does what is due by time: a sync, a new segment, retention. To be called while no records come."""
        self._check()
        self._fetch_sync()
        now_us = self._clock()
        self._sync_if_due(now_us)
        if self._is_due_to_roll(0, now_us):
            self.roll()
        else:
            self._retain()

    def roll(self) -> None:
        """Finishes the segment and creates the next one, unless it has no records."""
        self.sync()
        if self._end == self._segment.head.base:
            return
        old = self._segment
        try:
            old.finish()
            head = SegmentHead(self._end, self._clock(), old.head.spool_id, self.group, self._apps)
            self._segment = create_segment(self.directory, head, self._disk)
        except OSError as error:
            raise refusal(self.directory, error) from error
        old.close()
        self._retain()

    def close(self) -> None:
        """Syncs all records and releases the lock; an error says which records are not acknowledged."""
        if self._ended == "it was closed":
            return
        try:
            if not self._ended:
                self.sync()
        finally:
            self._background.close()
            self._segment.close()
            os.close(self._lock)
            self._ended = "it was closed"

    def __enter__(self) -> "SpoolWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Internals.

    def _write(self, blocks: list[EncodedBlock]) -> None:
        try:
            self._segment.write(blocks)
        except OSError as error:
            if self._segment.broken:
                self._end_with(self._segment.broken)
            raise refusal(self.directory, error) from error

    def _sync_if_due(self, now_us: int) -> None:
        """Starts a sync in the background if it is due; a later call fetches its result."""
        # The absolute difference: a clock that was set back must not postpone the sync.
        due = abs(now_us - self._synced_at_us) >= self.options.sync_seconds * 1_000_000
        if due and not self._background.busy and self._end != self._synced_end:
            self._synced_at_us = now_us
            self._under_way = self._written()
            self._background.start(self._segment.log)

    def _fetch_sync(self, *, wait: bool = False) -> None:
        """Makes visible to readers what a sync in the background has covered."""
        try:
            ended = self._background.has_ended(wait=wait)
        except OSError as error:
            raise self._sync_failed(error) from error
        if ended:
            self._show(self._under_way)

    def _written(self) -> _State:
        return _State(len(self._segment.waiting), self._end, self._apps)

    def _show(self, safe: _State) -> None:
        try:
            self._segment.write_index(safe.waiting)
        except OSError as error:
            if self._segment.broken:
                self._end_with(self._segment.broken)
            raise refusal(self.directory, error) from error
        self._synced_end, self._synced_apps = safe.end, safe.apps

    def _sync_failed(self, error: OSError) -> SyncFailed:
        self._end, self._apps = self._synced_end, self._synced_apps
        self._take_back(self._segment.synced)
        self._end_with(f"a sync has failed ({error.strerror})")
        return SyncFailed(self.directory, f"disk error: {error.strerror}", self._end)

    def _retain(self) -> None:
        try:
            retain(self.directory, self.options.retention, self._clock(), self._disk)
        except OSError as error:
            raise refusal(self.directory, error) from error

    def _take_back(self, before: LogPosition) -> None:
        self._segment.take_back(before)
        if self._segment.broken:
            self._end_with(self._segment.broken)

    def _is_due_to_roll(self, more_bytes: int, now_us: int) -> bool:
        segment = self._segment
        if self._end == segment.head.base:
            return False
        too_old = now_us - segment.head.time_us >= self.options.segment_seconds * 1_000_000
        return too_old or segment.position + more_bytes > self.options.segment_bytes

    def _check(self) -> None:
        if self._ended:
            raise WriterClosed(self.directory, self._ended)

    def _end_with(self, reason: str) -> None:
        self._ended = reason


def check_limits(
    directory: Path, blocks: Sequence[EncodedBlock], mark: AppendMark | None, apps: Mapping[str, int]
) -> None:
    """Checks an append against the limits; AppendTooLarge or ValueError if it is above one."""
    if sum([block.head.size_bytes for block in blocks]) > APPEND_BYTES_MAX:
        raise AppendTooLarge(directory, f"an append of more than {APPEND_BYTES_MAX} bytes")
    if mark is None:
        return
    if not 0 < len(mark.app.encode()) <= APP_BYTES_MAX or mark.batch < 0:
        raise ValueError(f"{mark}: the name has to have 1 to {APP_BYTES_MAX} bytes, the batch to be 0 or more")
    if mark.app not in apps and len(apps) >= APPS_MAX:
        raise AppendTooLarge(directory, f"more than {APPS_MAX} applications")
