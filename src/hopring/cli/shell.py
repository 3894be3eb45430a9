"""`hop shell`: an interactive client that prints events as they arrive."""

import os
import select
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Final

import click

from hopring.cli.daemon_session import (
    ConnectionWatch,
    at_daemon,
    client_errors,
    give_up_option,
    identity,
    reconnect_of,
    timeout_option,
)
from hopring.cli.pubsub import as_line, names
from hopring.cli.terminal import Exit, say, say_payload
from hopring.client.blocking import Session, connect
from hopring.client.errors import MessageTooLarge, RequestRefused, TimedOut
from hopring.client.events import Event, Message, Reconnected
from hopring.services import Service

READ_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 1 << 20
GIVE_UP_SECONDS: Final = 120.0
DIAL_SECONDS: Final = 0.05
"""How often a shell without a connection checks whether to try again."""

HELP: Final = """\
join GROUP              become a member
leave GROUP
send GROUP[,..] TEXT    with the present service
service [NAME]          {services}
who GROUP               members of a group
groups                  all groups
view                    the daemons' view
me                      this session
quit                    or the end of the input; all that was asked for is done first""".format(
    services=", ".join(one.name.lower() for one in Service)
)


class CommandError(Exception):
    """An unknown command, or one that failed."""


class InteractiveShell:
    """One session and the commands on it."""

    def __init__(self, session: Session, seconds: float) -> None:
        self._session = session
        self._presence = ConnectionWatch(session)
        self._seconds = seconds
        self._service = Service.AGREED
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "join": self._join,
            "leave": self._leave,
            "send": self._send,
            "service": self._choose,
            "who": self._who,
            "groups": self._groups,
            "view": self._view,
            "me": self._me,
            "help": lambda _: click.echo(HELP),
        }

    def obey(self, line: str) -> None:
        """Runs one line of input."""
        name, _, rest = line.strip().partition(" ")
        if name not in self._commands:
            raise CommandError(f"{name}: unknown; help lists the commands")
        try:
            # Text is sent as it stands; names may be quoted.
            words = rest.strip().split(" ", 1) if name == "send" else shlex.split(rest)
            self._commands[name](words)
        except (RequestRefused, MessageTooLarge, TimedOut, ValueError) as error:
            raise CommandError(str(error)) from None

    def show_all(self) -> None:
        """Prints the events that have arrived; raises the error with which the session has ended."""
        while self._session.poll():
            self.show(self._session.receive())
        self._presence.look()
        if self._session.ended is not None:
            raise self._session.ended

    def show(self, event: Event) -> None:
        """Prints an event; a reconnection goes to stderr, because it is no event of a group."""
        if isinstance(event, Reconnected):
            self._presence.back(event)
        else:
            show_line(event)

    def _join(self, words: list[str]) -> None:
        self._session.join(_one(words, "join GROUP"), timeout_seconds=self._seconds)

    def _leave(self, words: list[str]) -> None:
        self._session.leave(_one(words, "leave GROUP"), timeout_seconds=self._seconds)

    def _send(self, words: list[str]) -> None:
        if len(words) != 2:
            raise CommandError("send GROUP[,GROUP..] TEXT")
        groups, data = words[0].split(","), words[1].encode()
        self._session.multicast(groups, data, service=self._service, timeout_seconds=self._seconds)

    def _choose(self, words: list[str]) -> None:
        if words:
            try:
                self._service = Service[_one(words, "service NAME").upper()]
            except KeyError:
                names = ", ".join(one.name.lower() for one in Service)
                raise CommandError(f"{words[0]}: choose one of {names}") from None
        say(f"service {self._service.name.lower()}")

    def _who(self, words: list[str]) -> None:
        found = self._session.members(_one(words, "who GROUP"), timeout_seconds=self._seconds)
        say(f"{found.group}: {names(found.members) or 'nobody'}")

    def _groups(self, _words: list[str]) -> None:
        found = self._session.groups(timeout_seconds=self._seconds)
        for one in found:
            say(f"{one.name}: {one.members} members, {one.here} here")
        if not found:
            say("no groups")

    def _view(self, _words: list[str]) -> None:
        view = self._session.view(timeout_seconds=self._seconds)
        say(f"view {view.text}: {' '.join(view.members)} for {view.age_seconds:.1f} s ({view.cause})")

    def _me(self, _words: list[str]) -> None:
        say(f"{self._session.private_group} at {self._session.daemon}")


@click.command()
@at_daemon
@timeout_option
@give_up_option(GIVE_UP_SECONDS)
@click.pass_context
def shell(
    context: click.Context, url: str, name: str | None, seconds: float, give_up_seconds: float | None
) -> None:
    """Join, leave, send and query interactively; events are printed as they arrive. `help` lists the commands.

    When the connection is lost, the shell reconnects, joins its groups again, and reports for how long messages
    are missing. Commands may also come from a file or a pipe; then exit code 1 means that one of them failed.
    """
    typed = sys.stdin.isatty()
    failed = False
    reconnect = reconnect_of(give_up_seconds)
    with (
        client_errors(),
        connect(url, name=name, timeout_seconds=seconds, reconnect=reconnect, **identity()) as session,
    ):
        one = InteractiveShell(session, seconds)
        say(f"hop: {session.private_group} at {session.daemon}; help lists the commands", err=True)
        for line in _lines(session, one.show_all, typed):
            if line.strip() in ("quit", "exit"):
                break
            try:
                if line.strip():
                    one.obey(line)
            except CommandError as wrong:
                failed = True
                say(f"hop: {wrong}", err=True)
            one.show_all()
        session.close()
        for event in session:
            one.show(event)
    if failed and not typed:
        context.exit(Exit.FAILURE)


def _lines(session: Session, show: Callable[[], None], typed: bool) -> Iterator[str]:
    """Lines of the input; events of the daemon are printed while it waits for them."""
    rest = b""
    while True:
        if typed:
            click.echo("> ", nl=False, err=True)
        while b"\n" not in rest:
            # Without a connection there is nothing to select; `show` reads the session, which reconnects.
            connected = session.connected
            watched = [sys.stdin, session] if connected else [sys.stdin]
            ready, _, _ = select.select(watched, [], [], None if connected else DIAL_SECONDS)
            if session in ready or not connected:
                show()
            if sys.stdin in ready:
                chunk = os.read(sys.stdin.fileno(), READ_BYTES)
                if not chunk or len(rest) > LINE_BYTES_MAX:
                    yield from [rest.decode(errors="replace")] if rest else []
                    return
                rest += chunk
        line, _, rest = rest.partition(b"\n")
        yield line.decode(errors="replace")


def show_line(event: Event) -> None:
    """Prints an event as one line of text; of a message also its groups, sender and service."""
    if isinstance(event, Message):
        head = f"{','.join(event.groups)} {event.sender} [{event.service.name.lower()}] "
        say_payload(event.data, head)
    else:
        say(as_line(event))


def _one(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise CommandError(usage)
    return words[0]
