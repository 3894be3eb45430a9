"""`hop bench groups`, small: its rows, their ratios, and that nothing is left behind."""

import json
import subprocess
import sys

import pytest
from tests.unit.cli.conftest import Hop

from hopring.cli.bench.daemons import Daemons


@pytest.mark.slow
def test_rows_come_for_groups_and_sessions_with_ratios_to_the_first() -> None:
    command = [sys.executable, "-m", "hopring.cli.main", "bench", "groups", "--json", "--groups", "10,30"]
    command += ["--sessions", "2,4", "--rounds", "1", "--joins", "20", "--probes", "20", "--messages", "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]

    assert [(row["beside"], row["groups"], row["sessions"]) for row in rows] == [
        ("groups", 10, 10),
        ("groups", 30, 10),
        ("sessions", 2, 2),
        ("sessions", 4, 4),
    ]
    assert set(rows[0]["ratios"].values()) == {1.0}
    for row in rows:
        assert row["joins_per_s"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["message_cpu_us"] > 0
        assert row["ratios"]["join_cpu_us"] > 0


@pytest.mark.slow
def test_its_daemons_end_with_it() -> None:
    with Daemons() as daemons:
        assert daemons.cpu_seconds() > 0
        processes = list(daemons._processes.values())

    assert [process.returncode for process in processes] == [0, 0]


@pytest.mark.parametrize("counts", ["100,10", "0,1", "many", "1,1"])
def test_rows_have_to_rise(hop: Hop, counts: str) -> None:
    assert hop("bench", "groups", "--groups", counts).exit_code == 2
