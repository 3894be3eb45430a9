"""`hop pub`: sends messages to a group."""

import sys
from collections.abc import Iterator

import click

from hopring.cli.at_daemon import at_daemon, service_option, talking
from hopring.cli.completion import group_names
from hopring.client.blocking import connect
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

    It ends when all messages have their place in the order.
    """
    with talking(), connect(url, name=name, membership=False, reconnect=False) as session:
        for message in _lines() if data == "-" else [data.encode()]:
            session.multicast(group, message, service=Service[service.upper()], type=message_type)


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
