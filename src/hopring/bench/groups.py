"""`hop bench groups`: the cost of joins and messages with more and more groups and sessions.

Each row measures the same work with more groups or sessions present, so every row should cost the same. At the
end the memory that an idle group or session takes: at daemons that have done nothing else, because daemons that
have worked keep freed memory, which would hide growth. Kernel memory of connections is not counted.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Final

import click

from hopring.bench.harness.daemons import AT_ONCE, HOLDERS, BenchDaemons, idle_session, join_all
from hopring.bench.harness.processes import ReportStep, memory_bytes, no_progress, with_prefix
from hopring.cli.daemon_session import client_errors, json_option
from hopring.cli.progress import Steps
from hopring.client.aio import Group, Session
from hopring.client.events import Message
from hopring.daemon.process.environment import allow_descriptors

FLOOD_BYTES: Final = 100
PROBE_EVERY_SECONDS: Final = 0.005


WARM: Final = 200
"""Groups and sessions added first: they fill tables and pools that serve many more."""
SETTLE_SECONDS: Final = 1.0
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


@dataclass(frozen=True, slots=True)
class GroupsWork:
    """The amount of work in each round."""

    joins: int = 200
    probes: int = 200
    messages: int = 20_000
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class GroupsRow:
    """Figures with this many groups and sessions."""

    groups: int
    sessions: int
    joins_per_s: float
    join_cpu_us: float  # Of all daemons together.
    p50_ms: float  # Of an Agreed message from one site to the other, one at a time.
    p99_ms: float
    messages_per_s: float  # In a flood.
    message_cpu_us: float


async def beside_groups(
    daemons: BenchDaemons,
    counts: list[int],
    work: GroupsWork,
    tell: Callable[[GroupsRow], None],
    say: ReportStep = no_progress,
) -> None:
    """Measures rows with more and more groups."""
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(idle_session(daemons.urls[at % 2])) for at in range(HOLDERS)]
        measured = await stack.enter_async_context(_measured(daemons))
        made = 0
        say("warming up")
        await _round(measured, daemons, work)  # Warm.
        for count in counts:
            say(f"making {count - made} groups")
            await join_all([(holders[at % HOLDERS], f"held{at}") for at in range(made, count)])
            made = count
            tell(await _row(measured, daemons, count, HOLDERS, work, say))


async def beside_sessions(
    daemons: BenchDaemons,
    counts: list[int],
    work: GroupsWork,
    tell: Callable[[GroupsRow], None],
    say: ReportStep = no_progress,
) -> None:
    """Measures rows with more and more sessions, each in a group of its own."""
    async with AsyncExitStack() as stack:
        measured = await stack.enter_async_context(_measured(daemons))
        made = 0
        say("warming up")
        await _round(measured, daemons, work)  # Warm.
        for count in counts:
            say(f"making {count - made} sessions")
            new = range(made, count)
            holders = [await stack.enter_async_context(idle_session(daemons.urls[at % 2])) for at in new]
            await join_all([(one, f"own{at}") for at, one in zip(new, holders, strict=True)])
            made = count
            tell(await _row(measured, daemons, count, count, work, say))


@dataclass(slots=True)
class _Measured:
    """The session that joins, and a group of two members in two sites."""

    joiner: Session
    sender: Group
    receiver: Group
    serial: int = 0


@asynccontextmanager
async def _measured(daemons: BenchDaemons) -> AsyncIterator[_Measured]:
    async with AsyncExitStack() as stack:
        joiner, one, other = [
            await stack.enter_async_context(idle_session(daemons.urls[at % 2])) for at in (0, 0, 1)
        ]
        sender, receiver = await one.join("bench"), await other.join("bench")
        await sender.multicast(b"first")
        await _receive(receiver, 1)
        await _receive(sender, 1)
        yield _Measured(joiner, sender, receiver)


async def _row(
    measured: _Measured, daemons: BenchDaemons, groups: int, sessions: int, work: GroupsWork, say: ReportStep
) -> GroupsRow:
    rounds = []
    for number in range(work.rounds):
        say(f"{groups} groups, {sessions} sessions: round {number + 1} of {work.rounds}")
        rounds.append(await _round(measured, daemons, work))
    # The least time and CPU time of all rounds: other load of the machine only adds to them.
    join_s, join_cpu_s = min([one[0] for one in rounds]), min([one[1] for one in rounds])
    flood_s, flood_cpu_s = min([one[2] for one in rounds]), min([one[3] for one in rounds])
    taken = [one for _, _, _, _, latencies in rounds for one in latencies]
    return GroupsRow(
        groups,
        sessions,
        round(work.joins / join_s, 1),
        round(join_cpu_s / work.joins * 1e6, 1),
        round(median(taken) * 1000, 3),
        round(quantiles(taken, n=100)[-1] * 1000, 3),
        round(work.messages / flood_s, 1),
        round(flood_cpu_s / work.messages * 1e6, 2),
    )


async def _round(
    measured: _Measured, daemons: BenchDaemons, work: GroupsWork
) -> tuple[float, float, float, float, list[float]]:
    names = [f"new{measured.serial + at}" for at in range(work.joins)]
    measured.serial += work.joins
    cpu, begin = daemons.cpu_seconds(), time.monotonic()
    await join_all([(measured.joiner, name) for name in names])
    join_s, join_cpu_s = time.monotonic() - begin, daemons.cpu_seconds() - cpu
    for at in range(0, len(names), AT_ONCE):
        await asyncio.gather(*[measured.joiner.leave(name) for name in names[at : at + AT_ONCE]])
    latencies = await _probe(measured, work.probes)
    cpu, begin = daemons.cpu_seconds(), time.monotonic()
    await _flood(measured, work.messages)
    return join_s, join_cpu_s, time.monotonic() - begin, daemons.cpu_seconds() - cpu, latencies


async def _probe(measured: _Measured, probes: int) -> list[float]:
    taken = []
    for _ in range(probes):
        begin = time.monotonic()
        await measured.sender.multicast(b"probe")
        await _receive(measured.receiver, 1)
        taken.append(time.monotonic() - begin)
        await _receive(measured.sender, 1)
        await asyncio.sleep(PROBE_EVERY_SECONDS)
    return taken


async def _flood(measured: _Measured, messages: int) -> None:
    async def send() -> None:
        for _ in range(messages):
            await measured.sender.multicast(bytes(FLOOD_BYTES))

    await asyncio.gather(send(), _receive(measured.sender, messages), _receive(measured.receiver, messages))


async def _receive(group: Group, count: int) -> None:
    while count:
        count -= isinstance(await group.receive(), Message)


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Memory added by each of `count` groups or sessions."""

    what: str
    count: int
    here_bytes: int  # At the daemon where they are.
    there_bytes: int  # At the other one.


@dataclass(frozen=True, slots=True)
class DaemonMemory:
    """The resident memory of idle daemons, in bytes."""

    rss_bytes: int  # Of the first, before there was any client.
    pss_bytes: int
    growths: tuple[MemoryGrowth, ...]


async def measure_memory(daemons: BenchDaemons, groups: int, sessions: int) -> DaemonMemory:
    """Measures the memory of two unused daemons."""
    pid = daemons.servers()[daemons.names[0]]
    rss_bytes, pss_bytes = [memory_bytes(pid, kind) for kind in ("Rss", "Pss")]
    async with AsyncExitStack() as stack:

        async def come(count: int) -> list[Session]:
            return [await stack.enter_async_context(idle_session(daemons.urls[0])) for _ in range(count)]

        holders = await come(HOLDERS)
        serial = iter(range(groups + WARM))

        async def make_groups(count: int) -> None:
            names = [f"held{next(serial)}" for _ in range(count)]
            await join_all([(holders[at % HOLDERS], name) for at, name in enumerate(names)])

        growths = [
            await _growth(daemons, "group", groups, make_groups),
            await _growth(daemons, "session", sessions, come),
        ]
    return DaemonMemory(rss_bytes, pss_bytes, tuple(growths))


async def _growth(
    daemons: BenchDaemons, what: str, count: int, add: Callable[[int], Awaitable[object]]
) -> MemoryGrowth:
    await add(WARM)
    before = await _settled(daemons)
    await add(count)
    here, there = [(now - then) // count for now, then in zip(await _settled(daemons), before, strict=True)]
    return MemoryGrowth(what, count, here, there)


async def _settled(daemons: BenchDaemons) -> list[int]:
    """The anonymous memory of each daemon, after a pause."""
    await asyncio.sleep(SETTLE_SECONDS)
    pids = daemons.servers()
    return [memory_bytes(pids[name], "Anonymous") for name in daemons.names]


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
    groups, single messages from one site to the other, and a flood of them. Numbers in brackets are ratios to
    the first row. CPU is that of both daemons per join or message: on a busy machine it is more reliable than
    time. At the end, the memory that the groups and sessions of the last rows add to a daemon.
    """
    work = GroupsWork(joins, probes, messages, rounds)
    allow_descriptors(sessions[-1] + WARM)
    with Steps(plain=True) as steps:
        for title, measure, counts in (
            ("groups", beside_groups, groups),
            ("sessions", beside_sessions, sessions),
        ):
            if not as_json:
                click.echo("".join([name.rjust(width) + " " * 7 for name, width in _COLUMNS]).rstrip())
            say = with_prefix(steps.say, title)
            with client_errors(), BenchDaemons(say=say) as daemons:
                asyncio.run(measure(daemons, counts, work, _teller(title, as_json), say))
        say = with_prefix(steps.say, "memory")
        with client_errors(), BenchDaemons(say=say) as daemons:
            say(f"of {groups[-1]} groups and {sessions[-1]} sessions that do nothing")
            memory = asyncio.run(measure_memory(daemons, groups[-1], sessions[-1]))
    click.echo(json.dumps({"beside": "memory", **asdict(memory)}) if as_json else _memory_text(memory))


def _teller(title: str, as_json: bool) -> Callable[[GroupsRow], None]:
    first: list[GroupsRow] = []

    def tell(row: GroupsRow) -> None:
        first.append(row)
        if as_json:
            click.echo(json.dumps({"beside": title, **asdict(row), "ratios": _ratios(row, first[0])}))
        else:
            click.echo(_line(row, first[0]))

    return tell


def _ratios(row: GroupsRow, first: GroupsRow) -> dict[str, float]:
    ours, base = asdict(row), asdict(first)
    return {key: round(ours[key] / base[key], 2) for key in list(ours)[2:]}


def _line(row: GroupsRow, first: GroupsRow) -> str:
    units = ["", "", "", " us", " ms", " ms", "", " us"]
    cells = []
    for (key, value), (_, width), unit in zip(asdict(row).items(), _COLUMNS, units, strict=True):
        ratio = _ratios(row, first).get(key)
        shown = f"{value:.0f}" if isinstance(value, int) or value >= 1000 else f"{value:.1f}"
        cells.append(f"{shown}{unit}".rjust(width) + (" " * 7 if ratio is None else f" ({ratio:.2f})".ljust(7)))
    return "".join(cells).rstrip()


def _memory_text(memory: DaemonMemory) -> str:
    lines = [
        f"a daemon without clients has {memory.rss_bytes / 1e6:.1f} MB in memory,"
        f" {memory.pss_bytes / 1e6:.1f} MB if shared pages count in proportion"
    ]
    for one in memory.growths:
        lines.append(
            f"each idle {one.what} of {one.count} more takes {one.here_bytes:,} bytes at its daemon"
            f" and {one.there_bytes:,} at the other"
        )
    return "\n".join(lines)
