"""`hop bench daemons`: cost and latency with more and more daemons.

Each row is a cluster of its own. Messages come from the last daemon of the last site. Of equal stamps the one
of the first site is ordered first, so in a cluster at rest a message from the first site waits for no promise,
and one from the last site waits for a promise of every other site. The other member is at the first daemon of
the same site, or of the first site. The pace is slow, so that messages share little work: a row shows the cost
of one message at all these daemons.
"""

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import fmean, median, quantiles
from typing import Final

import click

from hopring.bench.harness.daemons import BenchDaemons, idle_session, sites_of
from hopring.bench.harness.figures import table
from hopring.bench.harness.processes import (
    CpuReading,
    ReportStep,
    memory_bytes,
    no_progress,
    others_share,
    read_cpu,
    wakes,
    with_prefix,
)
from hopring.bench.options import seconds_option
from hopring.cli.daemon_session import client_errors, json_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Failure
from hopring.client.aio import Group
from hopring.client.events import Message
from hopring.local.plan import PATIENCE_DEFAULT, PATIENCE_US_MIN, read_duration

MESSAGE_BYTES: Final = 100
PROBE_EVERY_SECONDS: Final = 0.05
SETTLE_SECONDS: Final = 3.0
WARM_PROBES: Final = 10
DRAIN_SECONDS: Final = 10.0
_CLIENTS: Final = "clients"  # This process; no daemon has this name.


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """A number of sites with the same number of daemons each."""

    sites: int
    each: int

    @property
    def daemons(self) -> int:
        return self.sites * self.each


@dataclass(frozen=True, slots=True)
class DaemonsWork:
    """The amount of work in each row."""

    seconds: float = 5.0  # Of silence, and of a steady pace.
    probes: int = 200
    pace_per_second: int = 20
    patience: str = ""  # The configuration's defaults.


@dataclass(frozen=True, slots=True)
class OneWayLatency:
    """Latency from one member to the other, Agreed, one message at a time."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class DaemonsRow:
    """Figures of a cluster of this size."""

    daemons: int
    sites: int
    together_s: float  # From the start of the first process to a view of all at all.
    together_cpu_s: float  # CPU time of all until then, including the start of Python.
    idle_percent: float  # Of a processor, all daemons together.
    idle_percent_each: float  # The mean.
    idle_percent_most: float  # The busiest one.
    near: OneWayLatency | None  # Within a site; None if it has one daemon.
    far: OneWayLatency | None  # Between sites.
    message_cpu_us: float  # Of all daemons together, above silence; likewise below.
    message_cpu_us_each: float
    message_cpu_us_most: float
    message_wakes_each: float  # How often each daemon was woken for one; the mean.
    rss_mb_each: float
    pss_mb_each: float
    lost: int
    views_meanwhile: int  # Installed while it was measured; there should be none.
    others_cpu_share: float  # CPU share of other processes; above a tenth, do not trust times.


def measure_daemons(shape: ClusterShape, work: DaemonsWork, say: ReportStep = no_progress) -> DaemonsRow:
    """Runs and measures one cluster."""
    begin = time.monotonic()
    with BenchDaemons(sites_of(shape.daemons, shape.sites), work.patience, say) as daemons:
        together_s, together_cpu_s = time.monotonic() - begin, daemons.cpu_seconds()
        views = daemons.views()
        say(f"measuring idle daemons for {work.seconds:g} s, after {SETTLE_SECONDS:g} s of rest")
        time.sleep(SETTLE_SECONDS)
        before = _look(daemons)
        time.sleep(work.seconds)
        idle = _rates(before, _look(daemons))
        near, far, paced = asyncio.run(_with_clients(daemons, shape, work, say))
        pids = daemons.servers().values()
        each_us = [(paced.cpu[name] - idle.cpu[name]) / work.pace_per_second * 1e6 for name in daemons.names]
        return DaemonsRow(
            daemons=shape.daemons,
            sites=shape.sites,
            together_s=round(together_s, 2),
            together_cpu_s=round(together_cpu_s, 2),
            idle_percent=round(sum(idle.cpu.values()) * 100, 2),
            idle_percent_each=round(fmean(idle.cpu.values()) * 100, 2),
            idle_percent_most=round(max(idle.cpu.values()) * 100, 2),
            near=near,
            far=far,
            message_cpu_us=round(sum(each_us), 1),
            message_cpu_us_each=round(fmean(each_us), 1),
            message_cpu_us_most=round(max(each_us), 1),
            message_wakes_each=round((paced.wakes - idle.wakes) / work.pace_per_second / shape.daemons, 1),
            rss_mb_each=round(fmean([memory_bytes(pid, "Rss") for pid in pids]) / 1e6, 1),
            pss_mb_each=round(fmean([memory_bytes(pid, "Pss") for pid in pids]) / 1e6, 1),
            lost=paced.lost,
            views_meanwhile=daemons.views() - views,
            others_cpu_share=max(idle.others, paced.others),
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """Counters of all daemons at one moment."""

    reading: CpuReading  # Of the daemons and of ourselves.
    wakes: int  # Of all daemons.


@dataclass(frozen=True, slots=True)
class _Rates:
    """Rates of all daemons between two moments."""

    cpu: dict[str, float]  # Of a processor, by daemon.
    wakes: float  # A second, of all daemons.
    others: float
    lost: int = 0


def _look(daemons: BenchDaemons) -> _Look:
    pids = daemons.servers()
    return _Look(read_cpu({**pids, _CLIENTS: os.getpid()}), sum([wakes(pid) for pid in pids.values()]))


def _rates(before: _Look, after: _Look, lost: int = 0) -> _Rates:
    then, now = before.reading, after.reading
    whole_s = now.at_s - then.at_s
    cpu = {name: (now.taken_s[name] - then.taken_s[name]) / whole_s for name in now.taken_s if name != _CLIENTS}
    others = others_share(then, now, os.cpu_count() or 1)
    return _Rates(cpu, (after.wakes - before.wakes) / whole_s, others, lost)


async def _with_clients(
    daemons: BenchDaemons, shape: ClusterShape, work: DaemonsWork, say: ReportStep
) -> tuple[OneWayLatency | None, OneWayLatency | None, _Rates]:
    async with AsyncExitStack() as stack:

        async def pair(name: str, other: int) -> tuple[Group, Group]:
            urls = daemons.urls[-1], daemons.urls[other]
            one, two = [await (await stack.enter_async_context(idle_session(url))).join(name) for url in urls]
            return one, two

        near = await pair("near", -shape.each) if shape.each > 1 else None
        far = await pair("far", 0) if shape.sites > 1 else None
        say(f"sending {work.probes} probes, one at a time")
        latencies = [None if one is None else await _probe(*one, work.probes) for one in (near, far)]
        say(f"sending {work.pace_per_second} messages a second for {work.seconds:g} s")
        return latencies[0], latencies[1], await _pace(*(far or near or await pair("own", -1)), daemons, work)


async def _probe(sender: Group, receiver: Group, probes: int) -> OneWayLatency:
    taken_ms = []
    for _ in range(WARM_PROBES + probes):
        begin = time.monotonic()
        await sender.multicast(bytes(MESSAGE_BYTES))
        await _receive(receiver, 1)
        taken_ms.append((time.monotonic() - begin) * 1000)
        await _receive(sender, 1)
        await asyncio.sleep(PROBE_EVERY_SECONDS)
    taken_ms = taken_ms[WARM_PROBES:]
    return OneWayLatency(round(median(taken_ms), 2), round(quantiles(taken_ms, n=100)[-1], 2))


async def _pace(sender: Group, receiver: Group, daemons: BenchDaemons, work: DaemonsWork) -> _Rates:
    """Sends messages at a steady pace; returns the rates meanwhile."""
    messages = int(work.seconds * work.pace_per_second)
    got = [0, 0]

    async def take(at: int, group: Group) -> None:
        while got[at] < messages:
            await _receive(group, 1)
            got[at] += 1

    taking = asyncio.gather(take(0, sender), take(1, receiver))
    before, begin = _look(daemons), time.monotonic()
    for number in range(messages):
        await asyncio.sleep(max(0.0, begin + number / work.pace_per_second - time.monotonic()))
        await sender.multicast(bytes(MESSAGE_BYTES))
    await asyncio.sleep(max(0.0, begin + messages / work.pace_per_second - time.monotonic()))
    after = _look(daemons)
    await asyncio.wait([taking], timeout=DRAIN_SECONDS)
    taking.cancel()
    return _rates(before, after, messages - min(got))


async def _receive(group: Group, count: int) -> None:
    while count:
        count -= isinstance(await group.receive(), Message)


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


def _shapes(_context: click.Context, _parameter: click.Parameter, value: str) -> list[ClusterShape]:
    try:
        shapes = [ClusterShape(*map(int, one.split("x"))) for one in value.split(",")]
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
def daemons(
    shapes: list[ClusterShape], seconds: float, probes: int, pace: int, patience: str, as_json: bool
) -> None:
    """Cost and latency with more and more daemons.

    Each daemon is a process on loopback. The command measures the time to one view, latency, CPU and memory.

    A message is Agreed, of 100 bytes, to two members: at two daemons of the last site (near), or there and in
    the first site (far). CPU per message is that of all daemons, of their mean and of the busiest one, above
    that of idle daemons; measure it at a slow pace, at which messages share little.
    """
    work = DaemonsWork(seconds, probes, pace, patience)
    rows = []
    with Steps(plain=True) as steps:
        for shape in shapes:
            with client_errors():
                rows.append(measure_daemons(shape, work, with_prefix(steps.say, f"{shape.sites}x{shape.each}")))
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


def _cells(row: DaemonsRow) -> list[str]:
    return [
        *(str(row.daemons), str(row.sites)),
        *(f"{row.together_s:.1f} s", f"{row.together_cpu_s:.1f} s"),
        *(f"{row.idle_percent:.1f} %", f"{row.idle_percent_each:.2f} %"),
        *(*_latency(row.near), *_latency(row.far)),
        *(f"{row.message_cpu_us:,.0f} us", f"{row.message_cpu_us_each:,.0f} us"),
        *(f"{row.message_cpu_us_most:,.0f} us", f"{row.message_wakes_each:.1f}"),
        *(f"{row.rss_mb_each:.1f} MB", f"{row.pss_mb_each:.1f} MB"),
    ]


def _latency(seen: OneWayLatency | None) -> tuple[str, str]:
    return ("-", "-") if seen is None else (f"{seen.p50_ms:.1f} ms", f"{seen.p99_ms:.1f} ms")
