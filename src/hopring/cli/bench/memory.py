"""Memory of daemons: what is resident, and what one more session or group that does nothing adds to it.

Daemons that have worked keep what was freed for the next packet, so growth would hide in it: these have done
nothing else. All groups and sessions are at the first daemon; the other one only knows of them. Not counted is
what the kernel holds for a connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.holding import HOLDERS, held_session, join_all
from hopring.client.aio import Session

WARM: Final = 200
"""So many of each come first: with them come tables and pools that serve many more."""

SETTLE_SECONDS: Final = 1.0


def memory_bytes(pid: int, kind: str) -> int:
    """Of a process, by the kernel's words; ProcessLookupError if there is none.

    `Rss` is all that is in memory, `Pss` counts only its share of what others use too, `Anonymous` is its own.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


@dataclass(frozen=True, slots=True)
class Growth:
    """Of daemons by so many more groups or sessions, for each of them."""

    what: str
    count: int
    here_bytes: int  # At the daemon where they are.
    there_bytes: int  # At the other one.


@dataclass(frozen=True, slots=True)
class Memory:
    """Of daemons that do nothing."""

    rss_bytes: int  # Of the first, before there was any client.
    pss_bytes: int
    growths: tuple[Growth, ...]


async def measure_memory(daemons: Daemons, groups: int, sessions: int) -> Memory:
    """Of two daemons that nobody has used yet."""
    pid = daemons.servers()[daemons.names[0]]
    rss_bytes, pss_bytes = [memory_bytes(pid, kind) for kind in ("Rss", "Pss")]
    async with AsyncExitStack() as stack:

        async def come(count: int) -> list[Session]:
            return [await stack.enter_async_context(held_session(daemons.urls[0])) for _ in range(count)]

        holders = await come(HOLDERS)
        serial = iter(range(groups + WARM))

        async def make_groups(count: int) -> None:
            names = [f"held{next(serial)}" for _ in range(count)]
            await join_all([(holders[at % HOLDERS], name) for at, name in enumerate(names)])

        growths = [
            await _growth(daemons, "group", groups, make_groups),
            await _growth(daemons, "session", sessions, come),
        ]
    return Memory(rss_bytes, pss_bytes, tuple(growths))


async def _growth(daemons: Daemons, what: str, count: int, add: Callable[[int], Awaitable[object]]) -> Growth:
    await add(WARM)
    before = await _settled(daemons)
    await add(count)
    here, there = [(now - then) // count for now, then in zip(await _settled(daemons), before, strict=True)]
    return Growth(what, count, here, there)


async def _settled(daemons: Daemons) -> list[int]:
    """What is their own, of each."""
    await asyncio.sleep(SETTLE_SECONDS)
    pids = daemons.servers()
    return [memory_bytes(pids[name], "Anonymous") for name in daemons.names]
