"""`hop spool run`: joins groups and writes what comes to spools."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from hopring.cli.at_daemon import at_daemon, talking
from hopring.cli.spool.shared import spool_option, telling
from hopring.client.blocking import connect
from hopring.client.reconnect import Reconnect
from hopring.config.units import DURATION, SIZE, Quantity
from hopring.session.options import Slow, SlowPolicy
from hopring.spool.retention import Retention
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

GIVE_UP_SECONDS: Final = 24 * 3600.0
WINDOW_BYTES: Final = 8 * 1024 * 1024
SYNC_HELP: Final = "When records are safe on disk, and can be read; 0s: every batch at once."


def amount(quantity: Quantity) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Reads an option with its unit."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        try:
            return quantity.read(value)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} {error}; write one as {quantity.example}") from None

    return read


@click.command()
@click.option(
    "--group",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    required=True,
    help="Group to spool; may be repeated.",
)
@spool_option
@at_daemon
@click.option("--sync", "sync_us", callback=amount(DURATION), default="1s", show_default=True, help=SYNC_HELP)
@click.option(
    "--segment",
    "segment_bytes",
    callback=amount(SIZE),
    default="64MiB",
    show_default=True,
    help="Size at which a segment is sealed.",
)
@click.option(
    "--segment-age",
    "segment_us",
    callback=amount(DURATION),
    default="60min",
    show_default=True,
    help="Age at which a segment is sealed.",
)
@click.option(
    "--retain",
    "retain_bytes",
    callback=amount(SIZE),
    help="Keep at most this size for each group; the oldest segments are deleted.",
)
@click.option("--retain-age", "retain_us", callback=amount(DURATION), help="Delete segments that are older.")
@click.option("--retain-until-archived", is_flag=True, help="Delete no segment that is not in the archive.")
@click.option(
    "--slow",
    type=click.Choice([one.value for one in Slow]),
    default="spill",
    show_default=True,
    help="What the daemon does if the spooler does not keep up.",
)
def run(
    patterns: tuple[str, ...],
    root: Path,
    url: str,
    name: str | None,
    sync_us: int,
    segment_bytes: int,
    segment_us: int,
    retain_bytes: int | None,
    retain_us: int | None,
    retain_until_archived: bool,
    slow: SlowPolicy,
) -> None:
    """Join groups and write their messages to spools.

    It runs until it is interrupted.

    PATTERN is a name, or has * ? [] in it as file names have: then groups that appear later are joined too.
    """
    retention = Retention(retain_bytes, None if retain_us is None else retain_us / 1e6, retain_until_archived)
    options = SpoolOptions(sync_us / 1e6, segment_bytes, segment_us / 1e6, retention)
    comes_back = Reconnect(give_up_seconds=GIVE_UP_SECONDS)
    with (
        telling(),
        talking(),
        connect(url, name=name, slow=slow, window_bytes=WINDOW_BYTES, reconnect=comes_back) as session,
    ):
        spooler = Spooler(session, root, patterns, options, lambda line: click.echo(f"hop: {line}", err=True))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: spooler.stop())
        spooler.run()
