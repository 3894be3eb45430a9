"""`hop bench groups`: what joins and messages cost beside ever more groups and sessions."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict

import click

from hopring.cli.asking import json_option
from hopring.cli.at_daemon import talking
from hopring.cli.bench.crew import part_of
from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.groups import Row, Work, beside_groups, beside_sessions
from hopring.cli.bench.memory import WARM, Memory, measure_memory
from hopring.cli.progress_line import Steps
from hopring.daemon.process.environment import allow_descriptors

_COLUMNS = (
    ("GROUPS", 7),
    ("SESSIONS", 9),
    ("JOINS/S", 9),
    ("CPU/JOIN", 10),
    ("P50", 9),
    ("P99", 9),
    ("MSGS/S", 9),
    ("CPU/MSG", 10),
)


def _counts(_context: click.Context, _parameter: click.Parameter, value: str) -> list[int]:
    try:
        counts = [int(one) for one in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is no list of numbers, as 10,100") from None
    if counts != sorted(set(counts)) or counts[0] < 1:
        raise click.BadParameter(f"{value!r} does not rise from 1 or more")
    return counts


@click.command()
@click.option(
    "--groups",
    default="10,100,1000,5000",
    show_default=True,
    callback=_counts,
    help="Numbers of groups, a row each.",
)
@click.option(
    "--sessions",
    default="10,100,1000",
    show_default=True,
    callback=_counts,
    help="Numbers of sessions, a row each.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Rounds for each row."
)
@click.option("--joins", type=click.IntRange(10), default=200, show_default=True, help="Joins in each round.")
@click.option("--probes", type=click.IntRange(10), default=200, show_default=True, help="Probes in each round.")
@click.option(
    "--messages", type=click.IntRange(100), default=20_000, show_default=True, help="Messages in each round."
)
@json_option
def groups(
    groups: list[int],
    sessions: list[int],
    rounds: int,
    joins: int,
    probes: int,
    messages: int,
    as_json: bool,
) -> None:
    """Cost with more and more groups and sessions.

    Two daemons in two sites on loopback, clients in this process. Each row does the same work: joins of new
    groups, messages from one site to the other one at a time, and a flood of them. In brackets the ratio to the
    first row. CPU is that of both daemons, for each join or message: it tells more than time on a busy machine.
    In the end, what as many groups and sessions as in the last rows add to the memory of a daemon.
    """
    work = Work(joins, probes, messages, rounds)
    allow_descriptors(sessions[-1] + WARM)
    with Steps(plain=True) as steps:
        for title, measure, counts in (
            ("groups", beside_groups, groups),
            ("sessions", beside_sessions, sessions),
        ):
            if not as_json:
                click.echo("".join([name.rjust(width) + " " * 7 for name, width in _COLUMNS]).rstrip())
            say = part_of(steps.say, title)
            with talking(), Daemons(say=say) as daemons:
                asyncio.run(measure(daemons, counts, work, _teller(title, as_json), say))
        say = part_of(steps.say, "memory")
        with talking(), Daemons(say=say) as daemons:
            say(f"of {groups[-1]} groups and {sessions[-1]} sessions that do nothing")
            memory = asyncio.run(measure_memory(daemons, groups[-1], sessions[-1]))
    click.echo(json.dumps({"beside": "memory", **asdict(memory)}) if as_json else _memory_text(memory))


def _teller(title: str, as_json: bool) -> Callable[[Row], None]:
    first: list[Row] = []

    def tell(row: Row) -> None:
        first.append(row)
        if as_json:
            click.echo(json.dumps({"beside": title, **asdict(row), "ratios": _ratios(row, first[0])}))
        else:
            click.echo(_line(row, first[0]))

    return tell


def _ratios(row: Row, first: Row) -> dict[str, float]:
    ours, base = asdict(row), asdict(first)
    return {key: round(ours[key] / base[key], 2) for key in list(ours)[2:]}


def _line(row: Row, first: Row) -> str:
    units = ["", "", "", " us", " ms", " ms", "", " us"]
    cells = []
    for (key, value), (_, width), unit in zip(asdict(row).items(), _COLUMNS, units, strict=True):
        ratio = _ratios(row, first).get(key)
        shown = f"{value:.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.1f}"
        cells.append(f"{shown}{unit}".rjust(width) + (" " * 7 if ratio is None else f" ({ratio:.2f})".ljust(7)))
    return "".join(cells).rstrip()


def _memory_text(memory: Memory) -> str:
    lines = [
        f"a daemon without clients has {memory.rss_bytes / 1e6:.1f} MB in memory,"
        f" {memory.pss_bytes / 1e6:.1f} MB with only its share of what others use too"
    ]
    for one in memory.growths:
        lines.append(
            f"each idle {one.what} of {one.count} more takes {one.here_bytes:,} bytes at its daemon"
            f" and {one.there_bytes:,} at the other"
        )
    return "\n".join(lines)
