"""The demonstration as users start it: a command, six more processes, and nothing left of them at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOP = [sys.executable, "-m", "hopring.cli.main"]
PATIENCE_SECONDS = 180


def nodes_of(directory: Path) -> list[int]:
    """The processes that run as nodes of the demonstration with this directory."""
    mark = str(directory / "hop.toml").encode()
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if mark in _command_line(entry)]


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""  # It is gone.


def wait_for(count: int, directory: Path) -> list[int]:
    """Waits until so many nodes run."""
    late_s = time.monotonic() + PATIENCE_SECONDS
    while len(nodes := nodes_of(directory)) != count:
        assert time.monotonic() < late_s, f"{len(nodes)} nodes, waited for {count}"
        time.sleep(0.05)
    return nodes


def start(directory: Path) -> "subprocess.Popen[str]":
    # A shell starts its background jobs with SIGINT ignored, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [*HOP, "demo", "--out", str(directory), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_the_demonstration_loses_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [*HOP, "demo", "--seconds-per-phase", "0.5", "--json", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["ok"]
    assert facts["total"]["received"] == facts["total"]["expected"] > 0
    assert (facts["total"]["lost"], facts["total"]["duplicates"]) == (0, 0)
    assert all(verdict["holds"] for verdict in facts["verdicts"])
    assert len(facts["verdicts"]) == 4
    # A busy machine makes latencies longer, never shorter than the wire.
    for phase in ("clean", "loss", "cut"):
        assert len(facts[phase]["latencies"]) == 4
        assert all(one["mean_ms"] > one["wire_ms"] for one in facts[phase]["latencies"])
    assert sum(link["lost"] for link in facts["loss"]["links"]) > 0
    assert facts["pruning"]["pruned_bytes"] < facts["pruning"]["wanted_bytes"]
    assert facts["cut"]["generation"] == 2 + len(facts["restarts"])
    assert facts["cut"]["noticed_ms"]
    assert next(one["wire_ms"] for one in facts["cut"]["latencies"] if one["between"] == ["eu", "ap"]) == 100
    assert nodes_of(tmp_path) == []

    trace = [json.loads(line) for line in Path(facts["trace"]).read_text().splitlines()]
    assert {event["event"] for event in trace} == {"ninit", "nmcast", "nreceive", "nlinkfailed"}
    assert [event["at_us"] for event in trace] == sorted(event["at_us"] for event in trace)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_however_it_is_stopped_no_node_outlives_it(tmp_path: Path, number: int, code: int) -> None:
    demo = start(tmp_path)
    wait_for(6, tmp_path)
    os.kill(demo.pid, number)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)
    wait_for(0, tmp_path)

    assert demo.returncode == code
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.slow
def test_the_death_of_a_daemon_is_told_and_ends_the_others(tmp_path: Path) -> None:
    demo = start(tmp_path)
    os.kill(wait_for(6, tmp_path)[0], signal.SIGKILL)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)

    assert (demo.returncode, out) == (1, "")
    assert re.search(r"^hop: daemon \w+ died with exit code -9$", err, re.MULTILINE)
    assert nodes_of(tmp_path) == []
