"""The terminal side of a command: exit codes, the exceptions that carry them, questions, lines for people."""

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import IO, Any, TypeVar

import click

from hopring.printable import printable

Command = TypeVar("Command", bound=Callable[..., Any])


class Exit(IntEnum):
    """Exit codes; scripts may rely on them."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMEOUT = 4
    NOT_PRIMARY = 5
    AUTH = 6
    BAD_CONFIGURATION = 7
    INTERRUPTED = 130


class Failure(click.ClickException):
    """Ends the command with a message for people and a code for scripts."""

    exit_code = int(Exit.FAILURE)

    def show(self, file: IO[str] | None = None) -> None:
        """Prints the message on stderr."""
        click.echo(printable(f"hop: {self.message}", keep="\n"), file, err=True)


class BadConfiguration(Failure):
    """A configuration that cannot be used; the message names the place and the remedy."""

    exit_code = int(Exit.BAD_CONFIGURATION)


def yes_option(command: Command) -> Command:
    """A decorator that adds the option --yes."""
    return click.option("--yes", is_flag=True, help="Do not ask; required if stdin is not a terminal.")(command)


def confirm(what: str, yes: bool) -> None:
    """Asks for confirmation on a terminal; elsewhere --yes is required. Nothing has been done before."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"to {what} needs --yes if stdin is not a terminal; nothing was done")
    if not click.confirm(printable(f"hop: {what}?"), err=True):
        raise Failure("nothing was done")


def say(line: str, *, err: bool = False) -> None:
    """Prints a line for people; characters that a terminal would obey are escaped."""
    click.echo(printable(line), err=err)


def say_lines(text: str, *, err: bool = False) -> None:
    """Prints several lines for people, like `say`; names within them have to be escaped before."""
    click.echo(printable(text, keep="\n"), err=err)


def is_terminal() -> bool:
    """Whether results are shown to people and not read by a program."""
    return sys.stdout.isatty()


def say_payload(data: bytes, before: str = "") -> None:
    """Prints the body of a message as a line of text: escaped on a terminal, elsewhere as it is."""
    text = data.decode(errors="replace")
    if is_terminal():
        say(before + text)
    else:
        # The colour argument keeps click from removing escape sequences.
        click.echo(printable(before) + text, color=True)
