"""Each command with wrong input: the cause and a remedy, the documented exit code, no traceback."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.unit.cli.conftest import Hop

from hopring.cli.main import COMMANDS, cli
from hopring.cli.terminal import Exit

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
NOBODY = "hop://127.0.0.1:1"
START = "start hopd there, or correct the address"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of wrong kinds."""
    (tmp_path / "bad.toml").write_text("sites = [")
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\0")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "dir").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("HOP_URL", "HOP_ADMIN", "HOP_SPOOL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        ("monit", 2, "did you mean monitor?"),
        ("xyzzy", 2, "`hop --help` lists the commands"),
        ("config check none.toml", 7, "check the path and its permissions"),
        ("config check bad.toml", 7, "correct the syntax"),
        ("config check bytes", 7, "save the file as UTF-8"),
        ("config check dir", 7, "check the path and its permissions"),
        ("config check empty", 7, "describe at least one"),
        ("config import-spread none", 7, "check the path and its permissions"),
        ("config import-spread text", 7, "give a configuration of Spread"),
        ("routes none.toml", 7, "check the path and its permissions"),
        ("doctor none.toml", 7, "check the path and its permissions"),
        (f"pub g d --at {NOBODY}", 3, START),
        (f"sub g --at {NOBODY}", 3, START),
        (f"groups --at {NOBODY}", 3, START),
        (f"members g --at {NOBODY}", 3, START),
        (f"view --at {NOBODY}", 3, START),
        (f"shell --at {NOBODY}", 3, START),
        ("groups --at hop+unix:///none/sock", 3, START),
        ("groups --at hop+unix://{place}/text", 3, START),
        ("groups --at http://x", 2, "write hop://host:port, hops://host:port, hop+unix:///path or rmp://"),
        ("groups --at hop://localhost:many", 2, "write hop://host:port"),
        ("groups --at hop://localhost:70000", 2, "write hop://host:port"),
        ("monitor --admin none status", 3, "`socket` of [admin]"),
        ("monitor --admin dir status", 3, "`socket` of [admin]"),
        ("monitor --admin text status", 3, "name another one with --admin"),
        ("monitor --admin none.admin heal", 3, "name another one with --admin"),
        ("up --sites eu=0", 2, "write it as eu=2,us=2"),
        ("up --sites eu --link eu-us=4ms", 2, "write eu-us=40ms"),
        ("bench daemons --shapes 3", 2, "as 1x3,2x3"),
        ("bench cpu --baseline text", 1, "make one with --record"),
        ("bench cpu --record none/file", 2, "choose another file"),
        ("demo --judge dir", 1, "give the directory of `hop demo --out`"),
        ("demo --out text", 2, "is a file"),
        ("sim --bug none", 2, "hop sim --bugs lists them"),
        ("trace draw none", 1, "check the path"),
        ("trace draw text", 1, "give a file of `hopd --trace`"),
        ("trace draw empty", 1, "give a file of `hopd --trace`"),
        ("trace draw bytes", 1, "give a file of `hopd --trace`"),
        ("spool ls", 2, "--spool"),
        ("spool ls --spool none", 1, "name the root of spools"),
        ("spool verify --spool none", 1, "name the root of spools"),
        ("spool archive --spool none", 1, "name the root of spools"),
        ("spool replay g --spool dir", 1, "list the spools with `hop spool ls`"),
        (f"spool run --group g --spool dir --at {NOBODY}", 3, START),
        ("pipeline run --out dir", 2, "give --spool, --trace or both"),
        ("pipeline run --trace none --out dir", 1, "give a directory of traces"),
        ("pipeline audit --trace none", 1, "give a directory of traces"),
        ("pipeline audit --trace text", 1, "give a directory of traces"),
        ("completion tcsh", 2, "'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_input_has_a_remedy_and_an_exit_code(
    hop: Hop, place: Path, arguments: str, code: int, remedy: str
) -> None:
    if arguments.startswith("pipeline") and code == 1:
        pytest.importorskip("pyspark")
    result = hop(*arguments.format(place=place).split())

    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert (result.exit_code, result.stdout) == (code, "")
    assert remedy in " ".join(result.stderr.split())


def test_a_disk_that_is_full_is_an_error_with_a_remedy_and_no_traceback() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "hopring.cli.main", "config", "example"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith(f"hop: the output: {os.strerror(errno.ENOSPC)}; check the path")
    assert "Traceback" not in done.stderr


def test_a_closed_stdout_causes_no_message() -> None:
    command = f"{sys.executable} -m hopring.cli.main config example | true"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)

    assert done.stderr == ""


def test_the_page_has_every_command_and_every_exit_code(hop: Hop) -> None:
    assert all(f"`hop {verb}`" in PAGE for verb in COMMANDS)
    assert all(f"\n| {int(code)} | " in PAGE for code in Exit)
    epilog = " ".join(hop("--help").stdout.split("Exit codes:")[1].split())
    assert all(f"{int(code)} " in epilog for code in Exit)


def _commands(
    command: click.Command, arguments: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(arguments, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            found += _commands(below, (*arguments, name))
    return found


def test_every_command_has_help_and_every_option_says_what_it_is_for() -> None:
    silent = []
    for arguments, command in _commands(cli):
        assert command.help, arguments
        for option in command.params:
            if isinstance(option, click.Option) and not option.help:
                silent.append(f"{' '.join(arguments)} {option.opts[0]}")

    assert silent == []


def test_json_that_is_not_a_baseline_is_refused_before_anything_is_measured(hop: Hop, place: Path) -> None:
    (place / "list.json").write_text(json.dumps([1]))
    result = hop("bench", "cpu", "--baseline", "list.json")

    assert (result.exit_code, "starting" in result.stderr) == (1, False)
