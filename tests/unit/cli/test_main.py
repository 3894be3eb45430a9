import subprocess
import sys

import click
import pytest
from tests.unit.cli.conftest import Hop

from hopring import __version__
from hopring.cli import main
from hopring.cli.main import COMMANDS, cli


def test_the_version_is_that_of_the_package(hop: Hop) -> None:
    result = hop("--version")

    assert (result.exit_code, result.stdout) == (0, f"hop, version {__version__}\n")


def test_help_lists_every_verb_with_a_line_on_it(hop: Hop) -> None:
    listed = hop("-h").stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()

    assert [line.split()[0] for line in listed] == list(COMMANDS)
    assert all(len(line.split()) > 3 for line in listed)


@pytest.mark.parametrize("arguments", [["fly"], ["routes"], ["routes", "--bad"], ["config", "fly"]])
def test_a_mistake_in_the_arguments_is_exit_code_2_and_a_message_on_stderr(
    hop: Hop, arguments: list[str]
) -> None:
    result = hop(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: hop" in result.stderr


def test_an_interrupt_is_exit_code_130_without_a_traceback(hop: Hop, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def wait() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.commands, "wait", wait)
    result = hop("wait")

    assert result.exit_code == 130
    assert (result.stdout, result.stderr) == ("", "hop: interrupted\n")


@pytest.mark.slow
def test_the_version_option_imports_no_verb() -> None:
    code = "import sys, hopring.cli.main; print([name for name in sys.modules if name.startswith('rich')])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == "[]\n"
    assert main.__doc__
