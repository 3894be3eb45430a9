"""What is removed from a spool: whole segments, the oldest first, that every consumer has let go of."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hopring.spool.consumers import permitted
from hopring.spool.disk import Disk
from hopring.spool.errors import SpoolError
from hopring.spool.layout import archive_path, bases, index_path, log_path
from hopring.spool.options import Retention
from hopring.spool.reading import read_head


def retain(directory: Path, retention: Retention, now_us: int, disk: Disk) -> list[int]:
    """Removes what may go; the bases of the segments that went. OSError if the disk refuses."""
    if retention.bytes_max is None and retention.seconds_max is None:
        return []
    gone = list(due(directory, retention, now_us))
    for base in gone:
        # The log first: without it the index is nothing, and swept away.
        disk.remove(log_path(directory, base))
        disk.remove(index_path(directory, base))
    return gone


def due(directory: Path, retention: Retention, now_us: int) -> Iterator[int]:
    """The segments that may go, the oldest first; never the last one."""
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
        if retention.archived_only and not archive_path(directory, base).exists():
            return
        total_bytes -= sizes[base]
        yield base


def _is_too_old(directory: Path, following: int, retention: Retention, now_us: int) -> bool:
    """A segment ended when the next one began."""
    if retention.seconds_max is None:
        return False
    try:
        ended_at_us = read_head(directory, following).time_us
    except SpoolError:
        return False  # Nobody knows.
    return now_us - ended_at_us > retention.seconds_max * 1_000_000


def _size_bytes(directory: Path, base: int) -> int:
    paths = (log_path(directory, base), index_path(directory, base))
    return sum([path.stat().st_size for path in paths if path.exists()])
