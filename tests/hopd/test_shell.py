"""`hop shell` with real daemons, from a pipe and at a terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port

from hopring import sync
from hopring.config import local_config

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    with alone(config, tmp_path, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        yield f"hop://127.0.0.1:{config.daemons[0].client_port}"


def shell(url: str, *lines: str) -> tuple[int, list[str], str]:
    command = [sys.executable, "-m", "hopring.cli.main", "shell", "--at", url, "--name", "anna"]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_commands_from_a_pipe_are_carried_out_and_all_events_are_shown(url: str) -> None:
    code, lines, said = shell(
        url, "join trades", "send trades hello  world", "service safe", "send trades safely", "who trades"
    )

    assert code == 0
    assert "#anna#eu1 at eu1" in said
    assert [line for line in lines if line.startswith("trades #")] == [
        "trades #anna#eu1 [agreed] hello  world",
        "trades #anna#eu1 [safe] safely",
    ]
    assert lines[0] == "-- view of trades: #anna#eu1 (join of #anna#eu1)"
    assert "trades: #anna#eu1" in lines


def test_the_shell_lists_groups_members_and_the_view(url: str) -> None:
    code, lines, _ = shell(
        url, "groups", "join a", "join 'b c'", "groups", "leave a", "who a", "me", "view", "help", "quit", "me"
    )

    assert code == 0
    text = "\n".join(lines)
    assert lines[0] == "no groups"
    assert "a: 1 members, 1 here\nb c: 1 members, 1 here" in text
    assert "a: nobody" in text
    assert lines.count("#anna#eu1 at eu1") == 1, "input after quit was read"
    assert any(line.startswith("view ") and ": eu1 for " in line for line in lines)


def test_an_error_is_reported_and_the_remaining_commands_are_carried_out(url: str) -> None:
    code, lines, said = shell(
        url, "jion g", "join", "leave g", "send g", "service best", "join 'x", "join #p", "join g", "send g x"
    )

    assert code == 1
    for text in ("jion: unknown", "hop: join GROUP", "not a member", "send GROUP[,", "best: choose one of"):
        assert text in said
    assert "illegal group" in said
    assert "g #anna#eu1 [agreed] x" in lines


def test_the_shell_ends_when_its_daemon_ends(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    command = [sys.executable, "-m", "hopring.cli.main", "shell", "--give-up", "0"]
    command += ["--at", f"hop://127.0.0.1:{config.daemons[0].client_port}"]
    with alone(config, tmp_path, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert "help lists" in process.stderr.readline()
    try:
        assert process.wait(SECONDS_MAX) == 1
        assert "the daemon ends" in process.stderr.read()
    finally:
        process.kill()
        process.communicate()


def test_an_unreachable_daemon_is_exit_code_3() -> None:
    assert shell(f"hop://127.0.0.1:{free_base_port(1)}", "me")[0] == 3


def test_at_a_terminal_events_are_shown_while_nothing_is_typed(url: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hopring.cli.main", "shell", "--at", url, "--name", "anna"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        end = time.monotonic() + SECONDS_MAX
        while text not in seen:
            assert time.monotonic() < end, seen
            if select.select([ours], [], [], 0.2)[0]:
                seen += os.read(ours, 4096).decode()

    try:
        until("> ")
        os.write(ours, b"join g\n")
        until("-- view of g: #anna#eu1")
        with sync.connect(url, name="bert") as bert:
            bert.multicast("g", b"good morning")
            until("g #bert#eu1 [agreed] good morning")
        os.write(ours, b"quit\n")
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
