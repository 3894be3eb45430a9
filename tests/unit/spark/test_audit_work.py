"""The kernel's work on a broken history, in calls: little more than on a sound one."""

import cProfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

import pyarrow.parquet as pq

from hopring.bench.suite.audit import AuditWish, write_daemons
from hopring.spark.audit.kernel import Kernel
from hopring.spark.audit.reading import Ends

pytestmark = [pytest.mark.slow, pytest.mark.interpreted]

BROKEN_WORK_MAX = 1.3


def calls(place: Path, planted: bool) -> tuple[int, set[str]]:
    """The calls of functions that a verdict on one history takes, and the broken properties."""
    place.mkdir()
    write_daemons(place, 50_000, AuditWish(planted=planted))
    files = sorted(place.glob("*.parquet"))
    table = pq.ParquetDataset(files).read()
    counts = [pq.read_metadata(file).num_rows for file in files]
    names = [str(file) for file, count in zip(files, counts, strict=True) for _ in range(count)]
    table = table.append_column("file", [names])
    table = table.append_column("row", [[row for count in counts for row in range(count)]])
    profile = cProfile.Profile()
    found = profile.runcall(lambda: list(Kernel("trace", {}, Ends(), 1_000).rows("", table)))
    return sum(one.callcount for one in profile.getstats()), {row.property for row in found if row.property}


def test_a_broken_history_takes_little_more_calls_than_a_sound_one(tmp_path: Path) -> None:
    sound, nothing = calls(tmp_path / "sound", planted=False)
    broken, found = calls(tmp_path / "broken", planted=True)

    print(f"{sound} calls for a sound history, {broken} for one with five violations")
    assert nothing == set()
    assert {name.partition(" ")[0] for name in found} >= {"2.5", "2.6", "2.7", "2.11", "2.20"}
    assert broken <= BROKEN_WORK_MAX * sound
