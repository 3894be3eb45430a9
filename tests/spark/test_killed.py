"""Queries that are killed at any moment and restarted: nothing is lost, nothing is published twice."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.spark.killing import Killed, kill_all
from tests.spark.stream_tables import copied, expected

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


def check(spark: Any, root: Path, kills: int, records: int, seconds_max: float, seed: int) -> None:
    """Kills runs, finishes one, and compares the target with the source."""
    killed = Killed(root, records)
    at_work = kill_all(killed, kills, seconds_max, seed)
    before = len(copied(root))
    killed.finish(spark)

    found = f"{at_work} of {kills} runs killed at work, {before} of {records} records by then"
    print(f"{found}, {killed.made_again} batches made again")
    assert at_work == kills
    assert copied(root) == expected(records)


def test_a_killed_query_continues_where_it_was(users: Any, tmp_path: Path) -> None:
    check(users, tmp_path, kills=1, records=600, seconds_max=2.0, seed=1)


@pytest.mark.long
def test_twenty_kills_lose_nothing_and_publish_nothing_twice(users: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("HOPRING_SEED", "4711"))
    check(users, tmp_path, kills=20, records=20_000, seconds_max=4.0, seed=seed)
