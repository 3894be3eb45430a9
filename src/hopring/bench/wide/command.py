"""`hop bench wide`: tables 1 and 2 of the long-haul paper, ours beside the paper's."""

import asyncio

import click
import msgspec

from hopring.bench.harness.figures import table
from hopring.bench.wide.measuring import (
    WideBenchOptions,
    WideBenchParts,
    WideBenchRow,
    measure_bare,
    measure_whole,
)
from hopring.bench.wide.paper import LAYERS, REQUEST, SIZES, STREAM, WHOLE
from hopring.cli.daemon_session import json_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Failure
from hopring.errors import HopError

TITLES = {
    STREAM: "Table 1: ms for a message, 99 and then one back; ours, and the paper's in parentheses",
    REQUEST: "Table 2: ms for a message there and one back; ours, and the paper's in parentheses",
}


@click.command()
@click.option(
    "--size",
    "sizes",
    metavar="BYTES",
    type=click.IntRange(0, 65_536),
    multiple=True,
    help="Sizes of messages.  [default: the six of the paper]",
)
@click.option(
    "--turns", type=click.IntRange(1, 1000), default=10, show_default=True, help="Turns; figures are medians."
)
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Round trips of a turn of table 2.",
)
@click.option(
    "--probes", type=click.IntRange(1), default=50, show_default=True, help="Messages whose parts are taken."
)
@click.option(
    "--members",
    type=click.Choice(["0", "1", "3", "5"]),
    multiple=True,
    help="Members in each of the two clusters of the whole service; 0 leaves it out.  [default: 3, 1]",
)
@json_option
def wide(
    sizes: tuple[int, ...], turns: int, requests: int, probes: int, members: tuple[str, ...], as_json: bool
) -> None:
    """Messages between two clusters: the tables of the long-haul paper, ours beside its own.

    The rows are bare TCP; a channel over it; cbcast over that, without a log; and everything: daemons, members
    with their logs on disk, clients. For the latter it also takes where the time of a single message goes. All
    is on this machine; with --json there is one line for each figure.
    """
    options = WideBenchOptions(sizes or SIZES, turns, requests, probes)
    counts = [int(one) for one in dict.fromkeys(members or ("3", "1")) if one != "0"]
    found: list[WideBenchRow | WideBenchParts] = []

    def take(one: WideBenchRow | WideBenchParts) -> None:
        found.append(one)
        if as_json:
            click.echo(msgspec.json.encode(one))

    with Steps(plain=True) as steps:
        for name in LAYERS:
            steps.say(name)
            for row in measure_bare(name, options):
                take(row)
        for count in counts:
            steps.say(f"{WHOLE}, {count} and {count} members")
            try:
                asyncio.run(measure_whole(options, count, take))
            except (HopError, TimeoutError) as error:
                raise Failure(str(error) or "the other process does not answer") from None
    if not as_json:
        show(options, found)


def show(options: WideBenchOptions, found: list[WideBenchRow | WideBenchParts]) -> None:
    """Prints both tables, and the parts."""
    head = [f"{size}" for size in options.sizes]
    for number, title in TITLES.items():
        cells = [one for one in found if isinstance(one, WideBenchRow) and one.table == number]
        names = dict.fromkeys((one.row, one.members) for one in cells)
        rows = [[_name(*key), *[_cell(one) for one in cells if (one.row, one.members) == key]] for key in names]
        click.echo(f"{title}\n\n{table(['bytes', *head], rows)}\n")
    parts = [one for one in found if isinstance(one, WideBenchParts)]
    if parts:
        columns = ["one message at a time", "call to accepted", "transfer", "logged there to client", "all"]
        rows = [
            [
                f"{one.size_bytes} bytes, {one.members} + {one.members} members",
                *[f"{ms:.3f}" for ms in (one.accepted_ms, one.transfer_ms, one.client_ms, one.whole_ms)],
            ]
            for one in parts
        ]
        click.echo(f"Parts in ms\n\n{table(columns, rows)}")


def _name(row: str, members: int) -> str:
    return f"{row}, {members} + {members} members" if members else row


def _cell(one: WideBenchRow) -> str:
    return f"{one.ms:.3f} ({'-' if one.paper_ms is None else f'{one.paper_ms:.2f}'})"
