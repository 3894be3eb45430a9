"""The table of the commands of `hop wide`."""

from typing import Final

import click

from hopring.cli.wide.demo import demo
from hopring.cli.wide.running import run
from hopring.cli.wide.showing import check, links, sets, spools, status
from hopring.cli.wide.talking import link, put, send, sub
from hopring.cli.wide.up import up

COMMANDS: Final = (up, run, status, links, link, sets, spools, send, put, sub, check, demo)


@click.group()
def wide() -> None:
    """Join independent clusters: messages between them wait for links that live for minutes, or open rarely."""


for _command in COMMANDS:
    wide.add_command(_command)
