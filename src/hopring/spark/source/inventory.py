"""Which spools can be read, from which offset to which, and from which files.

A finished segment that is in the archive is read from there, all others from their log. An archived segment
stays readable after retention has removed its log, as long as there is no gap between it and the next segment.

No pyspark: these are functions of directories, and are tested as such.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.spark.source.options import EARLIEST, LATEST, Offsets, ReadOptions, Times, WrongOption
from hopring.spool.archive import SPOOL_KEY
from hopring.spool.errors import NoSpool, OffsetMissing
from hopring.spool.files import ARCHIVE, PARQUET, archive_path, bases, is_base, spools
from hopring.spool.reading import bounds, read_head, since_time

_GLOB: Final = re.compile(r"[*?\[]")


class Part(msgspec.Struct, frozen=True):
    """The offsets of a segment, and whether it is read from the archive."""

    base: int
    end: int
    archived: bool = False


def chosen(options: ReadOptions) -> dict[str, Path]:
    """The spools that the options select, sorted by group; NoSpool if a named one is missing."""
    there = all_spools(Path(options.path))
    for name in options.groups:
        if name not in there and not _GLOB.search(name):
            remedy = "list the spools with `hop spool ls`"
            raise NoSpool(options.path, f"there is no spool of {name!r}", remedy)
    return matching(options, there)


def matching(options: ReadOptions, there: dict[str, Path]) -> dict[str, Path]:
    """Those of these spools that the options select."""
    if options.group_pattern:
        wanted = re.compile(options.group_pattern)
        return {group: there[group] for group in there if wanted.fullmatch(group)}
    globs = options.groups or ("*",)
    # A name with a glob character in it is still a name.
    return {
        group: there[group]
        for group in there
        if group in globs or any(fnmatchcase(group, glob) for glob in globs)
    }


def all_spools(path: Path) -> dict[str, Path]:
    """The spools below a root by group; if the directory itself is a spool, only that one."""
    found = [path] if path.is_dir() and bases(path) else spools(path)
    named = {read_head(directory, bases(directory)[-1]).group: directory for directory in found}
    return {group: named[group] for group in sorted(named)}


def id_of(directory: Path) -> str:
    """The id of a spool in hexadecimal: drawn when the spool is made, and the same in all its segments."""
    return read_head(directory, bases(directory)[-1]).spool_id.hex()


def end_of(directory: Path) -> int:
    """The offset after the last record that can be read."""
    return bounds(directory).end


def earliest_of(directory: Path) -> int:
    """The oldest offset from which on no record is missing, with the archive."""
    first = bases(directory)[0]
    return min([first, *[part.base for part in _older(directory, first)]])


def parts_of(directory: Path, start: int) -> list[Part]:
    """The segments from the one that contains this offset on, or from the oldest one."""
    known = bounds(directory)
    there = bases(directory)
    tail = [
        Part(base, end, archive_path(directory, base).exists())
        for base, end in pairwise([*there, known.end])
        if end > start
    ]
    if start >= there[0]:
        return tail
    older: list[Part] = []
    for part in _older(directory, there[0]):
        older.insert(0, part)
        if part.base <= start:
            break
    return older + tail


def start_of(directory: Path, group: str, options: ReadOptions) -> int:
    """The first offset of a reader without a checkpoint."""
    return _bound(directory, group, options.starting_time_us, options.starting, EARLIEST)


def _bound(directory: Path, group: str, times_us: Times | None, offsets: Offsets, otherwise: int) -> int:
    """The offset that a time or an offset of the options stands for in this group."""
    time_us = times_us.get(group) if isinstance(times_us, dict) else times_us
    if time_us is not None:
        return since(directory, time_us)
    return resolved(directory, offsets if isinstance(offsets, int) else offsets.get(group, otherwise))


def resolved(directory: Path, offset: int) -> int:
    """The offset itself, or the end of the spool that EARLIEST or LATEST stands for."""
    match offset:
        case -2:
            return earliest_of(directory)
        case -1:
            return end_of(directory)
        case _:
            return offset


def ranges_of(spools_there: dict[str, Path], options: ReadOptions) -> dict[str, range]:
    """The offsets of each group that a batch query reads."""
    check_starts(spools_there, options)
    check_named("endingOffsets", options.ending, spools_there)
    check_named("endingOffsetsByTimestamp", options.ending_time_us, spools_there)
    return {
        group: range(
            start_of(directory, group, options),
            _bound(directory, group, options.ending_time_us, options.ending, LATEST),
        )
        for group, directory in spools_there.items()
    }


def check_starts(spools_there: dict[str, Path], options: ReadOptions) -> None:
    """Raises WrongOption if a start is given for a group that is not read."""
    check_named("startingOffsets", options.starting, spools_there)
    check_named("startingOffsetsByTimestamp", options.starting_time_us, spools_there)


def check_named(option: str, given: Offsets | Times | None, spools_there: dict[str, Path]) -> None:
    """Raises WrongOption if an offset or a time is given for a group that is not read."""
    strangers = sorted(set(given) - set(spools_there)) if isinstance(given, dict) else []
    if strangers:
        raise WrongOption(option, f"{strangers[0]!r} is not among the groups that are read", "leave it out")


def checked(directory: Path, wanted: range, parts: list[Part], *, fail: bool) -> range:
    """The part of these offsets that exists; OffsetMissing if that is not all of them and `fail` is set."""
    low, high = parts[0].base if parts else end_of(directory), end_of(directory)
    if wanted and fail and (wanted.start < low or wanted.stop > high):
        raise OffsetMissing(directory, wanted.start if wanted.start < low else wanted.stop - 1, low, high)
    return range(max(wanted.start, low), min(wanted.stop, high))


def since(directory: Path, time_us: int) -> int:
    """The offset of the first append at this time or later; the end of the spool if there is none.

    Where only the archive is left, that of the first record at this time or later.
    """
    found = since_time(directory, time_us)
    first = bases(directory)[0]
    oldest: Part | None = None
    if found == first:
        for part in _older(directory, first):
            if archived_facts(directory, part.base).last_time_us < time_us:
                break
            oldest = part
    return found if oldest is None else _since_in(directory, oldest, time_us)


def _since_in(directory: Path, part: Part, time_us: int) -> int:
    """The first offset of an archived segment with this time or a later one."""
    table = import_module("pyarrow.parquet").read_table(
        archive_path(directory, part.base), columns=["offset", "timestamp"]
    )
    compute = import_module("pyarrow.compute")
    times = table.column("timestamp").cast("int64")
    at = compute.index(compute.greater_equal(times, time_us), True).as_py()
    return part.end if at < 0 else int(table.column("offset")[at].as_py())


def _older(directory: Path, first: int) -> Iterator[Part]:
    """The segments that only the archive has, from the newest back to the first gap."""
    place = directory / ARCHIVE
    names = [path.stem for path in place.iterdir() if path.suffix == PARQUET] if place.is_dir() else []
    there = [int(name) for name in names if is_base(name)]
    older = sorted([base for base in there if base < first], reverse=True)
    own = id_of(directory) if older else ""
    for base in older:
        facts = archived_facts(directory, base)
        if facts.end != first or facts.spool not in ("", own):
            return
        yield Part(base, first, archived=True)
        first = base


class ArchivedFacts(msgspec.Struct, frozen=True):
    """What the footer of a file of the archive says."""

    end: int  # The offset after its last record.
    last_time_us: int  # The latest timestamp.
    spool: str  # The id of the spool; empty in files of earlier versions.


def archived_facts(directory: Path, base: int) -> ArchivedFacts:
    """The facts about a file of the archive."""
    path = archive_path(directory, base)
    found = path.stat()
    return _facts(str(path), base, found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=4096)
def _facts(path: str, base: int, _inode: int, _changed_ns: int) -> ArchivedFacts:
    """The facts in a footer. A file never changes, but another spool may have one of the same name later."""
    footer = import_module("pyarrow.parquet").read_metadata(path)
    offset, time = _largest(footer, "offset"), _largest(footer, "timestamp")
    return ArchivedFacts(
        base if offset is None else int(offset) + 1,
        0 if time is None else round(time.timestamp() * 1_000_000),
        (footer.metadata or {}).get(SPOOL_KEY, b"").decode(),
    )


def _largest(footer: Any, column: str) -> Any:
    most = None
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        its = next(one for one in map(group.column, range(group.num_columns)) if one.path_in_schema == column)
        if its.statistics is not None and its.statistics.has_min_max:
            most = its.statistics.max if most is None else max(most, its.statistics.max)
    return most
