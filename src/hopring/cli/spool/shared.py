"""What the verbs of `hop spool` share: where spools are, which of them, how their errors end the command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from hopring.cli.completion import spool_names
from hopring.cli.exits import Failure
from hopring.errors import HopError
from hopring.spool.layout import bases, directory_of, spools

Verb = TypeVar("Verb", bound=Callable[..., Any])


def spool_option(verb: Verb) -> Verb:
    """Where the spools are."""
    return click.option(
        "--spool",
        "root",
        metavar="DIR",
        envvar="HOP_SPOOL",
        show_envvar=True,
        required=True,
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory of the spools; each group has a directory in it.",
    )(verb)


def group_argument(verb: Verb) -> Verb:
    """Which spools; none means all."""
    return click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=spool_names)(verb)


def skip_option(verb: Verb) -> Verb:
    """For reading what is left of a damaged spool."""
    return click.option("--skip-damaged", is_flag=True, help="Pass over records that are damaged.")(verb)


def chosen(root: Path, groups: tuple[str, ...]) -> Iterator[Path]:
    """The directories of these groups, or of all."""
    if not groups:
        yield from spools(root)
        return
    for group in groups:
        directory = directory_of(root, group)
        bases(directory)  # NoSpool if there is none.
        yield directory


@contextmanager
def telling() -> Iterator[None]:
    """Turns errors of spools into the end of the command."""
    try:
        yield
    except HopError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        place = error.filename or "the spool"
        raise Failure(f"{place}: {error.strerror}; look at its rights and its disk") from None
