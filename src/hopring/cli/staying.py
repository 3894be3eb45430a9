"""For verbs that stay at a daemon: they come back after a loss, and say on stderr what they missed."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from hopring.client.arguments import SECONDS_MAX
from hopring.client.blocking import Session
from hopring.client.errors import TimedOut
from hopring.client.events import Event, Reconnected
from hopring.client.reconnect import Reconnect

LOOK_SECONDS: Final = 0.5
"""How often a verb that waits for events looks whether its connection is still there."""

Verb = TypeVar("Verb", bound=Callable[..., Any])


def give_up_option(default: float | None) -> Callable[[Verb], Verb]:
    """How long to try to come back after the connection is lost; None is always."""
    shown = f"{default:g}" if default is not None else "never"
    return click.option(
        "--give-up",
        "give_up_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, max=SECONDS_MAX),
        default=default,
        help=f"How long to try to come back when the connection is lost; 0 is not at all.  [default: {shown}]",
    )


def reconnect_of(give_up_seconds: float | None) -> Reconnect | bool:
    """The option as the library wants it."""
    if give_up_seconds == 0:
        return False
    return Reconnect(give_up_seconds=SECONDS_MAX if give_up_seconds is None else give_up_seconds)


class Presence:
    """Whether a session is connected, told on stderr when that changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told = False

    def look(self) -> None:
        """Tells if the connection is lost."""
        if not self._told and not self._session.connected and self._session.ended is None:
            self._told = True
            click.echo(f"hop: the connection to {self._session.daemon} is lost; trying to come back", err=True)

    def back(self, event: Reconnected) -> None:
        """Tells that it is there again, and what is missing."""
        self._told = False
        gap = event.gap
        seconds = gap.back_at_seconds - gap.lost_at_seconds
        text = f"connected again as {event.private_group} after {seconds:.1f} s ({gap.reason})"
        if event.groups:
            text += f"; what was sent to {', '.join(event.groups)} meanwhile is missing here"
        if gap.in_doubt:
            text += f"; of the messages sent from here, the last {gap.in_doubt} may be lost"
        click.echo(f"hop: {text}", err=True)


def events_of(session: Session, presence: Presence) -> Iterator[Event]:
    """All events, until the session ends for good, which is an error."""
    while True:
        try:
            event = session.receive(timeout_seconds=LOOK_SECONDS)
        except TimedOut:
            presence.look()
            continue
        if isinstance(event, Reconnected):
            presence.back(event)
        yield event
