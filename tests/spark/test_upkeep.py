"""Upkeep of a stream's records on Spark: merged files have the same rows, and old records go."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND_US = 1_000_000
GROUPS = ("trades/eu", "1", "a b")


def test_merged_files_have_the_same_rows_and_old_records_are_removed(users: Any, tmp_path: Path) -> None:
    from hopring.spark.pipeline.ingest import bronze_records  # noqa: PLC0415  Needs the extra.
    from hopring.spark.pipeline.store import Store  # noqa: PLC0415
    from hopring.spark.pipeline.upkeep import SpoolUpkeep, UpkeepLimits  # noqa: PLC0415

    store = Store(tmp_path / "out")
    store.open()
    place = store.place("bronze", "records") / "spool=eu"
    for group in GROUPS:
        fill(tmp_path / "eu", group, 60)
    read = users.read.format("hopring").load(str(tmp_path / "eu"))
    for number in range(4):
        batch = read.where(f"offset div 20 = {number} and (`group` <> 'a b' or offset >= 20)")
        batch.write.partitionBy("group").parquet(f"file://{place}/batch={number}")

    def found() -> list[Any]:
        return sorted(bronze_records(users, store).collect(), key=repr)

    def files() -> int:
        return len(list(place.rglob("*.parquet")))

    def keep_up(before: int, now_seconds: float, **limits: Any) -> None:
        upkeep = SpoolUpkeep(store.out, "bronze/records/spool=eu", store.workshop, UpkeepLimits(**limits))
        upkeep.keep_up(users, before, round(now_seconds * SECOND_US))

    whole = found()
    assert (len(whole), files()) == (160, 8)

    keep_up(3, 0, batches_max=4)
    assert files() == 8
    keep_up(2, 0, batches_max=2)
    assert (found(), files()) == (whole, 6)  # Two of each group, and the later batch stays apart.
    assert sorted(path.name for path in place.iterdir()) == ["batch=1", "batch=2"]

    # In a group whose records are all in small files, the oldest go; appends are ten seconds apart.
    keep_up(3, 60, batches_max=1, retain_seconds=30.0)
    left = found()
    assert sorted({(row["group"], row["offset"]) for row in left}) == sorted(
        (group, offset) for group in GROUPS for offset in range(30, 60)
    )
    assert left == [row for row in whole if row["offset"] >= 30]
    assert files() == 3

    keep_up(3, 100, batches_max=1, retain_seconds=30.0)
    assert found() == []
    assert place.exists()
