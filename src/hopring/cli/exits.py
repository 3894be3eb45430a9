"""How the command ends: one number per kind of failure, and an error that carries it."""

from enum import IntEnum

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

    def __init__(self, message: str, code: Exit = Exit.FAILURE) -> None:
        super().__init__(message)
        self.exit_code = int(code)

    def show(self, file: object = None) -> None:
        """Says what is wrong, on stderr."""
        click.echo(f"hop: {self.message}", err=True)
