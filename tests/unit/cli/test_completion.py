"""`hop completion`: its script in a real shell, and completions that need no daemon."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.unit.cli.conftest import Hop

from hopring.cli.completion import SHELLS
from hopring.cli.main import cli
from hopring.spool.writer import SpoolOptions, SpoolWriter

BASH = Path("/bin/bash")


def complete(*arguments: str) -> list[str]:
    """The completions that the shell offers for the last argument."""
    *before, last = arguments
    return [one.value for one in ShellComplete(cli, {}, "hop", "_HOP_COMPLETE").get_completions(before, last)]


def typed_in_bash(directory: Path, typed: str, until: str) -> str:
    """Types into an interactive bash that has loaded the script; returns the text on its terminal."""
    command = directory / "hop"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hopring.cli.main "$@"\n')
    command.chmod(0o755)
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "PS1": "$ ", "TERM": "dumb", "HOME": str(directory)}
    environment |= {key: value for key, value in os.environ.items() if key.startswith(("PYTHON", "HOPRING"))}
    ours, theirs = pty.openpty()
    arguments = [str(BASH), "--norc", "--noprofile", "-i"]
    with subprocess.Popen(
        arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as shell:
        os.close(theirs)
        os.write(ours, f'eval "$(hop completion bash)"\n{typed}\nexit\n'.encode())
        seen = b""
        while True:
            try:
                seen += os.read(ours, 1 << 16)
            except OSError:  # The shell has ended.
                break
        shell.wait(60)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", seen.decode(errors="replace"))
    assert until in text, text
    return text


@pytest.mark.slow
@pytest.mark.skipif(not BASH.exists(), reason="there is no bash here")
def test_bash_completes_a_command_and_then_its_verb(tmp_path: Path) -> None:
    # The typed text is no command unless the tabs complete it.
    text = typed_in_bash(tmp_path, "hop mon\tpart\t--help", "Usage: hop monitor partition")

    assert "hop monitor partition --help" in text


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(hop: Hop, shell: str) -> None:
    shown = hop("completion", shell)

    assert shown.exit_code == 0
    assert f"_HOP_COMPLETE={shell}_complete" in shown.stdout


def test_without_a_name_the_shell_is_that_of_the_environment(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/local/bin/fish")
    assert "_HOP_COMPLETE=fish_complete" in hop("completion").stdout

    monkeypatch.setenv("SHELL", "/bin/ksh")
    assert (hop("completion").exit_code, "name one of bash, zsh, fish" in hop("completion").stderr) == (2, True)
    monkeypatch.delenv("SHELL")
    assert "$SHELL is not set" in hop("completion").stderr


def test_sites_come_from_the_file_that_is_named(triangle: Path) -> None:
    assert complete("routes", str(triangle), "--from", "") == ["ap", "eu", "us"]
    assert complete("routes", str(triangle), "--from", "e") == ["eu"]
    assert complete("routes", "/nowhere/hop.toml", "--from", "") == []


def test_spools_come_from_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in ("trades", "news"):
        SpoolWriter(tmp_path, group, SpoolOptions()).close()

    assert complete("spool", "verify", "--spool", str(tmp_path), "") == ["news", "trades"]
    monkeypatch.setenv("HOP_SPOOL", str(tmp_path))
    assert complete("spool", "replay", "t") == ["trades"]
    monkeypatch.setenv("HOP_SPOOL", "/nowhere")
    assert complete("spool", "replay", "t") == []


def test_where_no_daemon_answers_there_are_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not the default port, at which a daemon of another test may answer.
    monkeypatch.setenv("HOP_URL", f"hop+unix://{tmp_path}/none")
    assert complete("sub", "--at", f"hop+unix://{tmp_path}/none", "") == []
    assert complete("pub", "--at", "nonsense", "") == []
    assert complete("monitor", "--admin", str(tmp_path), "terminate", "") == []
