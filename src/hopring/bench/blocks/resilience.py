"""Resilient messages beside Agreed and Safe ones: throughput and latency, in turns on the same machine.

    python -m hopring.bench.blocks.resilience [--rounds 7] [--seconds 1.0]

Three daemons are in one site. The sender is a member at one, a receiver, a process of its own, at another.
Latency is the time until the sender gets its own message; throughput counts the messages of 1 KB that the
receiver gets. All levels take turns, so they see the same machine. Prints JSON lines: the medians, and their
ratios to Agreed.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import Final, NamedTuple

from hopring import AGREED, MAJORITY, SAFE, Message, Quorum, Service, Session, compiled, connect, local_cluster

SITE: Final = {"eu": 3}
PROBES: Final = 300
WARM: Final = 100
SHORT: Final = bytes(100)
DATA: Final = bytes(1024)
MANY: Final = [DATA] * 50
END: Final = b"end"


class Level(NamedTuple):
    """How a message is sent."""

    name: str
    service: Service
    resilience: int | Quorum = 0


LEVELS: Final = (
    Level("agreed", AGREED),
    Level("resilience=1", AGREED, 1),
    Level("majority", AGREED, MAJORITY),
    Level("safe", SAFE),
)


async def count(url: str) -> None:
    """Counts the messages of each flood, and tells it and its duration in seconds; until it is killed."""
    async with connect(url, name="receiver", membership=False) as session, session.join("flood"):
        print("ready", flush=True)
        number, began = 0, 0.0
        async for message in session.messages():
            if message.data == END:
                print(json.dumps({"messages": number, "seconds": time.perf_counter() - began}), flush=True)
                number = 0
                continue
            if number == 0:
                began = time.perf_counter()
            number += 1


async def delay_us(session: Session, level: Level) -> float:
    """The median time until a message of this level is back."""
    taken = []
    for _ in range(PROBES):
        begin = time.perf_counter()
        await session.multicast("back", SHORT, service=level.service, resilience=level.resilience)
        while not isinstance(await session.receive(), Message):
            continue
        taken.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(taken)


async def rate(session: Session, level: Level, seconds: float, receiver: asyncio.subprocess.Process) -> float:
    """The messages per second that the receiver gets in a flood of this level."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        await session.multicast_many("flood", MANY, service=level.service, resilience=level.resilience)
    await session.multicast("flood", END, service=level.service, resilience=level.resilience)
    assert receiver.stdout is not None, "it is a pipe"
    told = json.loads(await receiver.stdout.readline())
    return float(told["messages"] / told["seconds"])


async def measure(rounds: int, seconds: float) -> None:
    """Runs all levels in turns at a cluster of its own."""
    async with local_cluster(SITE, trace=False) as cluster:
        words = [sys.executable, "-m", "hopring.bench.blocks.resilience", "--receive", cluster.url("eu2")]
        receiver = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        try:
            assert receiver.stdout is not None, "it is a pipe"
            assert await receiver.stdout.readline() == b"ready\n", "the receiver did not start"
            async with cluster.connect("eu1", name="sender", membership=False) as session, session.join("back"):
                delays: dict[str, list[float]] = {level.name: [] for level in LEVELS}
                rates: dict[str, list[float]] = {level.name: [] for level in LEVELS}
                for _ in range(WARM):
                    await session.multicast_wait("back", SHORT, resilience=1)
                    await session.receive()
                for _ in range(rounds):
                    for level in LEVELS:
                        delays[level.name].append(await delay_us(session, level))
                        rates[level.name].append(await rate(session, level, seconds, receiver))
        finally:
            receiver.kill()
            await receiver.wait()
    show("latency_us", delays)
    show("messages_per_second", rates)


def show(case: str, found: dict[str, list[float]]) -> None:
    """Prints the medians of all levels, and their ratios to Agreed."""
    medians = {name: round(statistics.median(some), 1) for name, some in found.items()}
    ratios = {name: round(one / medians["agreed"], 3) for name, one in medians.items() if name != "agreed"}
    facts = {"case": case, **medians, "to agreed": ratios, "compiled": compiled.active()}
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Runs the bench, or its receiver."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--receive", metavar="URL")
    options = parser.parse_args()
    asyncio.run(count(options.receive) if options.receive else measure(options.rounds, options.seconds))


if __name__ == "__main__":
    main()
