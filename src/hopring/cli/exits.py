"""Exit codes of the command, and the exceptions that carry them."""

from enum import IntEnum
from typing import IO

import click


class Exit(IntEnum):
    """Exit codes; scripts may rely on them."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    TIMEOUT = 4
    AUTH = 6
    BAD_CONFIGURATION = 7
    INTERRUPTED = 130


class Failure(click.ClickException):
    """Ends the command with a message for people and a code for scripts."""

    exit_code = int(Exit.FAILURE)

    def show(self, file: IO[str] | None = None) -> None:
        """Prints the message on stderr."""
        click.echo(f"hop: {self.message}", file, err=True)


class BadConfiguration(Failure):
    """A configuration that cannot be used; the message names the place and the remedy."""

    exit_code = int(Exit.BAD_CONFIGURATION)
