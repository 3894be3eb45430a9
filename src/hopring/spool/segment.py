"""The segment that is being written, and its recovery when a writer opens the spool.

Blocks go to the log, then a sync, then their entries to the index.

Invariants  an entry is written to the index only when its block is on disk;
            after a failed append the files are as before it, or the segment is marked as broken.

Recovery: blocks in the index were acknowledged; a damaged one stays where it is, as damage that readers report.
The log behind the last entry holds appends that were written and perhaps not acknowledged. Complete appends
there are kept: they are written again, because a failed sync may have left them in memory only, then synced and
entered in the index. An incomplete append at the end is a torn tail and is cut off. Entries of the index that
are damaged or repeated are dropped; intact blocks that lack an entry get one.
"""

import contextlib
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hopring.spool.decode import FoundBlock, LostBytes, SpoolBlock, decode_block, scan, whole_appends
from hopring.spool.encode import EncodedBlock
from hopring.spool.errors import NotASpool, SpoolDamaged
from hopring.spool.files import INDEX, LOG, NEW, Disk, bases, index_path, is_base, log_path
from hopring.spool.format import (
    ENTRY_BYTES,
    FORMAT_VERSION,
    INDEX_HEAD_BYTES,
    NO_STRING,
    SPOOL_ID_BYTES,
    IndexEntry,
    SegmentHead,
    decode_entries,
    decode_segment_head,
    encode_entry,
    encode_index_head,
    encode_segment_head,
    entry_of,
    is_index_head,
    stand_in,
    unpack_head,
)
from hopring.spool.reading import read_head


class LogPosition(NamedTuple):
    """An end of a segment's log, to which it can be cut back."""

    position: int
    waiting: int  # Blocks that are not in the index yet.


@dataclass(slots=True)
class OpenSegment:
    """The last segment of a spool, open for its writer."""

    head: SegmentHead
    disk: Disk
    log: int
    index: int
    position: int  # The position of the next block.
    entries: int  # The number of entries in the index.
    synced_position: int
    waiting: list[IndexEntry] = field(default_factory=list)  # Entries of blocks that are not synced yet.
    broken: str = ""  # Why the files differ from this state.

    @property
    def size_bytes(self) -> int:
        """The size of both files once all entries are written."""
        return self.position + INDEX_HEAD_BYTES + (self.entries + len(self.waiting)) * ENTRY_BYTES

    def write(self, blocks: Sequence[EncodedBlock]) -> None:
        """Adds the blocks of an append to the log in one gather write; on OSError, none of them."""
        begin = self.position
        entries: list[IndexEntry] = []
        for block in blocks:
            entries.append(entry_of(block.head, self.position + sum([one.size_bytes for one in entries])))
        buffers = [buffer for block in blocks for buffer in block.buffers]
        try:
            self.disk.write(self.log, buffers, begin)
        except BaseException:
            # Also after an interrupt: leftovers could be taken for a block later.
            self._cut_log(begin)
            raise
        self.position = entries[-1].end_position
        self.waiting += entries

    def write_index(self, count: int) -> None:
        """Enters the first `count` waiting blocks, which are synced, in the index; on OSError, none of them."""
        safe = self.waiting[:count]
        at = INDEX_HEAD_BYTES + self.entries * ENTRY_BYTES
        try:
            self.disk.write(self.index, [b"".join(map(encode_entry, safe))], at)
        except OSError:
            try:
                self.disk.cut(self.index, at)
            except OSError as error:
                self.broken = f"its index could not be cut back ({error.strerror})"
            raise
        self.entries += count
        del self.waiting[:count]
        self.synced_position = safe[-1].end_position

    def finish(self) -> None:
        """Syncs the index, because the index of a finished segment is never rebuilt."""
        self.disk.sync(self.index)

    def mark(self) -> LogPosition:
        """The current end of the log, for a later `take_back`."""
        return LogPosition(self.position, len(self.waiting))

    @property
    def synced(self) -> LogPosition:
        """The end of the part of the log that is synced."""
        return LogPosition(self.synced_position, 0)

    def take_back(self, before: LogPosition) -> None:
        """Removes what was written since; readers have not seen it."""
        del self.waiting[before.waiting :]
        self._cut_log(before.position)

    def _cut_log(self, position: int) -> None:
        self.position = position
        try:
            self.disk.cut(self.log, position)
        except OSError as error:
            self.broken = f"unacknowledged bytes could not be cut off ({error.strerror})"

    def close(self) -> None:
        """Closes both files without writing anything."""
        for file in (self.log, self.index):
            with contextlib.suppress(OSError):
                os.close(file)


def create_segment(directory: Path, head: SegmentHead, disk: Disk) -> OpenSegment:
    """Creates a segment, and returns when it is on disk; after an OSError there is none.

    The log is written under another name and renamed, so a segment exists from its first moment with its head.
    """
    packed = encode_segment_head(head)
    index = log = -1
    fresh = log_path(directory, head.base).with_suffix(NEW)
    try:
        index = disk.open(index_path(directory, head.base), create=True)
        disk.write(index, [encode_index_head(head.base, head.key)], 0)
        log = disk.open(fresh, create=True)
        disk.write(log, [packed], 0)
        disk.sync(log)
        disk.rename(fresh, log_path(directory, head.base))
    except OSError:
        for file in (index, log):
            with contextlib.suppress(OSError):
                os.close(file)
        raise
    size_bytes = len(packed)
    return OpenSegment(head._replace(size_bytes=size_bytes), disk, log, index, size_bytes, 0, size_bytes)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Repairs that were made when the spool was opened."""

    cut_bytes: int = 0  # The size of the torn tail.
    kept_records: int = 0  # Records that were in the log and not in the index.
    damage: tuple[LostBytes, ...] = ()  # Damage behind the index that has intact blocks behind it.
    removed: tuple[str, ...] = ()  # Incomplete files that a crash had left.


@dataclass(slots=True)
class Recovered:
    """The last segment, open for writing, with the state of its spool."""

    segment: OpenSegment
    end: int
    apps: dict[str, int]
    report: Recovery
    finished: bool = False  # Nothing may be appended, because acknowledged bytes at its end are gone.


def sweep(directory: Path, disk: Disk) -> tuple[str, ...]:
    """Removes the leftovers of segments that were being created or removed during a crash."""
    logs = set(bases(directory))
    left = [path for path in directory.iterdir() if path.suffix == NEW]
    left += [
        path
        for path in directory.iterdir()
        if path.suffix == INDEX and is_base(path.stem) and int(path.stem) not in logs
    ]
    for path in left:
        disk.remove(path)
    return tuple(sorted([path.name for path in left]))


def open_last(directory: Path, disk: Disk) -> Recovered:
    """Opens the last segment; OSError if the disk fails, SpoolDamaged if its head is lost."""
    base = bases(directory)[-1]
    path = log_path(directory, base)
    log = disk.open(path)
    index = -1
    try:
        size_bytes = os.fstat(log).st_size
        # An empty file cannot be mapped, and has no head.
        whole = (
            memoryview(mmap.mmap(log, size_bytes, access=mmap.ACCESS_READ)) if size_bytes else memoryview(b"")
        )
        missing = not index_path(directory, base).exists()
        index = disk.open(index_path(directory, base), create=missing)
        head, damaged = _head(directory, base, whole, index)
        found = _recover(head, whole, log, index, disk)
        found.finished = found.finished or damaged
        return found
    except BaseException:
        os.close(log)
        if index >= 0:
            os.close(index)
        raise


def _head(directory: Path, base: int, whole: memoryview, index: int) -> tuple[SegmentHead, bool]:
    """The head, and whether it is damaged: it is then made from the index and the segment before."""
    path = log_path(directory, base)
    try:
        head = decode_segment_head(whole, str(path))
    except SpoolDamaged:
        other = stand_in(os.pread(index, INDEX_HEAD_BYTES, 0), base)
        before = [one for one in bases(directory) if one < base]
        if other is None or not before:
            raise
        known = read_head(directory, before[-1])
        return other._replace(spool_id=known.spool_id, group=known.group, apps=known.apps), True
    if head.base != base:
        raise SpoolDamaged(path, f"it was {head.base:020}{LOG} and was renamed", base)
    return head, False


@dataclass(slots=True)
class _Tail:
    """The part of the log behind the last entry of the index."""

    position: int
    first: int
    parts: list[FoundBlock | LostBytes] = field(default_factory=list)

    @property
    def end_position(self) -> int:
        last = self.parts[-1] if self.parts else None
        return last.position + last.block.head.size_bytes if isinstance(last, FoundBlock) else self.position

    @property
    def entries(self) -> list[IndexEntry]:
        return [entry_of(one.block.head, one.position) for one in self.parts if isinstance(one, FoundBlock)]


def _recover(head: SegmentHead, whole: memoryview, log: int, index: int, disk: Disk) -> Recovered:
    stored = _stored_entries(index, head, disk)
    entries = _completed(whole, head, decode_entries(stored))
    last = entries[-1] if entries else None
    tail = _Tail(last.end_position if last else head.size_bytes, last.end if last else head.base)
    short = tail.position > len(whole)
    tail.parts = [] if short else whole_appends(list(scan(whole, tail.position, tail.first, head.key)))
    kept = tail.entries
    apps = dict(head.apps) | _marks(whole, entries, head.key) | _marks_of(tail.parts)
    if kept:
        disk.write(log, [bytes(whole[tail.position : tail.end_position])], tail.position)
    cut_bytes = 0 if short else len(whole) - tail.end_position
    if cut_bytes:
        disk.cut(log, tail.end_position)
    disk.sync(log)
    entries += kept
    added = _write_entries(index, stored, entries, disk)
    segment = OpenSegment(head, disk, log, index, tail.end_position, len(entries), tail.end_position)
    damage = tuple([one for one in tail.parts if isinstance(one, LostBytes)])
    report = Recovery(cut_bytes, added, damage)
    return Recovered(segment, entries[-1].end if entries else head.base, apps, report, finished=short)


def _stored_entries(index: int, head: SegmentHead, disk: Disk) -> bytes:
    """The bytes of an index; one with a damaged head is emptied."""
    whole = os.pread(index, os.fstat(index).st_size, 0)
    if is_index_head(whole, head.base, head.key):
        return whole
    disk.cut(index, 0)
    packed = encode_index_head(head.base, head.key, head.version)
    disk.write(index, [packed], 0)
    return packed


def _completed(whole: memoryview, head: SegmentHead, entries: list[IndexEntry]) -> list[IndexEntry]:
    """The entries, with those of intact blocks that lie between them and are missing in the index."""
    complete: list[IndexEntry] = []
    position, first = head.size_bytes, head.base
    for entry in entries:
        if entry.first > first and entry.position <= len(whole):
            between = scan(whole[: entry.position], position, first, head.key)
            found = [entry_of(one.block.head, one.position) for one in between if isinstance(one, FoundBlock)]
            complete += [one for one in found if one.end <= entry.first]
        complete.append(entry)
        position, first = entry.end_position, entry.end
    return complete


def _write_entries(index: int, stored: bytes, entries: list[IndexEntry], disk: Disk) -> int:
    """Makes the index hold exactly these entries; returns the number of records that were not in it."""
    packed = [encode_entry(entry) for entry in entries]
    old = [stored[at : at + ENTRY_BYTES] for at in range(INDEX_HEAD_BYTES, len(stored), ENTRY_BYTES)]
    same = next((at for at, pair in enumerate(zip(packed, old, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(packed), len(old)) if same is None else same
    disk.write(index, [b"".join(packed[same:])], INDEX_HEAD_BYTES + same * ENTRY_BYTES)
    disk.cut(index, INDEX_HEAD_BYTES + len(packed) * ENTRY_BYTES)
    known = set(old)
    return sum([entry.records for entry, one in zip(entries, packed, strict=True) if one not in known])


def _marks(whole: memoryview, entries: list[IndexEntry], key: int) -> dict[str, int]:
    """The last batch of each application among the intact blocks of the index."""
    apps: dict[str, int] = {}
    for entry in entries:
        head = unpack_head(whole, entry.position) if entry.end_position <= len(whole) else "gone"
        if isinstance(head, str) or head.app == NO_STRING:
            continue
        block = decode_block(whole, entry.position, key)
        if isinstance(block, SpoolBlock):
            apps |= _marks_of([FoundBlock(entry.position, block)])
    return apps


def _marks_of(parts: Sequence[FoundBlock | LostBytes]) -> dict[str, int]:
    marks = [one.block.mark for one in parts if isinstance(one, FoundBlock)]
    return {mark.app: mark.batch for mark in marks if mark is not None}


class OpenedSpool(NamedTuple):
    """An opened spool: its last segment and its state."""

    segment: OpenSegment
    end: int
    apps: dict[str, int]  # The last batch of each application.
    report: Recovery


def open_spool(directory: Path, group: str, disk: Disk, now_us: int) -> OpenedSpool:
    """Opens the spool of a group under its lock; OSError if the disk fails, SpoolError if it is damaged."""
    removed = sweep(directory, disk)
    if not bases(directory):
        head = SegmentHead(0, now_us, os.urandom(SPOOL_ID_BYTES), group, {})
        return OpenedSpool(create_segment(directory, head, disk), 0, {}, Recovery(removed=removed))
    last = open_last(directory, disk)
    segment = last.segment
    try:
        if segment.head.group != group:
            held = f"the spool of {segment.head.group!r}"
            raise NotASpool(directory, held, "each group has a directory of its own")
        # A segment of an older version gets nothing that its version does not know. An empty one is replaced.
        old = segment.head.version != FORMAT_VERSION
        if old:
            segment.finish()
        if last.finished or old:
            head = SegmentHead(last.end, now_us, segment.head.spool_id, group, last.apps)
            segment = create_segment(directory, head, disk)
    except BaseException:
        last.segment.close()
        raise
    if segment is not last.segment:
        last.segment.close()
    return OpenedSpool(segment, last.end, last.apps, replace(last.report, removed=removed))
