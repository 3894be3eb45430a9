"""Which files of a stream are merged and removed, and that no moment of a replacement loses any."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.pipeline import swapping
from hopring.spark.pipeline.files import LocalFiles
from hopring.spark.pipeline.upkeep import (
    BATCH,
    FileFacts,
    SpoolUpkeep,
    StreamFile,
    UpkeepLimits,
    UpkeepPlan,
    files_of,
    linked,
    planned,
)

SECOND_US = 1_000_000
LIMITS = UpkeepLimits(file_bytes=100, batches_max=2)


def file(name: str, batch: int, size_bytes: int, group: str = "group=g") -> StreamFile:
    return StreamFile(Path(name), batch, group, size_bytes)


def facts(first: int, oldest: float, newest: float) -> FileFacts:
    return FileFacts(first, round(oldest * SECOND_US), round(newest * SECOND_US))


def test_small_files_of_a_group_are_merged_and_large_ones_and_single_ones_stay() -> None:
    small, large, other = file("a", 0, 10), file("b", 1, 50), file("c", 2, 49)
    alone = file("d", 2, 10, "group=alone")
    known = {one.path: facts(0, 0, 0) for one in (small, large, other, alone)}

    assert planned([small, large, other, alone], known, LIMITS, 0) == UpkeepPlan((small, other))
    assert planned([small, large, alone], known, LIMITS, 0).is_empty


def test_files_are_removed_from_the_oldest_on_up_to_the_first_with_a_young_record() -> None:
    limits = UpkeepLimits(100, 2, retain_seconds=10.0)
    ages = {"a": (0, 1), "b": (1, 11), "c": (2, 3), "d": (30, 31)}  # The clock was set back before c.
    files = [file(name, at, 80) for at, name in enumerate(ages)]
    known = {Path(name): facts(at, *age) for at, (name, age) in enumerate(ages.items())}

    assert planned(files, known, limits, 20 * SECOND_US) == UpkeepPlan((), (files[0],))
    assert planned(files, known, limits, 22 * SECOND_US) == UpkeepPlan((), tuple(files[:3]))


def test_a_small_file_is_rewritten_without_its_old_records_when_nothing_else_of_the_group_stays() -> None:
    limits = UpkeepLimits(100, 2, retain_seconds=10.0)
    small, large = file("a", 0, 10), file("b", 1, 90)
    known = {Path("a"): facts(0, 0, 30), Path("b"): facts(5, 30, 31)}

    assert planned([small], known, limits, 10 * SECOND_US).is_empty
    assert planned([small], known, limits, 12 * SECOND_US) == UpkeepPlan((small,), (), ("group=g",))
    assert planned([small, large], known, limits, 12 * SECOND_US).is_empty


def make(place: Path, *names: str) -> None:
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)


def names(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def test_only_complete_files_of_earlier_batches_are_touched(tmp_path: Path) -> None:
    make(tmp_path, "batch=0/group=a/x", "batch=0/_SUCCESS", "batch=1/group=a%2Fb/y", "batch=1/group=a/.y.crc")
    make(tmp_path, "batch=2/group=a/z", "batch=2/_temporary/0/group=a/w", "batch=x/group=a/x")

    found = files_of(tmp_path, before=2)

    assert [(one.batch, one.group, one.path.name) for one in found] == [
        (0, "group=a", "x"),
        (1, "group=a%2Fb", "y"),
    ]
    linked(tmp_path, tmp_path.with_name("new"), {found[0].path})
    assert names(tmp_path.with_name("new")) == [
        "batch=1/group=a%2Fb/y",
        "batch=2/group=a/z",
        "batch=x/group=a/x",
    ]


def test_a_directory_that_a_killed_process_had_taken_away_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, workshop = tmp_path / "out", tmp_path / "out" / ".new"
    make(out, "bronze/records/spool=eu/old")
    make(workshop, "fresh/new")
    monkeypatch.setattr(swapping, "exchanged", lambda *_: False)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    place = "bronze/records/spool=eu"
    with monkeypatch.context() as patch:
        renamed = Path.rename
        patch.setattr(Path, "rename", lambda one, to: killed() if one.name == "fresh" else renamed(one, to))
        with pytest.raises(KeyboardInterrupt):
            swapping.replace(LocalFiles(out), ".new/fresh", place, ".new")
    assert not (out / place).exists()

    swapping.recover(LocalFiles(out), ".new")

    assert names(out / place) == ["old"]
    swapping.replace(LocalFiles(out), ".new/fresh", place, ".new")
    assert names(out / place) == ["new"]
    assert names(workshop) == []
    shutil.rmtree(out / place)
    swapping.recover(LocalFiles(out), ".new")
    assert not (out / place).exists()


class PlainUpkeep(SpoolUpkeep):
    """Upkeep of files that have a record in each line; they are merged without Spark."""

    def _merge(self, spark: Any, plan: UpkeepPlan, fresh: Path, now_us: int) -> None:
        del spark, now_us
        groups = sorted({file.group for file in plan.merged})
        for group in groups:
            (fresh / group).mkdir(parents=True)
            lines = [file.path.read_text() for file in plan.merged if file.group == group]
            (fresh / group / f"part-{len(lines)}-{sum(map(len, lines))}").write_text("".join(lines))


class Crash(Exception):
    """The end of a process, for a test."""


def crash_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Lets the call with this number, of those that change files, fail before or after it is done."""
    calls = [0]

    def counted(module: Any, name: str) -> None:
        act = getattr(module, name)

        def call(*arguments: Any, **named: Any) -> Any:
            calls[0] += 2
            if calls[0] - 2 == step:
                raise Crash
            done = act(*arguments, **named)
            if calls[0] - 1 == step:
                raise Crash
            return done

        patch.setattr(module, name, call)

    for module, name in ((os, "link"), (Path, "rename"), (shutil, "rmtree"), (swapping, "exchanged")):
        counted(module, name)


def records(place: Path) -> list[str]:
    """The records that somebody finds who lists the table."""
    return sorted(
        line
        for path in place.glob("batch=*/group=*/*")
        if not path.name.startswith(("_", "."))
        for line in path.read_text().split()
    )


@pytest.mark.slow
@pytest.mark.parametrize("can_swap", [True, False])
def test_whenever_it_is_killed_every_record_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_swap: bool
) -> None:
    if not can_swap:
        monkeypatch.setattr(swapping, "exchanged", lambda *_: False)
    crashes = 0
    for step in range(200):
        out = tmp_path / str(step)
        place, workshop = "bronze/records/spool=eu", out / ".new"
        for at in range(6):
            file = out / place / f"{BATCH}={at}" / f"group={'ab'[at % 2]}" / "part"
            file.parent.mkdir(parents=True)
            file.write_text(f"{at} " * (60 if at == 3 else 1))  # One is large enough to stay.
        expected = records(out / place)
        workshop.mkdir()
        with monkeypatch.context() as patch:
            crash_at(patch, step)
            upkeep = PlainUpkeep(out, place, workshop, LIMITS)
            try:
                done = upkeep.keep_up(None, 5, 0)
            except Crash:
                crashes += 1
                done = None
        if can_swap:
            assert records(out / place) == expected, step
        swapping.recover(LocalFiles(out), ".new")
        assert records(out / place) == expected, step
        again = PlainUpkeep(out, place, workshop, LIMITS).keep_up(None, 5, 0)
        assert records(out / place) == expected, step
        assert len(list((out / place).rglob("part*"))) == 4
        if done is not None:
            assert not done.is_empty
            assert again.is_empty
            break
    assert crashes > 15
