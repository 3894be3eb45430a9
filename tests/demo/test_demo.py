"""The demonstration as users start it: one command, six more processes, a verdict, and no process left over."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring.demo.summary import LEFT_OUT, TRACE_FILE
from hopring.spool.files import spools
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordKind

HOP = [sys.executable, "-m", "hopring.cli.main"]
PATIENCE_SECONDS = 240


def daemons_of(directory: Path) -> list[int]:
    """The running daemons of the demonstration that uses this directory."""
    mark = str(directory / "hop.toml").encode()
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if mark in _command_line(entry)]


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""  # The process has ended meanwhile.


def wait_for(count: int, directory: Path) -> list[int]:
    """Waits until this number of daemons runs."""
    until(lambda: len(daemons_of(directory)) == count, lambda: daemons_of(directory), PATIENCE_SECONDS)
    return daemons_of(directory)


def hop(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*HOP, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)


def start(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*HOP, "demo", "--out", str(directory), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def messages_in(root: Path) -> int:
    """Counts the messages in all spools below a directory; one in both groups counts once."""
    found = {
        record.data  # A body begins with the message's name.
        for directory in spools(root)
        for record in read(directory, *bounds(directory))
        if record.header.kind is RecordKind.MESSAGE
    }
    return len(found)


def swap_two_deliveries(rows: list[dict[str, object]]) -> None:
    """Swaps two consecutive deliveries, from different senders, of one client's trace."""
    places = [at for at, row in enumerate(rows) if row["kind"] == "deliver" and "groups" in row]
    for one, other in pairwise(places):
        if rows[one]["process"] == rows[other]["process"] and rows[one]["sender"] != rows[other]["sender"]:
            rows[one], rows[other] = rows[other], rows[one]
            rows[one]["position"], rows[other]["position"] = rows[other]["position"], rows[one]["position"]
            return


def lose_a_delivery(rows: list[dict[str, object]]) -> None:
    """Removes the last delivery of one client's trace."""
    last = max(at for at, row in enumerate(rows) if row["kind"] == "deliver" and "groups" in row)
    del rows[last]


def shrink_a_view(rows: list[dict[str, object]]) -> None:
    """Removes a member from the last view of one daemon's trace."""
    views = [row for row in rows if row["kind"] == "view" and "group" not in row]
    members = views[-1]["members"]
    assert isinstance(members, list)
    views[-1]["members"] = [one for one in members if one != members[0]]


CORRUPTIONS = (swap_two_deliveries, lose_a_delivery, shrink_a_view)


@pytest.mark.slow
def test_the_demonstration_passes_its_checks_and_a_corrupted_trace_does_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--seconds-per-phase", "1", "--limit-seconds", "150", "--no-spark", "--json", "--out", out)
    done = hop("demo", *arguments)

    assert done.returncode == 0, done.stdout + done.stderr
    assert daemons_of(out) == []
    facts = json.loads(done.stdout)
    assert facts["ok"]
    assert facts["problems"] == []
    assert all(verdict["holds"] for judged in facts["judged"] for verdict in judged["verdicts"])
    assert [len(judged["verdicts"]) > 20 for judged in facts["judged"]] == [True, True]
    assert [judged["events"] > 1000 for judged in facts["judged"]] == [True, True]
    assert [set(change["seconds"]) for change in facts["changes"]] == [{"eu", "us ap"}, {"eu us ap"}]
    # Four of six daemons are a majority, and the two others are not.
    split, merge = [change["primary"] for change in facts["changes"]]
    assert (split, merge) == ({"eu": False, "us ap": True}, {"eu us ap": True})
    assert {(one["service"], one["phase"]) for one in facts["latencies"]} == {
        (service, phase) for service in ("agreed", "safe") for phase in ("together", "apart", "together again")
    }
    # A busy machine lengthens latencies, but they are never shorter than the delay of the wire.
    assert all(one["p99_ms"] > 80 for one in facts["latencies"] if len(one["sites"]) == 3)
    for one in facts["reached"]:
        if one["phase"] == "apart":
            elsewhere = [one["all_got"][site] for site in ("eu", "us", "ap") if site not in one["sites"]]
            assert (one["sent"] > 0, any(elsewhere)) == (True, False)
        if one["phase"] == "together again":
            assert set(one["all_got"].values()) == {one["sent"]}
    assert [len(one["last_view"]) for one in facts["clients"]] == [6] * 6
    assert (facts["report"], facts["pipeline"]) == (None, LEFT_OUT)
    sent = sum(one["sent"] for one in facts["clients"])
    spooled = {site: messages_in(Path(directory)) for site, directory in facts["spools"].items()}
    assert set(spooled) == {"eu", "us", "ap"}
    # While the sides were apart, a spooler has only the messages of its own side.
    assert all(0 < count < sent for count in spooled.values())
    assert spooled["us"] == spooled["ap"]

    file = Path(facts["trace"])
    assert file == out / TRACE_FILE
    assert hop("demo", "--judge", out).returncode == 0
    good = file.read_text()
    for corrupt in CORRUPTIONS:
        rows = [json.loads(line) for line in good.splitlines()]
        corrupt(rows)
        file.write_text("".join([json.dumps(row) + "\n" for row in rows]))
        judged = hop("demo", "--judge", out)

        assert judged.returncode == 1, corrupt.__doc__
        assert re.search(r"✗ (clients|daemons), EVS", judged.stdout), judged.stdout
    assert hop("demo", "--out", out).returncode == 1  # It does not overwrite existing files.


@pytest.mark.slow
def test_a_step_that_times_out_is_reported_and_is_a_failure(tmp_path: Path) -> None:
    done = hop("demo", "--limit-seconds", "1", "--no-spark", "--json", "--out", tmp_path)
    facts = json.loads(done.stdout)

    assert (done.returncode, facts["ok"]) == (1, False)
    assert "waited in vain until all clients have joined" in facts["problems"][0]
    assert daemons_of(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_no_daemon_outlives_the_demonstration_however_it_is_stopped(
    tmp_path: Path, number: int, code: int
) -> None:
    demo = start(tmp_path, "--no-spark", "--json")
    wait_for(6, tmp_path)
    os.kill(demo.pid, number)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)
    wait_for(0, tmp_path)

    assert demo.returncode == code
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.slow
def test_the_death_of_a_daemon_is_reported_and_ends_the_others(tmp_path: Path) -> None:
    demo = start(tmp_path, "--no-spark", "--json")
    os.kill(wait_for(6, tmp_path)[0], signal.SIGKILL)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)

    assert (demo.returncode, out) == (1, "")
    assert re.search(r"^hop: daemon \w+ ended with exit code -9", err, re.MULTILINE)
    assert daemons_of(tmp_path) == []


@pytest.mark.slow
def test_with_hold_the_cluster_stays_up_and_its_addresses_are_printed(tmp_path: Path) -> None:
    demo = start(tmp_path, "--hold", "--no-spark", "--seconds-per-phase", "0.5", "--limit-seconds", "150")
    assert demo.stderr is not None
    lines = []
    while "try `hop sub" not in (line := demo.stderr.readline()):
        assert line, "the demonstration ended early"
        lines.append(line)
    (url,) = [line.split()[-1] for line in lines if line.startswith("hop: us2 is at ")]
    published = hop("pub", "news", "hello", "--at", url)
    demo.send_signal(signal.SIGINT)
    out, err = demo.communicate(timeout=PATIENCE_SECONDS)

    assert published.returncode == 0
    assert demo.returncode == 0, err
    assert "✓ clients, EVS-C" in out
    assert daemons_of(tmp_path) == []


def test_a_directory_without_a_trace_is_an_error(tmp_path: Path) -> None:
    judged = hop("demo", "--judge", tmp_path)

    assert judged.returncode == 1
    assert "no trace of a demonstration" in judged.stderr
