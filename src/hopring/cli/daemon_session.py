"""Options, sessions and errors that commands talking to a daemon share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from hopring.cli.terminal import Exit, Failure, say
from hopring.client.arguments import SECONDS_MAX, URL_DEFAULT, Reconnect, parse_url, parse_urls
from hopring.client.blocking import Session, connect
from hopring.client.errors import ConnectError, NameInUse, NotAllowed, NotPrimary, TimedOut
from hopring.client.events import Event, Reconnected
from hopring.credentials.files import CredentialError
from hopring.errors import HopError
from hopring.printable import printable
from hopring.services import Service

Command = TypeVar("Command", bound=Callable[..., Any])


LOOK_SECONDS: Final = 0.5
"""How often a command that waits for events checks its connection."""


class Unreachable(Failure):
    """No daemon is there, or it does not answer."""

    exit_code = int(Exit.UNREACHABLE)


class NotGranted(Failure):
    """The daemon does not grant this, or does not accept the credentials."""

    exit_code = int(Exit.AUTH)


class Parted(Failure):
    """The daemons' view is not primary."""

    exit_code = int(Exit.NOT_PRIMARY)


class Late(Failure):
    """An answer did not arrive in time."""

    exit_code = int(Exit.TIMEOUT)


def checked_url(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Option callback: the URL of a daemon, or BadParameter."""
    try:
        if value is not None:
            parse_urls(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return value


def at_daemon(command: Command) -> Command:
    """Adds the options --at, --name and --require, and those for TLS and credentials."""
    at = click.option(
        "--at",
        "url",
        metavar="URL",
        envvar="HOP_URL",
        default=URL_DEFAULT,
        show_default=True,
        show_envvar=True,
        callback=checked_url,
        help="Daemon: hops://host:port with --ca, hop://host:port or hop+unix:///path; "
        "of several, with commas, the first that answers. Without daemons: rmp://, see docs/peers.md.",
    )
    name = click.option("--name", metavar="NAME", help="Name of the session; by default one is generated.")
    require = click.option(
        "--require",
        type=click.Choice(["primary"]),
        expose_value=False,
        callback=_keep_identity,
        help="Only a daemon whose view is primary; exit code 5 if there is none.",
    )
    return at(name(require(identity_options(command))))


def identity_options(command: Command) -> Command:
    """Adds the options for TLS and credentials; `identity` returns their values."""
    texts = {
        "ca": "Certificate of the cluster's authority, for hops://: ca.crt of `hop keys`.",
        "user": "User at a daemon with grants; with --key.",
        "key": "File of the user's private key.",
        "token": "File with a token, instead of --user and --key.",
        "certificate": "File with a user's certificate and its key, for hops://, instead of --user and --key.",
    }
    for option, text in texts.items():
        command = click.option(
            f"--{option}",
            metavar="NAME" if option == "user" else "FILE",
            envvar=f"HOP_{option.upper()}",
            show_envvar=True,
            expose_value=False,
            callback=_keep_identity,
            help=text,
        )(command)
    return command


_IDENTITY: Final = "hopring.identity"


def _keep_identity(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    context.meta.setdefault(_IDENTITY, {})[parameter.name] = value


def identity() -> dict[str, Any]:
    """The arguments of `connect` for TLS, credentials and primary views, as the command line gives them."""
    context = click.get_current_context(silent=True)  # None while names are completed.
    return {} if context is None else dict(context.meta.get(_IDENTITY, {}))


def identity_at(url: str) -> dict[str, Any]:
    """The same for one of several daemons: a certificate is shown by TLS only."""
    given = identity()
    return given if parse_url(url).tls else given | {"certificate": None}


def service_option(command: Command) -> Command:
    """A decorator that adds the option --service."""
    choice = click.Choice([service.name.lower() for service in Service], case_sensitive=False)
    return click.option(
        "--service", type=choice, default="agreed", show_default=True, help="Delivery service."
    )(command)


@contextmanager
def client_errors() -> Iterator[None]:
    """Turns errors of the client library into exit codes of the command."""
    try:
        yield
    except NameInUse as error:
        raise Failure(printable(str(error))) from None
    except NotAllowed as error:
        raise NotGranted(printable(str(error))) from None
    except CredentialError:
        raise
    except NotPrimary as error:
        raise Parted(printable(str(error))) from None
    except ConnectError as error:
        raise Unreachable(printable(str(error))) from None
    except TimedOut as error:
        raise Late(printable(str(error))) from None
    except HopError as error:
        raise Failure(printable(str(error))) from None


@contextmanager
def query_session(url: str, name: str | None, seconds: float) -> Iterator[Session]:
    """A session for queries, aborted at the end: the command ends at once even without a view."""
    with client_errors():
        session = connect(
            url, name=name, membership=False, timeout_seconds=seconds, reconnect=False, **identity()
        )
        try:
            yield session
        finally:
            session.abort()


def timeout_option(command: Command) -> Command:
    """A decorator that adds the option --timeout."""
    return click.option(
        "--timeout",
        "seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=5.0,
        show_default=True,
        help="Time to wait for an answer.",
    )(command)


def json_option(command: Command) -> Command:
    """A decorator that adds the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")(command)


def give_up_option(default: float | None) -> Callable[[Command], Command]:
    """Adds the option --give-up: how long to reconnect; None is without end."""
    shown = f"{default:g}" if default is not None else "never"
    return click.option(
        "--give-up",
        "give_up_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, max=SECONDS_MAX),
        default=default,
        help=f"How long to try to reconnect when the connection is lost; 0 is not at all.  [default: {shown}]",
    )


def reconnect_of(give_up_seconds: float | None) -> Reconnect | bool:
    """The value of --give-up as the `reconnect` argument of `connect`."""
    if give_up_seconds == 0:
        return False
    return Reconnect(give_up_seconds=SECONDS_MAX if give_up_seconds is None else give_up_seconds)


class ConnectionWatch:
    """Reports on stderr when a session loses its connection and when it is back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told = False

    def look(self) -> None:
        """Reports a lost connection, once."""
        if not self._told and not self._session.connected and self._session.ended is None:
            self._told = True
            say(f"hop: the connection to {self._session.daemon} is lost; reconnecting", err=True)

    def back(self, event: Reconnected) -> None:
        """Reports the reconnection and what was missed."""
        self._told = False
        gap = event.gap
        seconds = gap.back_at_seconds - gap.lost_at_seconds
        text = f"connected again as {event.private_group} after {seconds:.1f} s ({gap.reason})"
        if event.groups:
            text += f"; messages sent to {', '.join(event.groups)} meanwhile are missing"
        if gap.in_doubt:
            text += f"; of the messages sent from here, the last {gap.in_doubt} may be lost"
        say(f"hop: {text}", err=True)


def events_of(session: Session, presence: ConnectionWatch) -> Iterator[Event]:
    """All events of a session; raises the error with which the session ends for good."""
    while True:
        try:
            event = session.receive(timeout_seconds=LOOK_SECONDS)
        except TimedOut:
            presence.look()
            continue
        if isinstance(event, Reconnected):
            presence.back(event)
        yield event
