"""A stream with upkeep that is killed at any moment: a reader never finds a record twice, and none is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring.spool.reading import bounds

dataset = pytest.importorskip("pyarrow.dataset", reason="needs Spark: make spark")
upkeeping = pytest.importorskip("tests.spark.upkeeping", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

REPOSITORY = Path(__file__).parents[2]
KILLS = 8
TURNS = 1000
SECONDS_MAX = 4.0
UPKEEP_SECONDS_MAX = 120.0


def start(root: Path, turns: int) -> subprocess.Popen[str]:
    code = f"{REPOSITORY / 'src'}:{REPOSITORY}"
    places = {"SPARK_LOCAL_DIRS": str(root / "java"), "PYTHONPATH": code}
    command = [sys.executable, "-P", "-m", "tests.spark.upkeeping", str(root / "eu"), str(root / "out")]
    run = subprocess.Popen(
        [*command, str(turns)],
        env={**os.environ, **places},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "moving\n"
    return run


def read(root: Path) -> dict[str, list[int]]:
    """The offsets that somebody finds who lists the table now, by group."""
    place = root / "out" / "bronze" / "records" / "spool=eu"
    table = dataset.dataset(place, format="parquet", partitioning="hive").to_table(columns=["group", "offset"])
    found: dict[str, list[int]] = {group: [] for group in upkeeping.GROUPS}
    for row in table.to_pylist():
        found[row["group"]].append(row["offset"])
    return {group: sorted(offsets) for group, offsets in found.items()}


def committed(root: Path) -> dict[str, int]:
    """The offsets up to which Spark has committed batches, which it will not make again."""
    checkpoint = root / "out" / "checkpoints" / "eu"
    numbers = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*") if file.name.isdecimal()]
    if not numbers:
        return {}
    offsets = json.loads((checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()[-1])
    return {group: its["offset"] for group, its in offsets.items()}


def is_under_way(root: Path) -> bool:
    """Whether files are being merged, or were when the run was killed."""
    return any((root / "out" / ".new").glob("*-kept"))


def wait_for_upkeep(root: Path) -> None:
    """Waits until files are being merged."""
    until(lambda: is_under_way(root), seconds=UPKEEP_SECONDS_MAX, look_seconds=0.001)


def test_kills_lose_nothing_and_show_nothing_twice(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("HOPRING_SEED", "4711")))
    during = 0
    for number in range(KILLS):
        run = start(tmp_path, TURNS)
        if number % 2:
            wait_for_upkeep(tmp_path)
            time.sleep(chance.uniform(0.0, 1.0))
        else:
            time.sleep(chance.uniform(0.0, SECONDS_MAX))
        assert run.poll() is None, "it was through before it was killed"
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        during += is_under_way(tmp_path)
        ends, found = committed(tmp_path), read(tmp_path)
        for group, offsets in found.items():
            assert len(set(offsets)) == len(offsets)
            # A batch that was under way may be there in part.
            assert set(range(ends[group])) <= set(offsets)
    run = start(tmp_path, 3)
    assert run.communicate()[0] == "through\n"

    print(f"{during} of {KILLS} kills during upkeep, {committed(tmp_path)} records of each group")
    assert read(tmp_path) == {
        group: [*range(bounds(tmp_path / "eu" / group).end)] for group in upkeeping.GROUPS
    }
    assert len(list((tmp_path / "out" / "bronze").rglob("batch=*"))) <= 3
    assert during
