"""Progress on stderr: plain lines, or a line that is redrawn on a terminal; results stay on stdout."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hopring.cli.progress import Amounts
from hopring.ids import Place
from hopring.services import Service
from hopring.spool.archive import archive, waiting_bytes
from hopring.spool.files import log_path
from hopring.spool.record import NO_VIEW, RecordHeader, RecordKind, run_of
from hopring.spool.verify import log_bytes, verify
from hopring.spool.writer import SpoolOptions, SpoolWriter

SHORT = ["--daemons", "1", "--receivers", "1", "--seconds", "0.1", "--json"]
SECONDS_MAX = 100


def hop_on_terminal(*arguments: str) -> tuple[str, str]:
    """Runs `hop` with stderr on a terminal and stdout in a pipe; returns both as text."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "hopring.cli.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                drawn += os.read(ours, 1 << 16)
            except OSError:  # The other end is closed.
                break
        assert process.stdout is not None
        told = process.stdout.read().decode()
        assert process.wait(SECONDS_MAX) == 0, drawn
    os.close(ours)
    return told, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn.decode())


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A spool with five messages in two sealed segments and an open one."""
    header = RecordHeader(
        RecordKind.MESSAGE, 1_700_000_000_000_000, "#a#eu1", ("g",), Service.SAFE, Place(NO_VIEW, 9, 1)
    )
    with SpoolWriter(tmp_path, "g", SpoolOptions(segment_bytes=1)) as writer:
        writer.append([run_of(header, [b"one", b"two"])])
        writer.append([run_of(header, [b"three", b"four"])])
        writer.append([run_of(header, [b"five"])])
    return tmp_path


@pytest.mark.slow
def test_without_a_terminal_a_bench_prints_a_line_per_step() -> None:
    command = [sys.executable, "-m", "hopring.cli.main", "bench", "throughput", *SHORT, "--runs", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)

    lines = done.stderr.splitlines()
    assert lines[0] == "hop: starting 1 daemon, until all are in one view"
    assert "hop: run 2 of 2: measuring for 0.1 s" in lines
    assert json.loads(done.stdout)["bench"] == "throughput"


@pytest.mark.slow
def test_a_bench_redraws_a_line_on_a_terminal_and_its_figures_stay_on_stdout() -> None:
    told, drawn = hop_on_terminal("bench", "throughput", *SHORT)

    assert json.loads(told)["lost"] == 0
    assert "starting 1 daemon, until all are in one view" in drawn
    assert "warming up" in drawn
    assert "hop: " not in drawn


@pytest.mark.slow
def test_result_rows_stay_on_stdout() -> None:
    shapes = ["--shapes", "1x1", "--seconds", "0.1", "--probes", "10", "--pace", "50"]
    told, drawn = hop_on_terminal("bench", "daemons", *shapes, "--json")

    assert json.loads(told)["daemons"] == 1
    assert "1x1: starting 1 daemon" in drawn


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "word"), [("verify", "verifying"), ("archive", "archiving")])
def test_a_spool_verb_shows_the_amount_that_is_done_on_a_terminal(filled: Path, verb: str, word: str) -> None:
    pytest.importorskip("pyarrow")
    told, drawn = hop_on_terminal("spool", verb, "--spool", str(filled))

    assert "g" in told
    assert word in drawn
    assert re.search(r"\d of \d.* MB, \d records", drawn)


def test_amounts_are_lines_with_total_records_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    with Amounts("verifying", 4_000_000, plain_every_s=0.0) as amounts:
        amounts.done(1_000_000, 10)
        amounts.done(3_000_000, 5)

    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("hop: verifying: 1.0 of 4.0 MB, 10 records")
    assert last.startswith("hop: verifying: 4.0 of 4.0 MB, 15 records")
    assert last.endswith(" MB/s")


def test_without_a_terminal_a_short_task_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Amounts("verifying", 100) as amounts:
        amounts.done(100, 1)

    assert capsys.readouterr().err == ""


def test_verify_reports_every_byte_and_record_even_of_damaged_segments(filled: Path) -> None:
    seen: list[tuple[int, int]] = []
    verify(filled / "g", lambda *some: seen.append(some))
    assert sum(some for some, _ in seen) == log_bytes(filled / "g") > 0
    assert sum(records for _, records in seen) == 5

    log = log_path(filled / "g", 2)
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    log_path(filled / "g", 0).write_bytes(b"no segment at all")
    seen.clear()
    verify(filled / "g", lambda *some: seen.append(some))
    assert sum(some for some, _ in seen) == log_bytes(filled / "g") > 0
    assert sum(records for _, records in seen) == 1


def test_archive_reports_every_byte_and_record_of_sealed_segments(filled: Path) -> None:
    pytest.importorskip("pyarrow")
    seen: list[tuple[int, int]] = []
    total_bytes = waiting_bytes(filled / "g")
    list(archive(filled / "g", progress=lambda *some: seen.append(some)))

    assert sum(some for some, _ in seen) == total_bytes > 0
    assert sum(records for _, records in seen) == 4
    assert waiting_bytes(filled / "g") == 0
