"""The progress of a stream: a position for each group, and limits on the size of a batch. No pyspark.

A position is an offset and the id of the spool that it belongs to. A spool that was removed and made anew has
another id, so its records are never taken for those of the old one.

Invariants  offsets are built in the order of the groups, because Spark compares them as text;
            within one spool no offset ever moves back;
            a group that appears later, and a spool that takes the place of another one, enters at its earliest
            offset with a batch without records, so the checkpoint has its start before any of its records is
            read.
"""

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from hopring.spark.errors import DataLost
from hopring.spark.source.inventory import (
    all_spools,
    check_starts,
    earliest_of,
    end_of,
    id_of,
    matching,
    parts_of,
    start_of,
)
from hopring.spark.source.options import ReadOptions
from hopring.spool.files import archive_path
from hopring.spool.reading import entries

REMEDY: Final = "start with a new checkpoint, or continue without these records: failOnDataLoss=false"
WARNINGS_MAX: Final = 1024
"""Each loss is reported once; this many are remembered."""

_LOG: Final = logging.getLogger(__name__)


class SpoolPosition(NamedTuple):
    """The position of a stream in a group: the offset of the next record, and the id of the spool."""

    offset: int
    spool: str = ""  # Empty in checkpoints of earlier versions, which have no ids.


Positions = dict[str, SpoolPosition]


def from_json(found: Mapping[str, Any]) -> Positions:
    """The positions in an offset of Spark; earlier versions have a number for each group."""
    return {
        group: SpoolPosition(its["offset"], its["spool"]) if isinstance(its, dict) else SpoolPosition(its)
        for group, its in found.items()
    }


def to_json(positions: Positions) -> dict[str, Any]:
    """The positions as an offset of Spark; one without an id is written as it was read."""
    return {
        group: {"offset": its.offset, "spool": its.spool} if its.spool else its.offset
        for group, its in positions.items()
    }


def initial(spools: dict[str, Path], options: ReadOptions) -> Positions:
    """The first positions of a stream without a checkpoint."""
    check_starts(spools, options)
    return {
        group: SpoolPosition(start_of(spools[group], group, options), id_of(spools[group]))
        for group in sorted(spools)
    }


def ends(options: ReadOptions) -> Positions:
    """The ends of the selected spools."""
    spools = matching(options, all_spools(Path(options.path)))
    return {group: SpoolPosition(end_of(spools[group]), id_of(spools[group])) for group in sorted(spools)}


def latest(start: Positions, target: Positions | None, options: ReadOptions) -> Positions:
    """The end of a batch without a limit, at most the target if there is one."""
    there = all_spools(Path(options.path))
    asked = matching(options, there)
    found: Positions = {}
    for group in sorted({*start, *asked}):
        if group in start:
            found[group] = start[group]
            if group not in there:
                _lose(options, f"{options.path}: the spool of {group!r} is gone")
            elif group in asked:
                found[group] = _moved(there[group], group, start[group], target, options)
        elif target is None or group in target:
            found[group] = _entry(asked[group])
    return found


def _entry(directory: Path) -> SpoolPosition:
    return SpoolPosition(earliest_of(directory), id_of(directory))


def _moved(
    directory: Path, group: str, start: SpoolPosition, target: Positions | None, options: ReadOptions
) -> SpoolPosition:
    spool, end = id_of(directory), end_of(directory)
    if start.spool not in ("", spool):
        _lose(options, _is_another(directory, spool, start.spool))
        return _entry(directory)
    if end < start.offset:
        _lose(options, f"{directory}: it ends before {end}, and the query has read up to {start.offset}")
        return start if start.spool else _entry(directory)
    if target is not None:
        limit = target.get(group, start)
        end = limit.offset if limit.spool == spool else start.offset
    return SpoolPosition(max(start.offset, end), spool)


def _is_another(directory: Path, spool: str, before: str) -> str:
    return f"{directory}: another spool is there ({spool}) than the one that the query has read ({before})"


def wanted(start: Positions, end: Positions, options: ReadOptions) -> dict[Path, range]:
    """The records of a batch: a function of its start and end, and not of the options that select groups."""
    there = all_spools(Path(options.path))
    found: dict[Path, range] = {}
    for group, to in sorted(end.items()):
        its = waiting(start.get(group), to)
        if its and group not in there:
            _lose(options, f"{options.path}: the spool of {group!r} is gone")
        elif its and to.spool not in ("", id_of(there[group])):
            _lose(options, _is_another(there[group], id_of(there[group]), to.spool))
        elif its:
            found[there[group]] = its
    return found


def waiting(start: SpoolPosition | None, end: SpoolPosition) -> range:
    """The offsets between two positions; none if the group, or another spool of it, enters at the end."""
    if start is None or start.spool not in ("", end.spool):
        return range(end.offset, end.offset)
    return range(start.offset, end.offset)


def is_entered(start: Positions, end: Positions) -> bool:
    """Whether a group or a spool of another id enters between the two."""
    return any(group not in start or start[group].spool != its.spool for group, its in end.items())


def records_waiting(start: Positions, end: Positions) -> dict[str, int]:
    """The number of records between two positions, by group."""
    return {group: len(waiting(start.get(group), its)) for group, its in end.items()}


def _lose(options: ReadOptions, what: str) -> None:
    """Reports a loss: an error, or a warning if the options allow losses."""
    if options.fail_on_data_loss:
        raise DataLost(what, REMEDY)
    _warn(what)


@lru_cache(maxsize=WARNINGS_MAX)
def _warn(what: str) -> None:
    _LOG.warning("%s; failOnDataLoss is false, so the query goes on without the lost records", what)


def shares(limit: int, demand: dict[str, int]) -> dict[str, int]:
    """Divides a limit in proportion to the waiting records, in integers; none is above its demand."""
    total = sum(demand.values())
    if total <= limit:
        return dict(demand)
    ends = 0
    dealt: dict[str, int] = {}
    before = 0
    for name in sorted(demand):
        ends += demand[name]
        dealt[name] = limit * ends // total - before
        before += dealt[name]
    return dealt


def bounded(start: Positions, end: Positions, offsets_max: int) -> Positions:
    """An earlier end, so that the batch has at most this many offsets."""
    demand = records_waiting(start, end)
    dealt = shares(offsets_max, demand)
    return {
        group: end[group]._replace(offset=end[group].offset - demand[group] + dealt[group])
        for group in sorted(end)
    }


def bounded_by_bytes(
    directories: dict[str, Path], start: Positions, end: Positions, bytes_max: int
) -> Positions:
    """An earlier end, so that the batch has about this many bytes, and of each group at least a record."""
    demand = records_waiting(start, end)
    total = max(1, sum(demand.values()))
    reached = dict(end)
    for group in sorted(end):
        if demand[group] and group in directories:
            share = bytes_max * demand[group] // total
            at = reach(directories[group], start[group].offset, end[group].offset, share)
            reached[group] = end[group]._replace(offset=at)
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
