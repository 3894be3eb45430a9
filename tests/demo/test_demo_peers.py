"""The demonstration with peers, as users start it: a split with a majority, and a verdict on the traces."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import until

HOP = [sys.executable, "-m", "hopring.cli.main"]
PATIENCE_SECONDS = 120

pytestmark = pytest.mark.slow


def hop(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*HOP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def peers_of(directory: Path) -> list[int]:
    """The running peers that write traces to this directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # The process has ended meanwhile.
        if b"hopring.peer.child" in line and os.fsencode(directory) in line:
            found.append(int(entry.name))
    return found


def test_three_go_on_two_are_suspended_and_come_back_and_all_traces_keep_the_promises(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    ended = hop("demo", "--engine", "rmp", "--seconds-per-phase", "0.5", "--json", "--out", directory)
    facts = json.loads(ended.stdout)
    assert (ended.returncode, facts["ok"], facts["broken"], facts["problems"]) == (0, True, {}, [])
    assert facts["seconds"] < 60
    assert facts["held"] > 30
    assert facts["deliveries"] > facts["messages"] > 50
    assert facts["split_seconds"] is not None
    assert facts["suspended_seconds"] is not None
    assert facts["healed_seconds"] is not None
    assert len(list(directory.glob("p*.jsonl"))) == 5
    until(lambda: not peers_of(directory))
    assert hop("demo", "--judge", directory).returncode == 0

    # The same traces with one place changed are no history of rings.
    trace = directory / "p2.jsonl"
    lines = trace.read_text().splitlines()
    at = [number for number, line in enumerate(lines) if '"kind":"DataShown"' in line][10]
    row = json.loads(lines[at])
    row["event"]["timestamp"] = max(1, row["event"]["timestamp"] - 3)
    lines[at] = json.dumps(row)
    trace.write_text("\n".join(lines) + "\n")
    again = hop("demo", "--judge", directory)
    assert (again.returncode, "is broken" in again.stdout) == (1, True)
