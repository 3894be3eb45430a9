"""What daemons cost and how fast they are when there are ever more of them.

Each row is a cluster of its own. A member is at the first daemon; another one is at the last daemon of the same
site, or of the last site. Messages go to both at a slow pace, so that each is ordered by itself and nothing is
shared: what a row shows is what one message makes all these daemons do.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Final

from hopring.cli.bench.clock import Reading, others_share, read
from hopring.cli.bench.daemons import Daemons, sites_of
from hopring.cli.bench.holding import held_session
from hopring.cli.bench.memory import memory_bytes
from hopring.client.aio import Group
from hopring.client.events import Message

MESSAGE_BYTES: Final = 100
PROBE_EVERY_SECONDS: Final = 0.05
SETTLE_SECONDS: Final = 3.0
WARM_PROBES: Final = 10
DRAIN_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Shape:
    """So many sites with so many daemons each."""

    sites: int
    each: int

    @property
    def daemons(self) -> int:
        """All of them."""
        return self.sites * self.each


@dataclass(frozen=True, slots=True)
class Work:
    """How much is measured in each row."""

    seconds: float = 5.0  # Of silence, and of a steady pace.
    probes: int = 200
    pace_per_second: int = 200
    patience: str = ""  # The configuration's defaults.


@dataclass(frozen=True, slots=True)
class Latency:
    """From a member to the other one, Agreed, one message at a time."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Row:
    """What so many daemons showed."""

    daemons: int
    sites: int
    together_s: float  # From the start of the first process to a view of all at all.
    together_cpu_s: float  # What all had taken by then, the start of Python included.
    idle_percent: float  # Of a processor, all daemons together.
    idle_percent_each: float  # The mean.
    idle_percent_most: float  # The busiest one.
    near: Latency | None  # Within a site; None if it has one daemon.
    far: Latency | None  # Between sites.
    message_cpu_us: float  # Of all daemons together, above silence; likewise below.
    message_cpu_us_each: float
    message_cpu_us_most: float
    rss_mb_each: float
    pss_mb_each: float
    lost: int
    views_meanwhile: int  # Installed while it was measured; there should be none.
    others_cpu_share: float  # What the machine did besides; above a tenth, do not trust times.


def measure_daemons(shape: Shape, work: Work) -> Row:
    """One cluster, from its start to its end."""
    begin = time.monotonic()
    with Daemons(sites_of(shape.daemons, shape.sites), work.patience) as daemons:
        together_s, together_cpu_s = time.monotonic() - begin, daemons.cpu_seconds()
        views = daemons.views()
        time.sleep(SETTLE_SECONDS)
        before = read(daemons.servers())
        time.sleep(work.seconds)
        after = read(daemons.servers())
        idle = _share(before, after)
        near, far, lost, each_us = asyncio.run(_with_clients(daemons, shape, work, idle))
        pids = daemons.servers().values()
        return Row(
            daemons=shape.daemons,
            sites=shape.sites,
            together_s=round(together_s, 2),
            together_cpu_s=round(together_cpu_s, 2),
            idle_percent=round(sum(idle.values()) * 100, 2),
            idle_percent_each=round(fmean(idle.values()) * 100, 2),
            idle_percent_most=round(max(idle.values()) * 100, 2),
            near=near,
            far=far,
            message_cpu_us=round(sum(each_us), 1),
            message_cpu_us_each=round(fmean(each_us), 1),
            message_cpu_us_most=round(max(each_us), 1),
            rss_mb_each=round(fmean([memory_bytes(pid, "Rss") for pid in pids]) / 1e6, 1),
            pss_mb_each=round(fmean([memory_bytes(pid, "Pss") for pid in pids]) / 1e6, 1),
            lost=lost,
            views_meanwhile=daemons.views() - views,
            others_cpu_share=others_share(before, after, os.cpu_count() or 1),
        )


async def _with_clients(
    daemons: Daemons, shape: Shape, work: Work, idle: dict[str, float]
) -> tuple[Latency | None, Latency | None, int, list[float]]:
    async with AsyncExitStack() as stack:

        async def pair(name: str, other: int) -> tuple[Group, Group]:
            urls = daemons.urls[0], daemons.urls[other]
            one, two = [await (await stack.enter_async_context(held_session(url))).join(name) for url in urls]
            return one, two

        near = await pair("near", shape.each - 1) if shape.each > 1 else None
        far = await pair("far", -1) if shape.sites > 1 else None
        latencies = [None if one is None else await _probe(*one, work.probes) for one in (near, far)]
        lost, before, after, sent = await _pace(*(far or near or await pair("own", 0)), daemons, work)
    taken = {name: share * (after.at_s - before.at_s) for name, share in _share(before, after).items()}
    silence = {name: share * (after.at_s - before.at_s) for name, share in idle.items()}
    each_us = [(taken[name] - silence[name]) / sent * 1e6 for name in taken]
    return latencies[0], latencies[1], lost, each_us


async def _probe(sender: Group, receiver: Group, probes: int) -> Latency:
    taken_ms = []
    for _ in range(WARM_PROBES + probes):
        begin = time.monotonic()
        await sender.multicast(bytes(MESSAGE_BYTES))
        await _receive(receiver, 1)
        taken_ms.append((time.monotonic() - begin) * 1000)
        await _receive(sender, 1)
        await asyncio.sleep(PROBE_EVERY_SECONDS)
    taken_ms = taken_ms[WARM_PROBES:]
    return Latency(round(median(taken_ms), 2), round(quantiles(taken_ms, n=100)[-1], 2))


async def _pace(
    sender: Group, receiver: Group, daemons: Daemons, work: Work
) -> tuple[int, Reading, Reading, int]:
    """Messages at a steady pace: how many were lost, the clocks before and after, and how many were sent."""
    messages = int(work.seconds * work.pace_per_second)
    got = [0, 0]

    async def take(at: int, group: Group) -> None:
        while got[at] < messages:
            await _receive(group, 1)
            got[at] += 1

    taking = asyncio.gather(take(0, sender), take(1, receiver))
    before, begin = read(daemons.servers()), time.monotonic()
    for number in range(messages):
        await asyncio.sleep(max(0.0, begin + number / work.pace_per_second - time.monotonic()))
        await sender.multicast(bytes(MESSAGE_BYTES))
    after = read(daemons.servers())
    done, _ = await asyncio.wait([taking], timeout=DRAIN_SECONDS)
    if not done:
        taking.cancel()
    return messages - min(got), before, after, messages


async def _receive(group: Group, count: int) -> None:
    while count:
        count -= isinstance(await group.receive(), Message)


def _share(before: Reading, after: Reading) -> dict[str, float]:
    """What each took of a processor."""
    whole_s = after.at_s - before.at_s
    return {name: (after.taken_s[name] - before.taken_s[name]) / whole_s for name in after.taken_s}
