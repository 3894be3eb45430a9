"""A segment that is written to: blocks to the log, then a sync, then their entries to the index.

Invariants  an entry of the index is written only when its block is safe on disk;
            after an append that failed, the files are what they were before it, or the segment is broken.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from hopring.spool.disk import Disk
from hopring.spool.encode import EncodedBlock
from hopring.spool.layout import NEW, index_path, log_path
from hopring.spool.segment_format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    IndexEntry,
    SegmentHead,
    encode_entry,
    encode_index_head,
    encode_segment_head,
    entry_of,
)


class LogPosition(NamedTuple):
    """A state of a segment's log."""

    position: int
    waiting: int  # Blocks that are not in the index.


@dataclass(slots=True)
class OpenSegment:
    """The last segment of a spool, in its writer's hands."""

    head: SegmentHead
    disk: Disk
    log: int
    index: int
    position: int  # Where the next block goes.
    entries: int  # In the index.
    synced_position: int
    waiting: list[IndexEntry] = field(default_factory=list)  # Of blocks that are not safe yet.
    broken: str = ""  # Why the files are not what this says.

    @property
    def size_bytes(self) -> int:
        """Of both files, when all is written."""
        return self.position + INDEX_HEAD_BYTES + (self.entries + len(self.waiting)) * ENTRY_BYTES

    def write(self, blocks: Sequence[EncodedBlock]) -> None:
        """Adds an append to the log in one gather write; OSError if nothing came of it."""
        begin = self.position
        entries: list[IndexEntry] = []
        for block in blocks:
            entries.append(entry_of(block.head, self.position + sum([one.size_bytes for one in entries])))
        buffers = [buffer for block in blocks for buffer in block.buffers]
        try:
            self.disk.write(self.log, buffers, begin)
        except BaseException:
            # Also if it was interrupted: what is left there could be taken for a block one day.
            self._cut_log(begin)
            raise
        self.position = entries[-1].end_position
        self.waiting += entries

    def write_index(self, count: int) -> None:
        """Shows the first so many blocks that wait, which are safe, to readers; OSError if they see none."""
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
        """Makes the index safe as well: nobody makes that of a sealed segment again. OSError if it is not."""
        self.disk.sync(self.index)

    def mark(self) -> LogPosition:
        """How far it is written, to take back what follows."""
        return LogPosition(self.position, len(self.waiting))

    @property
    def synced(self) -> LogPosition:
        """How far it is safe."""
        return LogPosition(self.synced_position, 0)

    def take_back(self, before: LogPosition) -> None:
        """Forgets what was written since; readers have not seen it."""
        del self.waiting[before.waiting :]
        self._cut_log(before.position)

    def _cut_log(self, position: int) -> None:
        self.position = position
        try:
            self.disk.cut(self.log, position)
        except OSError as error:
            self.broken = f"what was not acknowledged could not be cut off ({error.strerror})"

    def close(self) -> None:
        """Ends it without a word more to the disk."""
        for file in (self.log, self.index):
            with contextlib.suppress(OSError):
                os.close(file)


def create_segment(directory: Path, head: SegmentHead, disk: Disk) -> OpenSegment:
    """A new segment, on disk when this returns; OSError if there is none. Its name makes it one."""
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
