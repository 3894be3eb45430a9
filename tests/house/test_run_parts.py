"""The runner of `make test`: whole outputs in their order, all parts, and the exit code."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
RUNNER = [sys.executable, str(ROOT / "tools" / "run_parts.py")]
SECONDS_MAX = 60.0
# Without what a `make test` around it says to its own parts.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
}

# `first` goes on until `second`, which runs beside it, has ended.
TARGETS = """
first:
\t@echo first begins; while ! test -e ended; do sleep 0.01; done; echo first ends
second:
\t@echo second begins; echo second says more >&2; touch ended
third:
\t@echo third
wrong:
\t@echo wrong begins; exit 3
endless:
\t@echo $$$$ > pid; exec sleep 1000
stubborn:
\t@trap "" INT TERM; sleep 1000 & echo $$! > child; echo $$$$ > pid; while true; do wait; done
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(TARGETS)
    return tmp_path


def run(directory: Path, *stages: str, minutes: float = 10) -> tuple[int, list[str]]:
    done = subprocess.run(
        [*RUNNER, "--minutes", str(minutes), *stages],
        cwd=directory,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    return done.returncode, [line for line in done.stdout.splitlines() if line]


def test_parts_of_a_stage_run_side_by_side_and_their_outputs_come_one_after_the_other(directory: Path) -> None:
    code, lines = run(directory, "first+second", "third")

    assert code == 0
    assert lines[:-4] == [
        "==== first",
        "first begins",
        "first ends",
        "==== second",
        "second begins",
        "second says more",
        "==== third",
        "third",
    ]
    assert [line.split()[2] for line in lines[-4:]] == ["first", "second", "third", "together"]


@pytest.mark.parametrize("stages", [("wrong", "third"), ("third+wrong",), ("wrong+third",)])
def test_a_part_that_fails_hides_no_other_and_the_exit_code_tells(
    directory: Path, stages: tuple[str, ...]
) -> None:
    code, lines = run(directory, *stages)

    assert code == 1
    assert "third" in lines
    assert [line.split()[2:] for line in lines[-3:-1] if "wrong" in line] == [["wrong", "FAILED"]]
    assert [line.split()[2:] for line in lines[-3:-1] if "third" in line] == [["third"]]


def test_an_unknown_part_fails(directory: Path) -> None:
    assert run(directory, "nothing")[0] == 1


def test_an_interrupt_ends_all_parts(directory: Path) -> None:
    with subprocess.Popen(
        [*RUNNER, "--minutes", "10", "endless+third"],
        cwd=directory,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as runner:
        until(lambda: (directory / "pid").exists() and (directory / "pid").read_text().endswith("\n"))
        os.killpg(runner.pid, signal.SIGINT)  # As a terminal does.
        runner.communicate(timeout=SECONDS_MAX)

    assert runner.returncode == 130
    assert not lives(directory / "pid")


def test_a_part_that_hangs_is_ended_with_what_it_started_and_the_others_are_run(directory: Path) -> None:
    code, lines = run(directory, "endless", "third", minutes=0.02)

    assert code == 1
    assert "third" in lines
    assert [line.split()[2:] for line in lines[-3:]] == [["endless", "TOO", "LATE"], ["third"], ["together"]]
    assert not lives(directory / "pid")


@pytest.mark.long
def test_a_part_that_ignores_signals_is_killed(directory: Path) -> None:
    code, lines = run(directory, "stubborn", minutes=0.02)

    assert code == 1
    assert lines[-2].split()[2:] == ["stubborn", "TOO", "LATE"]
    until(lambda: not lives(directory / "pid") and not lives(directory / "child"))


def lives(file: Path) -> bool:
    try:
        os.kill(int(file.read_text()), 0)
    except ProcessLookupError:
        return False
    return True
