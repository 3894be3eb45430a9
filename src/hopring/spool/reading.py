"""Reads a spool, also while it is written: bounds, plans, blocks, records.

Readers rely on the index alone, so they never see a record that a crash may take back. They take no lock.
`plan` and `read` are functions of their arguments: the same offsets give the same records as long as these
exist, and an error afterwards.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hopring.ids import Place
from hopring.spool.decode import FoundBlock, SpoolBlock, decode_block, scan
from hopring.spool.errors import NoSpool, OffsetMissing, SpoolDamaged
from hopring.spool.files import bases, index_path, log_path
from hopring.spool.format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    IndexEntry,
    SegmentHead,
    decode_entry,
    decode_segment_head,
    entry_of,
    is_index_head,
    stand_in,
)
from hopring.spool.record import SpoolRecord


class Bounds(NamedTuple):
    """The offsets that can be read: from `start` to before `end`."""

    start: int
    end: int


class Slice(NamedTuple):
    """A range of records of one segment, small enough for one task."""

    directory: str
    base: int
    start: int
    end: int


def bounds(directory: Path) -> Bounds:
    """The offsets that can be read now."""
    there = bases(directory)
    if not there:
        raise NoSpool(directory, "it has no segments", "list the spools with `hop spool ls`")
    return Bounds(there[0], _end(directory, there[-1]))


def plan(directory: Path, start: int, end: int, records_max: int = 100_000) -> list[Slice]:
    """The offsets from `start` to before `end` as slices, cut at segments and after `records_max` records.

    OffsetMissing if some of them are not there: nothing is left out silently.
    """
    if start >= end:
        return []
    there = bases(directory)
    known = bounds(directory)
    if start < known.start or end > known.end:
        raise OffsetMissing(directory, start if start < known.start else end - 1, known.start, known.end)
    slices: list[Slice] = []
    for base, following in zip(there, [*there[1:], known.end], strict=True):
        low, high = max(start, base), min(end, following)
        cuts = range(low, high, records_max)
        slices += [Slice(str(directory), base, cut, min(cut + records_max, high)) for cut in cuts]
    return slices


def read(directory: Path, start: int, end: int, *, skip_damaged: bool = False) -> Iterator[SpoolRecord]:
    """The records from `start` to before `end`; SpoolDamaged at a damaged one, unless those are skipped."""
    for block in read_blocks(directory, start, end, skip_damaged=skip_damaged):
        yield from block.records(start, end)


def read_blocks(directory: Path, start: int, end: int, *, skip_damaged: bool = False) -> Iterator[SpoolBlock]:
    """The blocks with these records; the first and the last may contain others as well."""
    for portion in plan(directory, start, end, records_max=max(1, end - start)):
        yield from slice_blocks(portion, skip_damaged=skip_damaged)


def slice_blocks(portion: Slice, *, skip_damaged: bool = False) -> Iterator[SpoolBlock]:
    """The blocks with the records of a slice."""
    directory = Path(portion.directory)
    path = log_path(directory, portion.base)
    try:
        head = _head(directory, portion.base, skip_damaged)
        log = mapped(path)
    except FileNotFoundError:
        raise OffsetMissing(directory, portion.start, *bounds(directory)) from None
    expected = portion.start
    for entry in _entries(directory, head, portion.start, portion.end):
        if entry.first > expected and not skip_damaged:
            raise SpoolDamaged(path, "they are gone", expected, entry.first)
        block = decode_block(log, entry.position, head.key)
        if isinstance(block, SpoolBlock) and block.head.first == entry.first:
            yield block
        elif not skip_damaged:
            reason = block if isinstance(block, str) else "another block is in its place"
            raise SpoolDamaged(path, reason, entry.first, entry.end)
        expected = entry.end
    if expected < portion.end and not skip_damaged:
        raise SpoolDamaged(path, "they are gone", expected, portion.end)


def _head(directory: Path, base: int, skip_damaged: bool) -> SegmentHead:
    """The head of a segment; if it is damaged and may be skipped, one made from the index."""
    try:
        return read_head(directory, base)
    except SpoolDamaged:
        path = index_path(directory, base)
        other = stand_in(mapped(path), base) if skip_damaged and path.exists() else None
        if other is None:
            raise
        return other


def entries(directory: Path, start: int, end: int) -> Iterator[IndexEntry]:
    """The index entries of the blocks with these records; the blocks themselves are not read."""
    for portion in plan(directory, start, end, records_max=max(1, end - start)):
        yield from _entries(directory, read_head(directory, portion.base), portion.start, portion.end)


def since_time(directory: Path, time_us: int) -> int:
    """The offset of the first append at this time or later; the end if there is none."""
    known = bounds(directory)
    there = bases(directory)
    for base, following in zip(there, [*there[1:], known.end], strict=True):
        if following != known.end and read_head(directory, following).time_us <= time_us:
            continue
        for entry in _entries(directory, read_head(directory, base), base, following):
            if entry.time_us >= time_us:
                return entry.first
    return known.end


def marks_before(directory: Path, offset: int) -> dict[str, int]:
    """The last batch of each application in the blocks that end at or before this offset."""
    base = max([one for one in bases(directory) if one <= offset], default=offset)
    marks = dict(read_head(directory, base).apps)
    for block in read_blocks(directory, base, offset):
        if block.mark is not None and block.head.end <= offset:
            marks[block.mark.app] = block.mark.batch
    return marks


def after_place(directory: Path, place: Place) -> int | None:
    """The offset after the last message with this place, searched from the end; None if there is none."""
    known = bounds(directory)
    for base in reversed(bases(directory)):
        portion = Slice(str(directory), base, base, known.end)
        known = Bounds(known.start, base)
        if portion.start == portion.end:
            continue
        found = [
            block.head.first + end
            for block in slice_blocks(portion, skip_damaged=True)
            for end, _, header in block.runs()
            if header.place == place
        ]
        if found:
            return found[-1]
    return None


def read_head(directory: Path, base: int) -> SegmentHead:
    """The head of a segment, read from its log."""
    path = log_path(directory, base)
    head = decode_segment_head(mapped(path), str(path))
    if head.base != base:
        raise SpoolDamaged(path, f"it begins with {head.base}", base)
    return head


def mapped(path: Path) -> memoryview:
    """A file mapped into memory, at its present size."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size_bytes = os.fstat(file).st_size
        return (
            memoryview(mmap.mmap(file, size_bytes, access=mmap.ACCESS_READ)) if size_bytes else memoryview(b"")
        )
    finally:
        os.close(file)


def _end(directory: Path, base: int) -> int:
    """The end of a segment that may be growing, by the last intact entry of its index."""
    try:
        index = mapped(index_path(directory, base))
    except FileNotFoundError:
        return base
    at = INDEX_HEAD_BYTES + (len(index) - INDEX_HEAD_BYTES) // ENTRY_BYTES * ENTRY_BYTES
    while at > INDEX_HEAD_BYTES:
        at -= ENTRY_BYTES
        entry = decode_entry(index, at)
        if entry is not None:
            return entry.end
    return base


def _entries(directory: Path, head: SegmentHead, start: int, end: int) -> Iterator[IndexEntry]:
    """The entries of the blocks with these records; a scan of the log finds them if the index is damaged."""
    try:
        index = mapped(index_path(directory, head.base))
    except FileNotFoundError:
        index = memoryview(b"")
    if not is_index_head(index, head.base, head.key):
        yield from _found(directory, head, start, end)
        return
    count = (len(index) - INDEX_HEAD_BYTES) // ENTRY_BYTES
    place = bisect_right(range(count), start, key=lambda at: _first(index, at))
    for at in range(max(0, place - 1), count):
        entry = decode_entry(index, INDEX_HEAD_BYTES + at * ENTRY_BYTES)
        if entry is None:
            yield from _found(directory, head, start, end)
            return
        start = max(start, entry.end)
        if entry.first >= end:
            return
        yield entry


def _first(index: memoryview, at: int) -> int:
    """The first offset of an entry, unchecked; the entry that the search finds is checked."""
    place = INDEX_HEAD_BYTES + at * ENTRY_BYTES
    return int.from_bytes(index[place : place + 8], "little")


def _found(directory: Path, head: SegmentHead, start: int, end: int) -> Iterator[IndexEntry]:
    log = mapped(log_path(directory, head.base))
    for one in scan(log, head.size_bytes, head.base, head.key):
        if isinstance(one, FoundBlock) and one.block.head.end > start:
            if one.block.head.first >= end:
                return
            yield entry_of(one.block.head, one.position)
