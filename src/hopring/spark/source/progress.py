"""The progress of a stream: an offset for each group, and limits on the size of a batch. No pyspark.

Invariants  offsets are built in the order of the groups, because Spark compares them as text;
            no offset ever moves back;
            a group that appears later enters at its earliest offset with a batch without records, so the
            checkpoint has its start before any of its records is read.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from hopring.spark.errors import DataLost
from hopring.spark.source.inventory import (
    all_spools,
    check_named,
    earliest_of,
    end_of,
    matching,
    parts_of,
    start_of,
)
from hopring.spark.source.options import ReadOptions
from hopring.spool.files import archive_path
from hopring.spool.reading import entries

Offsets = dict[str, int]
REMEDY = "start with a new checkpoint, or continue without these records: failOnDataLoss=false"


def initial(spools: dict[str, Path], options: ReadOptions) -> Offsets:
    """The first offsets of a stream without a checkpoint."""
    check_named("startingOffsets", options.starting, spools)
    return {group: start_of(spools[group], group, options) for group in sorted(spools)}


def ends(options: ReadOptions) -> Offsets:
    """The ends of the selected spools."""
    spools = matching(options, all_spools(Path(options.path)))
    return {group: end_of(spools[group]) for group in sorted(spools)}


def latest(start: Offsets, target: Offsets | None, options: ReadOptions) -> Offsets:
    """The end of a batch without a limit, at most the target if there is one."""
    there = all_spools(Path(options.path))
    asked = matching(options, there)
    found: Offsets = {}
    for group in sorted({*start, *asked}):
        if group in start:
            found[group] = start[group]
            if group not in there:
                _lose(options, f"{options.path}: the spool of {group!r} is gone")
            elif group in asked:
                found[group] = _moved(there[group], group, start[group], target, options)
        elif target is None or group in target:
            found[group] = earliest_of(asked[group])
    return found


def _moved(directory: Path, group: str, start: int, target: Offsets | None, options: ReadOptions) -> int:
    end = end_of(directory)
    if end < start:
        _lose(options, f"{directory}: it ends before {end}, and the query has read up to {start}")
    return max(start, end if target is None else target.get(group, start))


def wanted(start: Offsets, end: Offsets, options: ReadOptions) -> dict[Path, range]:
    """The records of a batch: a function of its start and end, and not of the options that select groups."""
    there = all_spools(Path(options.path))
    found: dict[Path, range] = {}
    for group in sorted(end):
        its = range(start.get(group, end[group]), end[group])
        if its and group not in there:
            _lose(options, f"{options.path}: the spool of {group!r} is gone")
        elif its:
            found[there[group]] = its
    return found


def _lose(options: ReadOptions, what: str) -> None:
    if options.fail_on_data_loss:
        raise DataLost(what, REMEDY)


def shares(limit: int, waiting: dict[str, int]) -> dict[str, int]:
    """Divides a limit in proportion to the waiting records, in integers; none is above its demand."""
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    ends = 0
    dealt: dict[str, int] = {}
    before = 0
    for name in sorted(waiting):
        ends += waiting[name]
        dealt[name] = limit * ends // total - before
        before += dealt[name]
    return dealt


def bounded(start: dict[str, int], end: dict[str, int], offsets_max: int) -> dict[str, int]:
    """An earlier end, so that the batch has at most this many offsets."""
    waiting = {group: end[group] - start.get(group, end[group]) for group in end}
    dealt = shares(offsets_max, waiting)
    return {group: end[group] - waiting[group] + dealt[group] for group in sorted(end)}


def bounded_by_bytes(
    directories: dict[str, Path], start: dict[str, int], end: dict[str, int], bytes_max: int
) -> dict[str, int]:
    """An earlier end, so that the batch has about this many bytes, and of each group at least a record."""
    waiting = {group: end[group] - start.get(group, end[group]) for group in end}
    total = max(1, sum(waiting.values()))
    reached = dict(end)
    for group in sorted(end):
        if waiting[group] and group in directories:
            share = bytes_max * waiting[group] // total
            reached[group] = reach(directories[group], start[group], end[group], share)
    return reached


def reach(directory: Path, start: int, end: int, bytes_max: int) -> int:
    """The offset up to which records have about this many bytes; at least one after the start."""
    at = start
    for first, stop, size_bytes in _sizes(directory, start, end):
        each = size_bytes / (stop - first)  # Records of a block are taken as equally long.
        low, high = max(first, at), min(stop, end)
        fitting = int(bytes_max / each) if each else high - low
        if fitting < high - low:
            return max(start + 1, low + fitting)
        bytes_max -= int(each * (high - low))
        at = high
    return end


def _sizes(directory: Path, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """First offset, end and size of each block or row group with these records."""
    for part in parts_of(directory, start):
        low, high = max(start, part.base), min(end, part.end)
        if low >= high:
            continue
        if part.archived:
            yield from _row_groups(directory, part.base, low, high)
        else:
            for entry in entries(directory, low, high):
                yield entry.first, entry.end, entry.size_bytes


def _row_groups(directory: Path, base: int, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    footer = import_module("pyarrow.parquet").read_metadata(archive_path(directory, base))
    first = base
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if first < high and first + group.num_rows > low:
            yield first, first + group.num_rows, group.total_byte_size
        first += group.num_rows
