"""Retention: removes the oldest segments of a spool, as far as its consumers permit it.

A consumer is a program that keeps records from being removed until it has reported that it is done with them.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from hopring.spool.errors import SpoolError
from hopring.spool.files import (
    CONSUMERS,
    DIGITS,
    NEW,
    Disk,
    archive_path,
    bases,
    index_path,
    log_path,
    safe_name,
)
from hopring.spool.reading import read_head

_PARQUET: Final = b"PAR1"
_LENGTH_BYTES: Final = 4
OFFSET_DIGITS_MAX: Final = DIGITS + 1
"""Limit for the number in the file of a consumer; a longer one is damage."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of a spool: above either one, whole segments are removed, the oldest first.

    Without a limit nothing is removed.
    """

    bytes_max: int | None = None  # Of all segments together.
    seconds_max: float | None = None  # Since a segment was finished.
    archived_only: bool = False  # A segment stays until it is in the archive.


def retain(directory: Path, retention: Retention, now_us: int, disk: Disk) -> list[int]:
    """Removes the segments that are due and returns their bases; OSError if the disk fails."""
    if retention.bytes_max is None and retention.seconds_max is None:
        return []
    gone = list(due(directory, retention, now_us))
    for base in gone:
        # The log first: recovery removes an index without a log.
        disk.remove(log_path(directory, base))
        disk.remove(index_path(directory, base))
    return gone


def due(directory: Path, retention: Retention, now_us: int) -> Iterator[int]:
    """The segments to be removed, the oldest first; never the last one."""
    there = bases(directory)
    sizes = {base: _size_bytes(directory, base) for base in there}
    total_bytes = sum(sizes.values())
    floor = permitted(directory)
    for base, following in pairwise(there):
        too_much = retention.bytes_max is not None and total_bytes > retention.bytes_max
        if not too_much and not _is_too_old(directory, following, retention, now_us):
            return
        if floor is not None and following > floor:
            return
        if retention.archived_only and not is_whole(archive_path(directory, base)):
            return
        total_bytes -= sizes[base]
        yield base


def is_whole(path: Path) -> bool:
    """Whether a file of the archive exists and has both ends of a Parquet file, and its footer."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_PARQUET))
            size_bytes = file.seek(0, os.SEEK_END)
            if size_bytes < 2 * len(_PARQUET) + _LENGTH_BYTES:
                return False
            file.seek(-len(_PARQUET) - _LENGTH_BYTES, os.SEEK_END)
            footer_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            tail = file.read()
    except OSError:
        return False
    fits = 0 < footer_bytes <= size_bytes - 2 * len(_PARQUET) - _LENGTH_BYTES
    return head == tail == _PARQUET and fits


def _is_too_old(directory: Path, following: int, retention: Retention, now_us: int) -> bool:
    """Whether a segment is above the age limit; it was finished when the next one was created."""
    if retention.seconds_max is None:
        return False
    try:
        ended_at_us = read_head(directory, following).time_us
    except SpoolError:
        return False  # Its age is not known.
    return now_us - ended_at_us > retention.seconds_max * 1_000_000


def _size_bytes(directory: Path, base: int) -> int:
    paths = (log_path(directory, base), index_path(directory, base))
    return sum([path.stat().st_size for path in paths if path.exists()])


def permit(directory: Path, consumer: str, offset: int) -> None:
    """Reports that a consumer is done with all records before the offset.

    The first report registers the consumer; with offset 0 it keeps all records.
    """
    if offset < 0:
        raise ValueError(f"{offset} is not an offset: offsets are counted from 0")
    place = directory / CONSUMERS
    place.mkdir(exist_ok=True)
    path = place / _file_name(consumer)
    fresh = path.with_name(f"{path.name}.{os.getpid()}{NEW}")
    with fresh.open("w") as file:
        file.write(f"{offset}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def forget(directory: Path, consumer: str) -> None:
    """Removes a consumer, so that retention no longer waits for it."""
    with contextlib.suppress(FileNotFoundError):
        (directory / CONSUMERS / _file_name(consumer)).unlink()


def consumers(directory: Path) -> dict[str, int]:
    """The offset of each consumer, by its name; a long name is the cut one of its file."""
    place = directory / CONSUMERS
    if not place.exists():
        return {}
    found = sorted([path for path in place.iterdir() if not path.name.endswith(NEW)])
    return {_consumer(path.name): _offset(path) for path in found}


def _file_name(consumer: str) -> str:
    """The file of a consumer. Its name never ends like that of an incomplete file, which is not counted."""
    name = safe_name(consumer)
    return f"{name.removesuffix(NEW)}%2E{NEW[1:]}" if name.endswith(NEW) else name


def _consumer(file_name: str) -> str:
    # A cut name cannot be restored: it may end within an escape.
    return file_name if "~" in file_name else unquote(file_name)


def permitted(directory: Path) -> int | None:
    """The lowest offset of all consumers; None if there are none."""
    return min(consumers(directory).values(), default=None)


def _offset(path: Path) -> int:
    """The offset in a consumer's file; a damaged one counts as 0, so that nothing is removed."""
    text = path.read_bytes()[: OFFSET_DIGITS_MAX + 1].strip()
    return int(text) if text.isdigit() and len(text) <= OFFSET_DIGITS_MAX else 0
