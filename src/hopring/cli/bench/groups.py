"""What a join and a message cost when there are many groups, or many sessions.

Each row measures the same work beside ever more groups or sessions, so every row should cost the same.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

from hopring.cli.bench.crew import Say, unsaid
from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.holding import AT_ONCE, HOLDERS, held_session, join_all
from hopring.client.aio import Group, Session
from hopring.client.events import Message

FLOOD_BYTES: Final = 100
PROBE_EVERY_SECONDS: Final = 0.005


@dataclass(frozen=True, slots=True)
class Work:
    """How much is measured in each round."""

    joins: int = 200
    probes: int = 200
    messages: int = 20_000
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen beside so many groups and sessions."""

    groups: int
    sessions: int
    joins_per_s: float
    join_cpu_us: float  # Of all daemons together.
    p50_ms: float  # Of an Agreed message from one site to the other, one at a time.
    p99_ms: float
    messages_per_s: float  # In a flood.
    message_cpu_us: float


async def beside_groups(
    daemons: Daemons, counts: list[int], work: Work, tell: Callable[[Row], None], say: Say = unsaid
) -> None:
    """Rows with ever more groups."""
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(held_session(daemons.urls[at % 2])) for at in range(HOLDERS)]
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
    daemons: Daemons, counts: list[int], work: Work, tell: Callable[[Row], None], say: Say = unsaid
) -> None:
    """Rows with ever more sessions, each in a group of its own."""
    async with AsyncExitStack() as stack:
        measured = await stack.enter_async_context(_measured(daemons))
        made = 0
        say("warming up")
        await _round(measured, daemons, work)  # Warm.
        for count in counts:
            say(f"making {count - made} sessions")
            new = range(made, count)
            holders = [await stack.enter_async_context(held_session(daemons.urls[at % 2])) for at in new]
            await join_all([(one, f"own{at}") for at, one in zip(new, holders, strict=True)])
            made = count
            tell(await _row(measured, daemons, count, count, work, say))


@dataclass(slots=True)
class _Measured:
    """Who joins, and a group of two in two sites."""

    joiner: Session
    sender: Group
    receiver: Group
    serial: int = 0


@asynccontextmanager
async def _measured(daemons: Daemons) -> AsyncIterator[_Measured]:
    async with AsyncExitStack() as stack:
        joiner, one, other = [
            await stack.enter_async_context(held_session(daemons.urls[at % 2])) for at in (0, 0, 1)
        ]
        sender, receiver = await one.join("bench"), await other.join("bench")
        await sender.multicast(b"first")
        await _receive(receiver, 1)
        await _receive(sender, 1)
        yield _Measured(joiner, sender, receiver)


async def _row(measured: _Measured, daemons: Daemons, groups: int, sessions: int, work: Work, say: Say) -> Row:
    rounds = []
    for number in range(work.rounds):
        say(f"{groups} groups, {sessions} sessions: round {number + 1} of {work.rounds}")
        rounds.append(await _round(measured, daemons, work))
    # Of times and processor time the least of the rounds: whatever else the machine does only adds.
    join_s, join_cpu_s = min([one[0] for one in rounds]), min([one[1] for one in rounds])
    flood_s, flood_cpu_s = min([one[2] for one in rounds]), min([one[3] for one in rounds])
    taken = [one for _, _, _, _, latencies in rounds for one in latencies]
    return Row(
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
    measured: _Measured, daemons: Daemons, work: Work
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
