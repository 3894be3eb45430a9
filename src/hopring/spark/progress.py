"""How far a stream is: an offset for each group, from batch to batch. No pyspark here.

Invariants  offsets are built in the order of the groups, since Spark compares them as text;
            no offset ever moves back;
            a group that appears later enters with a batch in which it has no records, at its earliest offset:
            so where it began is written down before anything of it is read.
"""

from pathlib import Path

from hopring.spark.errors import DataLost
from hopring.spark.options import ReadOptions
from hopring.spark.stock import all_spools, check_named, earliest_of, end_of, matching, start_of

Offsets = dict[str, int]
REMEDY = "begin anew with another checkpoint, or go on without it: failOnDataLoss=false"


def initial(spools: dict[str, Path], options: ReadOptions) -> Offsets:
    """Where a stream begins that has no checkpoint."""
    check_named("startingOffsets", options.starting, spools)
    return {group: start_of(spools[group], group, options) for group in sorted(spools)}


def ends(options: ReadOptions) -> Offsets:
    """How far the spools are that are asked for."""
    spools = matching(options, all_spools(Path(options.path)))
    return {group: end_of(spools[group]) for group in sorted(spools)}


def latest(start: Offsets, target: Offsets | None, options: ReadOptions) -> Offsets:
    """The end of a batch without a limit; up to the target, if there is one."""
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
    """The records of a batch: a function of its start and end, whatever the options of today ask for."""
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
