"""What the verbs that ask a daemon share: a session that asks and goes, without a place in the order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from hopring.cli.at_daemon import talking
from hopring.client.blocking import Session, connect

Verb = TypeVar("Verb", bound=Callable[..., Any])


@contextmanager
def asking(url: str, name: str | None, seconds: float) -> Iterator[Session]:
    """A session for questions; its end needs no answer, so it is over at once even if no view comes about."""
    with talking():
        session = connect(url, name=name, membership=False, timeout_seconds=seconds, reconnect=False)
        try:
            yield session
        finally:
            session.abort()


def timeout_option(verb: Verb) -> Verb:
    """How long an answer may take."""
    return click.option(
        "--timeout",
        "seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=5.0,
        show_default=True,
        help="Time to wait for an answer.",
    )(verb)


def json_option(verb: Verb) -> Verb:
    """For scripts."""
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(verb)
