"""`hop pub`: sends messages to a group."""

import sys
from collections.abc import Iterator

import click

from hopring.cli.at_daemon import at_daemon, service_option, talking
from hopring.cli.completion import group_names
from hopring.client.blocking import Session, connect
from hopring.client.calls import GOODBYE_SECONDS
from hopring.services import Service


@click.command()
@click.argument("group", shell_complete=group_names)
@click.argument("data")
@at_daemon
@service_option
@click.option(
    "--type",
    "message_type",
    type=click.IntRange(0, 0xFFFF),
    default=0,
    help="Message type: a number for the application, 0 without it.",
)
def pub(group: str, data: str, url: str, name: str | None, service: str, message_type: int) -> None:
    """Send DATA to GROUP; with - as DATA, each line of stdin.

    It ends when all messages have their place in the order, and warns on stderr if nobody was in GROUP at the
    place of the first. Unreliable messages have no such place.
    """
    with talking(), connect(url, name=name, membership=False, reconnect=False) as session:
        messages = _lines() if data == "-" else iter([data.encode()])
        promise = Service[service.upper()]
        first = None if promise.loose else next(messages, None)
        if first is not None:
            _send_first(session, group, first, promise, message_type)
        for message in messages:
            session.multicast(group, message, service=promise, type=message_type)


def _send_first(session: Session, group: str, message: bytes, service: Service, message_type: int) -> None:
    """Sends a message and waits for its receipt: to wait for that of each would make a long input slow."""
    receipt = session.multicast_wait(
        group, message, service=service, type=message_type, timeout_seconds=GOODBYE_SECONDS
    )
    if receipt.members == 0:
        click.echo(f"hop: nobody is in {group}; is it the right name? try `hop groups`", err=True)


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
