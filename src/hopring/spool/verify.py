"""Verifies a spool: checks every byte of every segment and lists all damage."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from hopring.spool.decode import FoundBlock, LostBytes, scan
from hopring.spool.errors import SpoolError
from hopring.spool.files import bases, index_path, log_path
from hopring.spool.format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    IndexEntry,
    SegmentHead,
    decode_entries,
    decode_entry,
    entry_of,
    follows,
    is_index_head,
)
from hopring.spool.reading import bounds, mapped, read_head


class SpoolFinding(NamedTuple):
    """A fault in a file of a spool."""

    file: str
    what: str
    start: int | None = None  # The first record that is lost by it, and the offset after the last.
    end: int | None = None


class SpoolVerdict(NamedTuple):
    """The result of a verification."""

    records: int  # The number of intact records.
    blocks: int
    size_bytes: int
    findings: tuple[SpoolFinding, ...]


Progress = Callable[[int, int], None]
"""Called with the bytes and records that were processed since the last call."""


def unwatched(_bytes: int, _records: int) -> None:
    """A progress function that does nothing."""


def log_bytes(directory: Path) -> int:
    """The present size of the logs of all segments."""
    return sum([log_path(directory, base).stat().st_size for base in bases(directory)])


def verify(directory: Path, progress: Progress = unwatched) -> SpoolVerdict:
    """Reads all acknowledged records. A writer may continue meanwhile; its new records are not checked."""
    end = bounds(directory).end
    there = bases(directory)
    records = blocks = size_bytes = 0
    findings: list[SpoolFinding] = []
    for base, following in pairwise([*there, end]):
        path = log_path(directory, base)
        try:
            head = read_head(directory, base)
        except SpoolError as error:
            findings.append(SpoolFinding(path.name, error.reason, base, following))
            progress(path.stat().st_size, 0)
            continue
        log = mapped(path)
        size_bytes += len(log)
        parts = _parts(log, head, following, progress)
        whole = [one.block.head for one in parts if isinstance(one, FoundBlock)]
        records += sum([one.records for one in whole])
        blocks += len(whole)
        findings += [_finding(path, one, following) for one in parts if isinstance(one, LostBytes)]
        findings += _missing(path, parts, head, following)
        findings += _index_findings(directory, head, parts)
    return SpoolVerdict(records, blocks, size_bytes, tuple(findings))


def _parts(
    log: memoryview, head: SegmentHead, following: int, progress: Progress
) -> list[FoundBlock | LostBytes]:
    """Blocks and damage up to the offset `following`; the rest of the log is not acknowledged."""
    parts: list[FoundBlock | LostBytes] = []
    left_bytes = len(log)
    for one in scan(log, head.size_bytes, head.base, head.key):
        first = one.block.head.first if isinstance(one, FoundBlock) else one.first
        if first >= following:
            break
        parts.append(one)
        size_bytes = (
            one.block.head.size_bytes if isinstance(one, FoundBlock) else one.end_position - one.position
        )
        progress(size_bytes, one.block.head.records if isinstance(one, FoundBlock) else 0)
        left_bytes -= size_bytes
    progress(left_bytes, 0)
    return parts


def _finding(path: Path, lost: LostBytes, following: int) -> SpoolFinding:
    where = f"bytes {lost.position} to {lost.end_position}: {lost.reason}"
    return SpoolFinding(path.name, where, lost.first, following if lost.end is None else lost.end)


def _missing(
    path: Path, parts: list[FoundBlock | LostBytes], head: SegmentHead, following: int
) -> list[SpoolFinding]:
    """A finding if the log ends before its last acknowledged record."""
    last = parts[-1] if parts else None
    if isinstance(last, LostBytes):
        return []
    end = last.block.head.end if last else head.base
    return [SpoolFinding(path.name, "the file is cut short", end, following)] if end < following else []


def _index_findings(
    directory: Path, head: SegmentHead, parts: list[FoundBlock | LostBytes]
) -> list[SpoolFinding]:
    path = index_path(directory, head.base)
    try:
        index = mapped(path)
    except FileNotFoundError:
        return [SpoolFinding(path.name, "it is missing: reading is slow until a writer opens the spool again")]
    if not is_index_head(index, head.base, head.key):
        return [SpoolFinding(path.name, "it does not belong to its log")]
    wrong = _disorder(index)
    known = set(decode_entries(index))
    blocks = [entry_of(one.block.head, one.position) for one in parts if isinstance(one, FoundBlock)]
    lacking = sum([entry not in known for entry in blocks])
    if lacking and len(blocks) > (len(index) - INDEX_HEAD_BYTES) // ENTRY_BYTES:
        wrong = f"{lacking} blocks of the log are not in it; readers scan the log for them"
    elif lacking and not wrong:
        wrong = f"{lacking} of its entries differ from their blocks"
    return [SpoolFinding(path.name, wrong)] if wrong else []


def _disorder(index: memoryview) -> str:
    """The first entry of an index that is damaged or does not follow the one before; "" if there is none."""
    before: IndexEntry | None = None
    for number, at in enumerate(range(INDEX_HEAD_BYTES, len(index) - ENTRY_BYTES + 1, ENTRY_BYTES)):
        entry = decode_entry(index, at)
        if entry is None:
            return f"entry {number} is damaged; readers scan the log from there"
        if before is not None and not follows(entry, before):
            back = f"offset {entry.first} after {before.end}"
            return f"entry {number} does not follow the one before ({back}); readers scan the log from there"
        before = entry
    return ""
