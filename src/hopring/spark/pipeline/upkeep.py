"""Upkeep of the records that a stream writes: small files are merged, and old records are removed.

A stream makes a directory for each of its batches, so files are many and small. Upkeep runs between two batches
of a spool, in the query that writes them: nothing else writes there. It touches only batches before the next
one, which Spark has committed and never repeats.

Invariants  whoever lists the table at any moment finds every record once, whenever this is killed: the new
            content of a spool's directory is made elsewhere, with hard links to files that stay, and takes its
            place by one swap of names;
            of a group only the oldest records are removed, without a hole.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import msgspec

from hopring.spark.pipeline import swapping
from hopring.spark.pipeline.files import LocalFiles
from hopring.spark.schema import RECORDS, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = "batch"
FILE_BYTES: Final = 128 << 20
BATCHES_MAX: Final = 60
"""Directories of batches after which files are merged: five minutes of a stream in which records arrive."""

RETAIN_SLACK: Final = 0.1
"""The share of the retained time by which records of a small file may be too old before it is rewritten."""

_BATCH: Final = re.compile(rf"{BATCH}=(\d+)")


class UpkeepLimits(msgspec.Struct, frozen=True):
    """When files are merged, to which size, and for how long records stay."""

    file_bytes: int = FILE_BYTES  # Files of half this size and more are not merged.
    batches_max: int = BATCHES_MAX
    retain_seconds: float | None = None  # By the timestamps of records; None keeps all.


class StreamFile(msgspec.Struct, frozen=True):
    """A file of the table: its batch, and the directory of its group."""

    path: Path
    batch: int
    group: str  # As the directory is named, `group=NAME`.
    size_bytes: int


class FileFacts(msgspec.Struct, frozen=True):
    """What is in a file: the first offset, and the times of the oldest and the newest record."""

    first_offset: int
    oldest_us: int
    newest_us: int


class UpkeepPlan(msgspec.Struct, frozen=True):
    """The files that are merged and those that are left out; all others stay."""

    merged: tuple[StreamFile, ...] = ()
    removed: tuple[StreamFile, ...] = ()
    trimmed: tuple[str, ...] = ()  # Groups of which nothing else stays, so that old records can be left out.

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.merged and not self.removed


def files_of(place: Path, before: int) -> tuple[StreamFile, ...]:
    """The files of all batches of a spool before this one."""
    return tuple(_files(place, before))


def _files(place: Path, before: int) -> Iterator[StreamFile]:
    for directory in sorted(place.iterdir()) if place.is_dir() else ():
        number = _BATCH.fullmatch(directory.name)
        if number is None or int(number[1]) >= before:
            continue
        for path in sorted(directory.glob("group=*/*")):
            if not path.name.startswith(("_", ".")):
                yield StreamFile(path, int(number[1]), path.parent.name, path.stat().st_size)


def planned(
    files: Iterable[StreamFile], facts: Mapping[Path, FileFacts], limits: UpkeepLimits, now_us: int
) -> UpkeepPlan:
    """What to do with these files; the facts about them are needed only if records are not kept for ever."""
    by_group: dict[str, list[StreamFile]] = {}
    for file in files:
        by_group.setdefault(file.group, []).append(file)
    merged: list[StreamFile] = []
    removed: list[StreamFile] = []
    trimmed: list[str] = []
    for group, its in by_group.items():
        gone = _expired(its, facts, limits, now_us)
        left = [file for file in its if file not in gone]
        small = [file for file in left if file.size_bytes < limits.file_bytes // 2]
        removed += gone
        stale = small == left and any(_is_stale(file, facts, limits, now_us) for file in small)
        if len(small) > 1 or stale:
            merged += small
            trimmed += [group] if stale else []
    return UpkeepPlan(tuple(merged), tuple(removed), tuple(trimmed))


def _expired(
    files: list[StreamFile], facts: Mapping[Path, FileFacts], limits: UpkeepLimits, now_us: int
) -> list[StreamFile]:
    """The files of a group in which everything is too old, up to the first in which something is not."""
    if limits.retain_seconds is None:
        return []
    gone: list[StreamFile] = []
    for file in sorted(files, key=lambda one: facts[one.path].first_offset):
        if facts[file.path].newest_us >= cutoff_us(limits.retain_seconds, now_us):
            break
        gone.append(file)
    return gone


def _is_stale(file: StreamFile, facts: Mapping[Path, FileFacts], limits: UpkeepLimits, now_us: int) -> bool:
    """Whether a small file has records that are clearly too old."""
    if limits.retain_seconds is None:
        return False
    return facts[file.path].oldest_us < cutoff_us(limits.retain_seconds * (1 + RETAIN_SLACK), now_us)


def cutoff_us(retain_seconds: float, now_us: int) -> int:
    """The time before which records are too old."""
    return now_us - round(retain_seconds * 1_000_000)


class SpoolUpkeep:
    """Upkeep of the records of one spool; the object lives as long as its query and knows its files."""

    def __init__(self, out: Path, place: str, workshop: Path, limits: UpkeepLimits) -> None:
        """`place` is the spool's directory below `out`."""
        self.out = out
        self.place = place
        self.workshop = workshop
        self.limits = limits
        self._known: dict[Path, FileFacts] = {}
        self._looked_at_batch = 0

    def keep_up(self, spark: "SparkSession", batch: int, now_us: int) -> UpkeepPlan:
        """Merges and removes files of batches before this one, if it is time; returns what was done."""
        if not self.is_due(batch):
            return UpkeepPlan()
        files = files_of(self.out / self.place, batch)
        self._looked_at_batch = batch
        if self.limits.retain_seconds is not None:
            self._learn(spark, files)
        plan = planned(files, self._known, self.limits, now_us)
        if not plan.is_empty:
            self._replace(spark, plan, now_us)
        return plan

    def is_due(self, batch: int) -> bool:
        """Whether it is time to look at the files of batches before this one."""
        if batch - self._looked_at_batch < self.limits.batches_max and self._looked_at_batch:
            return False
        files = files_of(self.out / self.place, batch)
        return len({file.batch for file in files}) >= self.limits.batches_max

    def _learn(self, spark: "SparkSession", files: tuple[StreamFile, ...]) -> None:
        """Looks into the files that are not known yet, in one job; a file never changes."""
        from pyspark.sql import functions as F  # noqa: PLC0415  An extra.

        there = {file.path for file in files}
        self._known = {path: facts for path, facts in self._known.items() if path in there}
        new = [path for path in there if path not in self._known]
        if not new:
            return
        time = F.unix_micros("timestamp")
        rows = self._read(spark, new).groupBy(F.col("_metadata.file_path").alias("path"))
        found = rows.agg(F.min("offset"), F.min(time), F.max(time)).collect()
        for path, *facts in found:
            self._known[Path(unquote(urlsplit(path).path))] = FileFacts(*facts)
        for path in new:
            # A file without rows is in no group of them: it is as old as can be.
            self._known.setdefault(path, FileFacts(0, 0, 0))

    def _read(self, spark: "SparkSession", paths: Iterable[Path]) -> "DataFrame":
        reader = spark.read.schema(ddl({**RECORDS, BATCH: "int"})).option(
            "basePath", f"file://{self.out / self.place}"
        )
        return reader.parquet(*[f"file://{path}" for path in sorted(paths)])

    def _replace(self, spark: "SparkSession", plan: UpkeepPlan, now_us: int) -> None:
        name = self.place.replace("/", "-")
        new, fresh = self.workshop / f"{name}-kept", self.workshop / f"{name}-merged"
        for leftover in (new, fresh):
            shutil.rmtree(leftover, ignore_errors=True)
        left_out = {file.path for file in (*plan.merged, *plan.removed)}
        linked(self.out / self.place, new, left_out)
        if plan.merged:
            self._merge(spark, plan, fresh, now_us)
            moved(fresh, new / f"{BATCH}={max(file.batch for file in plan.merged)}")
        names = [str(one.relative_to(self.out)) for one in (new, self.out / self.place, self.workshop)]
        swapping.replace(LocalFiles(self.out), *names)

    def _merge(self, spark: "SparkSession", plan: UpkeepPlan, fresh: Path, now_us: int) -> None:
        """Writes the records of some files to as few files as their groups and sizes need."""
        files = plan.merged
        records = self._young(self._read(spark, [file.path for file in files]), plan.trimmed, now_us)
        writer = records.select(*RECORDS).repartition("group").sortWithinPartitions("group", "offset").write
        total_bytes = sum([file.size_bytes for file in files])
        if total_bytes > self.limits.file_bytes:
            per_file = records.count() * self.limits.file_bytes // total_bytes
            writer = writer.option("maxRecordsPerFile", max(1, per_file))
        writer.partitionBy("group").parquet(f"file://{fresh}")

    def _young(self, records: "DataFrame", trimmed: tuple[str, ...], now_us: int) -> "DataFrame":
        """The records without the oldest ones of some groups: from the first on that is not too old."""
        from pyspark.sql import Window  # noqa: PLC0415  An extra.
        from pyspark.sql import functions as F  # noqa: PLC0415

        if self.limits.retain_seconds is None or not trimmed:
            return records
        names = [unquote(group.removeprefix("group=")) for group in trimmed]
        young = F.unix_micros("timestamp") >= cutoff_us(self.limits.retain_seconds, now_us)
        young = young | ~F.col("group").isin(*names)
        first = F.min(F.when(young, F.col("offset"))).over(Window.partitionBy("group"))
        return records.withColumn("first_young", first).where("offset >= first_young")


def linked(place: Path, new: Path, left_out: set[Path]) -> None:
    """Makes a directory with links to all files of another one but those that are left out."""
    new.mkdir(parents=True)
    for path in sorted(place.rglob("*")):
        if path.is_dir() or path in left_out:
            continue
        target = new / path.relative_to(place)
        if any(part.startswith(("_", ".")) for part in target.relative_to(new).parts):
            continue  # Spark's notes, and files that it has not completed.
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)


def moved(fresh: Path, target: Path) -> None:
    """Moves the files that Spark has written, group by group, and has them on disk before the old ones go."""
    for path in sorted(fresh.glob("group=*/*")):
        if path.name.startswith(("_", ".")):
            continue
        place = target / path.parent.name / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.rename(place)
