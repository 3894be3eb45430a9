"""`hop bench` with small sizes: its output, that no message is lost, and that no process is left."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Hop

from hopring.bench.harness.daemons import BenchDaemons
from hopring.bench.harness.processes import memory_bytes
from hopring.bench.harness.workload import BenchWorkload
from hopring.bench.throughput import measure_throughput
from hopring.cli.terminal import Failure


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hopring.cli.main", "bench", *arguments, "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def bench(*arguments: str) -> dict[str, Any]:
    done = run_bench(*arguments)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


@pytest.mark.slow
def test_rows_come_for_groups_and_sessions_with_ratios_to_the_first() -> None:
    arguments = ["--rounds", "1", "--joins", "20", "--probes", "20", "--messages", "200"]
    done = run_bench("groups", "--groups", "10,30", "--sessions", "2,4", *arguments)
    *rows, memory = [json.loads(line) for line in done.stdout.splitlines()]

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
    assert memory["rss_bytes"] >= memory["pss_bytes"] > 0
    assert [(one["what"], one["count"]) for one in memory["growths"]] == [("group", 30), ("session", 4)]


@pytest.mark.slow
def test_a_row_of_daemons_has_latencies_where_there_are_pairs_and_loses_nothing() -> None:
    done = run_bench("daemons", "--shapes", "1x2,2x1", "--seconds", "0.2", "--probes", "10", "--pace", "50")
    site, sites = [json.loads(line) for line in done.stdout.splitlines()]

    assert [(row["daemons"], row["sites"]) for row in (site, sites)] == [(2, 1), (2, 2)]
    assert (site["far"], sites["near"]) == (None, None)
    assert 0 < site["near"]["p50_ms"] <= site["near"]["p99_ms"]
    assert 0 < sites["far"]["p50_ms"] <= sites["far"]["p99_ms"]
    for row in (site, sites):
        assert row["together_s"] > 0
        assert row["rss_mb_each"] >= row["pss_mb_each"] > 0
        assert row["lost"] == 0


@pytest.mark.parametrize("shapes", ["3", "0x1", "27x1", "1x0", "axb", "1x2x3"])
def test_a_shape_is_a_number_of_sites_and_daemons(hop: Hop, shapes: str) -> None:
    assert hop("bench", "daemons", "--shapes", shapes).exit_code == 2


@pytest.mark.parametrize("patience", ["soon", "10ms"])
def test_the_timeout_is_a_duration_above_a_minimum(hop: Hop, patience: str) -> None:
    assert hop("bench", "daemons", "--patience", patience).exit_code == 2


def test_the_memory_of_a_process_is_its_own_and_what_it_shares() -> None:
    own, share, whole = [memory_bytes(os.getpid(), kind) for kind in ("Anonymous", "Pss", "Rss")]
    assert 0 < own <= whole
    assert 0 < share <= whole

    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(ProcessLookupError):
        memory_bytes(ended.pid, "Rss")


@pytest.mark.slow
def test_the_daemons_of_a_bench_end_with_it() -> None:
    with BenchDaemons() as daemons:
        assert daemons.cpu_seconds() > 0
        processes = list(daemons._processes.values())

    assert [process.returncode for process in processes] == [0, 0]


@pytest.mark.parametrize("counts", ["100,10", "0,1", "many", "1,1"])
def test_row_sizes_must_increase(hop: Hop, counts: str) -> None:
    assert hop("bench", "groups", "--groups", counts).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    [
        pytest.param([], marks=pytest.mark.long),
        pytest.param(["--bundle", "16"], marks=pytest.mark.long),
        pytest.param(["--by-one"], marks=pytest.mark.long),
        pytest.param(["--each", "--single"], marks=pytest.mark.long),
        ["--groups", "3", "--sites", "2", "--senders", "2"],
    ],
)
def test_a_short_flood_loses_nothing_and_has_one_order(wish: list[str]) -> None:
    figures = bench("throughput", "--daemons", "2", "--receivers", "2", "--seconds", "0.2", *wish)

    assert figures["messages_per_second"] > 0
    assert figures["sent"] > 0
    assert (figures["lost"], figures["order_ok"]) == (0, True)
    assert len(figures["daemon_cpu_us_per_message"]) == 2
    assert all(one > 0 for one in figures["daemon_cpu_us_per_message"].values())
    assert figures["sender_cpu_us_per_message"] > 0
    assert figures["receiver_cpu_us_per_message"] > 0


@pytest.mark.slow
def test_round_trips_are_of_answers_and_of_own_messages_also_beside_a_load() -> None:
    figures = bench("latency", "--daemons", "2", "--probes", "100", "--load", "200", "--service", "safe")

    assert 0 < figures["p50_us"] <= figures["p99_us"]
    assert figures["pong"]["probes"] == figures["own"]["probes"] == 100
    assert 0 < figures["own"]["p50_us"] <= figures["own"]["p99_us"]


@pytest.mark.slow
def test_a_killed_daemon_costs_no_message_of_the_others() -> None:
    figures = bench("failover", "--daemons", "2", "--seconds", "0.1")

    assert 0 < figures["view_ms"] <= figures["resumed_ms"]
    assert figures["rejoined_ms"] > 0
    assert (figures["lost"], figures["order_ok"]) == (0, True)


@pytest.mark.slow
def test_cpu_per_message_is_compared_with_a_baseline(
    hop: Hop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopring.bench.cpu.AGAIN", 1)
    known, recorded = tmp_path / "known.json", tmp_path / "recorded.json"
    ratios = {"sending_ratio": 0.001, "receiving_ratio": 1e6}
    known.write_text(json.dumps({"compiled": ratios, "interpreted": ratios}))
    short = ["--runs", "1", "--seconds", "0.2", "--idle-seconds", "0.1"]
    done = hop("bench", "cpu", *short, "--baseline", str(known), "--record", str(recorded))

    assert done.exit_code == 1
    assert "above the baseline 0.001; 30 % is the limit" in done.stderr
    assert "receiving_ratio" not in done.stderr
    ((_, figures),) = json.loads(recorded.read_text()).items()
    assert figures["sending_ratio"] > 0
    assert figures["receiving_ratio"] > 0


@pytest.mark.slow
def test_a_role_that_fails_is_reported_with_its_output() -> None:
    with BenchDaemons({"a": 1}) as daemons, pytest.raises(Failure, match="ended with 1") as caught:
        measure_throughput(daemons, BenchWorkload(service="sure", receivers=1), "g")

    assert "SURE" in caught.value.message


def test_a_bundle_goes_to_one_group(hop: Hop) -> None:
    assert hop("bench", "throughput", "--bundle", "8", "--groups", "2").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("throughput", "--seconds", "0.2"),
        pytest.param(("latency", "--probes", "100"), marks=pytest.mark.long),
        pytest.param(
            ("cpu", "--runs", "1", "--seconds", "0.2", "--idle-seconds", "0.1"), marks=pytest.mark.long
        ),
    ],
    ids=["throughput", "latency", "cpu"],
)
def test_a_bench_measures_in_the_clear_and_sealed(arguments: tuple[str, ...]) -> None:
    figures = bench(*arguments, "--sealed")

    assert figures["clear"].keys() == figures["sealed"].keys()
    assert figures["ratio"]


@pytest.mark.long
@pytest.mark.slow
def test_a_bench_measures_clients_in_the_clear_and_by_tls() -> None:
    figures = bench("throughput", "--seconds", "0.2", "--tls")

    assert figures["clear"].keys() == figures["tls"].keys()
    assert (figures["tls"]["lost"], figures["tls"]["order_ok"]) == (0, True)
    assert figures["tls"]["messages_per_second"] > 0
    assert figures["ratio"]["messages_per_second"] > 0


@pytest.mark.slow
def test_engines_are_measured_beside_each_other_and_lose_nothing() -> None:
    done = run_bench(
        *("engines", "--size", "1024", "--receivers", "2", "--service", "agreed"),
        *("--seconds", "0.2", "--probes", "100"),
    )
    assert done.returncode == 0, done.stderr
    flood, trip = [json.loads(line) for line in done.stdout.splitlines()]

    assert (flood["case"], flood["figure"]) == ("1 sender, 2 receivers, 1024 B", "messages_per_second")
    assert (trip["case"], trip["figure"]) == ("round trip of two, agreed", "p50_us")
    for row in (flood, trip):
        assert row["hop"] > 0
        assert row["rmp"] > 0
        assert row["lost"] == 0
        assert row["order_ok"]
    assert flood["rmp_cpu_us"] > 0
