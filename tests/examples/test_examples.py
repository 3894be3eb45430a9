"""The programs in examples/, run as a user runs them, at real daemons."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring import sync
from hopring.spool.reading import bounds

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60.0

pytestmark = pytest.mark.slow


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a program that is ended with the block."""
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, *words], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    )
    # The end of the process ends the reading of its output, so nothing waits longer.
    alarm = threading.Timer(SECONDS_MAX, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.wait(SECONDS_MAX)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def example(name: str) -> str:
    return str(ROOT / "examples" / name)


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """The output of the program, up to the first line that contains this text."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = process.stdout.readline()
        assert line, f"the program ended: {lines}"
        lines.append(line.rstrip("\n"))
    return lines


@pytest.fixture(scope="module")
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster:
        yield cluster


def test_all_members_of_a_chat_see_the_same_lines(cluster: sync.Cluster) -> None:
    at = cluster.url("eu1"), cluster.url("us1")
    with (
        program(example("chat.py"), "lobby", "--name", "anna", "--at", at[0]) as anna,
        program(example("chat.py"), "lobby", "--name", "bob", "--at", at[1]) as bob,
    ):
        assert anna.stdin is not None
        assert bob.stdin is not None
        lines_until(anna, "in the room: anna bob")
        lines_until(bob, "in the room: anna bob")
        anna.stdin.write("hello\n")
        anna.stdin.flush()
        assert lines_until(anna, "hello") == lines_until(bob, "hello") == ["#anna#eu1: hello"]
        bob.stdin.close()
        assert lines_until(anna, "in the room: anna (")[-1] == "* in the room: anna (leave)"
        assert bob.wait(SECONDS_MAX) == 0


def test_a_watcher_reports_a_split_and_a_merge(cluster: sync.Cluster) -> None:
    with (
        program(example("watcher.py"), "trades", "--at", cluster.url("eu1")) as watcher,
        cluster.connect("us1", name="pricer") as session,
    ):
        lines_until(watcher, "view: #watcher#eu1 ")
        session.join("trades")
        lines_until(watcher, "view: #watcher#eu1 #pricer#us1")
        session.multicast_wait("trades", b"EURUSD 100")
        cluster.partition({"eu"}, {"us"})
        closing, split = lines_until(watcher, "split")
        cluster.heal()
        merged = lines_until(watcher, "merged")[-1]

    assert closing == "closing: #watcher#eu1 are certain to receive what follows"
    assert split == "view: #watcher#eu1 after 1 messages (network); split from #pricer#us1"
    assert "merged with #pricer#us1" in merged


def test_totals_of_a_spool_go_on_where_the_last_run_ended(cluster: sync.Cluster, tmp_path: Path) -> None:
    spools, result = tmp_path / "spools", tmp_path / "totals.json"
    spooler = ["-m", "hopring.cli.main", "spool", "run", "--group", "orders", "--sync", "0s", "--spool"]

    def totals() -> dict[str, object]:
        command = [sys.executable, example("spool_totals.py"), str(spools), "orders", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
        told: dict[str, object] = json.loads(done.stdout)
        return told["totals"] if isinstance(told["totals"], dict) else {}

    with (
        program(*spooler, str(spools), "--at", cluster.url("eu1")),
        cluster.connect("us1", name="pricer", membership=False) as session,
    ):
        until(lambda: len(session.members("orders").members) == 1)
        for sent, expected in (([b"EURUSD 100", b"USDJPY 7"], 2), ([b"EURUSD 11"], 3)):
            for body in sent:
                session.multicast_wait("orders", body)
            until(lambda: bounds(spools / "orders")[1] > expected)  # noqa: B023  Asked at once.
            seen = totals()

    assert seen == {"EURUSD": 111, "USDJPY": 7}


def test_all_servers_of_quotes_answer(cluster: sync.Cluster) -> None:
    at = cluster.url("eu1"), cluster.url("us1")
    script = example("quotes.py")
    with (
        program(script, at[0], "serve", "EURUSD=1.0842") as one,
        program(script, at[1], "serve", "EURUSD=1.0843") as other,
    ):
        lines_until(one, "ready")
        lines_until(other, "ready")
        with program(script, at[0], "ask", "EURUSD") as caller:
            found = lines_until(caller, "1.084") + lines_until(caller, "1.084")
        assert sorted(line.split()[1] for line in found) == ["1.0842", "1.0843"]
        with program(script, at[0], "ask", "EURCHF") as caller:
            lines_until(caller, "RequestFailed: a request to quotes failed at")
    assert len(Path(script).read_text().splitlines()) <= 30
