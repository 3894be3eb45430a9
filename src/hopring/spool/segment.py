"""The segment that is being written: blocks go to the log, then a sync, then their entries to the index.

Invariants  an entry is written to the index only when its block is on disk;
            after a failed append the files are as before it, or the segment is marked as broken.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hopring.spool.disk import Disk
from hopring.spool.encode import EncodedBlock
from hopring.spool.format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    IndexEntry,
    SegmentHead,
    encode_entry,
    encode_index_head,
    encode_segment_head,
    entry_of,
)
from hopring.spool.layout import NEW, index_path, log_path


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

    def seal(self) -> None:
        """Syncs the index, because the index of a sealed segment is never rebuilt."""
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
