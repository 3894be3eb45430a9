"""What the verbs that talk to a daemon share: where it is, and how its errors end the command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from hopring.cli.exits import Exit, Failure
from hopring.client.errors import ConnectError, NameInUse, TimedOut
from hopring.client.url import URL_DEFAULT, parse_urls
from hopring.errors import HopError
from hopring.services import Service

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Unreachable(Failure):
    """There is no daemon, or it does not answer."""

    exit_code = int(Exit.UNREACHABLE)


class Late(Failure):
    """An answer did not come in time."""

    exit_code = int(Exit.TIMEOUT)


def checked_url(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The value of an option, if it is the address of a daemon."""
    try:
        if value is not None:
            parse_urls(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def at_daemon(verb: Verb) -> Verb:
    """The options that say which daemon, and under which name."""
    at = click.option(
        "--at",
        "url",
        metavar="URL",
        envvar="HOP_URL",
        default=URL_DEFAULT,
        show_default=True,
        show_envvar=True,
        callback=checked_url,
        help="The daemon: hop://host:port, or hop+unix:///path; several with commas, the first that answers.",
    )
    name = click.option("--name", metavar="NAME", help="Name of the session; without it, one is made up.")
    return at(name(verb))


def service_option(verb: Verb) -> Verb:
    """The option that names a service."""
    choice = click.Choice([service.name.lower() for service in Service], case_sensitive=False)
    return click.option(
        "--service", type=choice, default="agreed", show_default=True, help="Delivery service."
    )(verb)


@contextmanager
def talking() -> Iterator[None]:
    """Turns the library's errors into the ends of the command."""
    try:
        yield
    except NameInUse as error:
        raise Failure(str(error)) from None
    except ConnectError as error:
        raise Unreachable(str(error)) from None
    except TimedOut as error:
        raise Late(str(error)) from None
    except HopError as error:
        raise Failure(str(error)) from None
