"""`hop bench daemons`: what ever more daemons cost, and how fast they are."""

import json
from dataclasses import asdict

import click

from hopring.cli.asking import json_option
from hopring.cli.at_daemon import talking
from hopring.cli.bench.crew import part_of
from hopring.cli.bench.many_daemons import Latency, Row, Shape, Work, measure_daemons
from hopring.cli.bench.options import seconds_option
from hopring.cli.bench.table import table
from hopring.cli.exits import Failure
from hopring.cli.progress_line import Steps
from hopring.local.plan import PATIENCE_DEFAULT, PATIENCE_US_MIN, read_duration

_HEAD = (
    *(
        "daemons",
        "sites",
        "one view",
        "its CPU",
        "idle, all",
        "idle, each",
        "near p50",
        "p99",
        "far p50",
        "p99",
    ),
    *("CPU/msg, all", "each", "most", "wakes each", "RSS each", "PSS each"),
)


def _shapes(_context: click.Context, _parameter: click.Parameter, value: str) -> list[Shape]:
    try:
        shapes = [Shape(*map(int, one.split("x"))) for one in value.split(",")]
    except (ValueError, TypeError):
        raise click.BadParameter(f"{value!r} is no list of shapes, as 1x3,2x3") from None
    for one in shapes:
        if not (1 <= one.sites <= 26 and one.each >= 1):
            raise click.BadParameter("choose 1 to 26 sites, and at least one daemon each")
    return shapes


def _patience(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        if value and read_duration(value) < PATIENCE_US_MIN:
            raise click.BadParameter(f"{value!r} is too short; choose at least 500ms")
    except ValueError as wrong:
        raise click.BadParameter(str(wrong)) from None
    return value


@click.command()
@click.option(
    "--shapes",
    default="1x3,2x3,3x4,6x5",
    show_default=True,
    callback=_shapes,
    help="Sites x daemons of each, a row each.",
)
@seconds_option(5.0)
@click.option(
    "--probes", type=click.IntRange(10), default=200, show_default=True, help="Probes, one at a time."
)
@click.option("--pace", type=click.IntRange(1, 2000), default=20, show_default=True, help="Messages a second.")
@click.option(
    "--patience",
    default=PATIENCE_DEFAULT,
    show_default=True,
    callback=_patience,
    help='How long a daemon may be silent before others give it up; "" is the default of configurations.',
)
@json_option
def daemons(shapes: list[Shape], seconds: float, probes: int, pace: int, patience: str, as_json: bool) -> None:
    """Cost and latency with more and more daemons.

    Each daemon is a process on loopback. It measures the time to one view, latency, CPU and memory.

    A message is Agreed, of 100 bytes, to two members: at two daemons of the last site (near), or there and in
    the first one (far). CPU per message is that of all daemons, of the mean and of the busiest one, above what
    silence takes; measure it at a slow pace, at which messages share little.
    """
    work = Work(seconds, probes, pace, patience)
    rows = []
    with Steps(plain=True) as steps:
        for shape in shapes:
            with talking():
                rows.append(measure_daemons(shape, work, part_of(steps.say, f"{shape.sites}x{shape.each}")))
            if as_json:
                click.echo(json.dumps({"bench": "daemons", **asdict(rows[-1])}))
    if not as_json:
        click.echo(table(_HEAD, [_cells(row) for row in rows]))
    for row in rows:
        if row.others_cpu_share > 0.1:
            click.echo(f"hop: others took {row.others_cpu_share:.0%} beside {row.daemons} daemons", err=True)
        if row.views_meanwhile:
            click.echo(f"hop: {row.daemons} daemons installed {row.views_meanwhile} views meanwhile", err=True)
    if lost := sum([row.lost for row in rows]):
        raise Failure(f"{lost} messages were lost")


def _cells(row: Row) -> list[str]:
    return [
        *(str(row.daemons), str(row.sites)),
        *(f"{row.together_s:.1f} s", f"{row.together_cpu_s:.1f} s"),
        *(f"{row.idle_percent:.1f} %", f"{row.idle_percent_each:.2f} %"),
        *(*_latency(row.near), *_latency(row.far)),
        *(f"{row.message_cpu_us:,.0f} us", f"{row.message_cpu_us_each:,.0f} us"),
        *(f"{row.message_cpu_us_most:,.0f} us", f"{row.message_wakes_each:.1f}"),
        *(f"{row.rss_mb_each:.1f} MB", f"{row.pss_mb_each:.1f} MB"),
    ]


def _latency(seen: Latency | None) -> tuple[str, str]:
    return ("-", "-") if seen is None else (f"{seen.p50_ms:.1f} ms", f"{seen.p99_ms:.1f} ms")
