"""Reads a spool, also while it is written: bounds, plans, blocks, records.

Readers rely on the index for what is acknowledged, so they never see a record that a crash may take back. An
index that repeats entries or lacks some neither repeats nor hides a record: readers then scan the log. Appends
behind the last entry are read only if no writer has the spool; readers exclude writers for the moment in which
they look.
`plan` and `read` are functions of their arguments: the same offsets give the same records as long as these
exist, and an error afterwards.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hopring.ids import Place
from hopring.spool.decode import FoundBlock, SpoolBlock, decode_block, scan, whole_appends
from hopring.spool.errors import NoSpool, OffsetMissing, SpoolDamaged, SpoolError
from hopring.spool.files import bases, index_path, log_path, writer_excluded
from hopring.spool.format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    BlockHead,
    IndexEntry,
    SegmentHead,
    decode_entry,
    decode_segment_head,
    entry_of,
    follows,
    is_index_head,
    stand_in,
    unpack_head,
)
from hopring.spool.record import SpoolRecord

_ENTRY_WORDS: Final = ENTRY_BYTES // 8
"""An entry begins with its first offset, and is this many 64-bit words long."""


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
        if isinstance(block, SpoolBlock) and entry_of(block.head, entry.position) == entry:
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
    """The end of the last segment: after its last acknowledged record.

    Without a writer that includes complete appends in the log behind the index, because the index may have lost
    their entries. With a writer it does not: a crash may still take them back.
    """
    try:
        index = mapped(index_path(directory, base))
    except FileNotFoundError:
        index = memoryview(b"")
    try:
        head = read_head(directory, base)
    except SpoolError:
        last = _last_entry(index)
        return base if last is None else last.end
    known = is_index_head(index, base, head.key)
    last = _last_entry(index) if known else None
    position, end = (head.size_bytes, base) if last is None else (last.end_position, last.end)
    if known and log_path(directory, base).stat().st_size <= position:
        return end
    with writer_excluded(directory) as excluded:
        if excluded:
            return _end_of_log(directory, head, last)
    if not known:
        reason = "its index is missing or damaged while a writer has it open; start the writer again"
        raise SpoolDamaged(index_path(directory, base), reason, base)
    return end


def _last_entry(index: memoryview) -> IndexEntry | None:
    """The intact entry with the highest offset, which is the last one unless entries are out of order."""
    count = max(0, len(index) - INDEX_HEAD_BYTES) // ENTRY_BYTES
    firsts = index[INDEX_HEAD_BYTES : INDEX_HEAD_BYTES + count * ENTRY_BYTES].cast("Q")[::_ENTRY_WORDS].tolist()
    # Sorting a sorted list is a single pass without a Python loop.
    order = range(count) if sorted(firsts) == firsts else sorted(range(count), key=firsts.__getitem__)
    for at in reversed(order):
        entry = decode_entry(index, INDEX_HEAD_BYTES + at * ENTRY_BYTES)
        if entry is not None:
            return entry
    return None


def _end_of_log(directory: Path, head: SegmentHead, last: IndexEntry | None) -> int:
    """The end of the complete appends in the log; the next writer keeps exactly these.

    They are synced first, so that no crash takes back a record that a reader has seen.
    """
    end = head.base if last is None else last.end
    path = log_path(directory, head.base)
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(file)
    except OSError:
        return end
    finally:
        os.close(file)
    log = mapped(path)
    parts = whole_appends(list(scan(log, *_after(log, head, last), head.key)))
    found = [one.block.head.end for one in parts if isinstance(one, FoundBlock)]
    return max([end, *found])


def _after(log: memoryview, head: SegmentHead, before: IndexEntry | None) -> tuple[int, int]:
    """The position and offset at which a scan of the log begins that looks for blocks behind this entry.

    That is the start of the log if there is no entry, or if it differs from its block.
    """
    if before is not None:
        block = unpack_head(log, before.position)
        if isinstance(block, BlockHead) and entry_of(block, before.position) == before:
            return before.end_position, before.end
    return head.size_bytes, head.base


def _entries(directory: Path, head: SegmentHead, start: int, end: int) -> Iterator[IndexEntry]:
    """The entries of the blocks with these records, each once and in order.

    Where an entry is missing, damaged or out of order, a scan of the log takes its place. So `end` must not be
    beyond the end of the segment.
    """
    try:
        index = mapped(index_path(directory, head.base))
    except FileNotFoundError:
        index = memoryview(b"")
    before: IndexEntry | None = None
    expected = start
    for entry in _entries_from(index, head, start):
        if entry is None or expected >= end or (before is not None and not follows(entry, before)):
            break
        if entry.end <= start:
            before = entry
            continue
        if entry.first > expected:
            yield from _found(directory, head, before, expected, min(end, entry.first))
        if entry.first >= end:
            return
        yield entry
        before, expected = entry, entry.end
    if expected < end:
        yield from _found(directory, head, before, expected, end)


def _entries_from(index: memoryview, head: SegmentHead, start: int) -> Iterator[IndexEntry | None]:
    """The entries of an index from the one with this record on; None for a damaged one."""
    if not is_index_head(index, head.base, head.key):
        return
    count = (len(index) - INDEX_HEAD_BYTES) // ENTRY_BYTES
    place = bisect_right(range(count), start, key=lambda at: _first(index, at))
    for at in range(max(0, place - 1), count):
        yield decode_entry(index, INDEX_HEAD_BYTES + at * ENTRY_BYTES)


def _first(index: memoryview, at: int) -> int:
    """The first offset of an entry, unchecked; the entry that the search finds is checked."""
    place = INDEX_HEAD_BYTES + at * ENTRY_BYTES
    return int.from_bytes(index[place : place + 8], "little")


def _found(
    directory: Path, head: SegmentHead, before: IndexEntry | None, start: int, end: int
) -> Iterator[IndexEntry]:
    """The entries of blocks with these records that a scan of the log finds behind an entry."""
    log = mapped(log_path(directory, head.base))
    low = head.base if before is None else before.end
    for one in scan(log, *_after(log, head, before), head.key):
        if isinstance(one, FoundBlock) and one.block.head.end > start and one.block.head.first >= low:
            if one.block.head.first >= end:
                return
            yield entry_of(one.block.head, one.position)
