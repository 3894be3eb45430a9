"""Requests and replies: one call alone beside the round trip of two clients, and calls in parallel.

    python -m hopring.bench.suite.calls [--rounds 5]

Two daemons are in one site. The caller is at one, the server, a process of its own, at the other. Round trips
and single calls take turns, so that both see the same machine. Prints JSON lines.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from typing import Final

from hopring import Request, Session, compiled, connect, local_cluster

WARM: Final = 200
SINGLES: Final = 1_000
PARALLEL: Final = 256
PARALLEL_SECONDS: Final = 2.0
DATA: Final = bytes(100)


async def serve(url: str) -> None:
    """Answers plain messages to the group `echo`, and requests to the group `calls`, until it is killed."""

    def answer(request: Request) -> bytes:
        return request.data

    async with connect(url, name="server", membership=False) as session:
        await session.join("echo")
        await session.serve("calls", answer)
        print("ready", flush=True)
        async for message in session.messages():
            await session.multicast(message.sender, message.data)


async def round_trip(session: Session) -> None:
    """A message there and one back."""
    await session.multicast("echo", DATA)
    await session.receive()


async def call(session: Session) -> None:
    """One request to one server."""
    await session.request("calls", DATA)


async def median_us(session: Session, rounds: int) -> dict[str, list[float]]:
    """The times of both, in turns."""
    times: dict[str, list[float]] = {"round trip": [], "call": []}
    for _ in range(rounds):
        for name, act in (("round trip", round_trip), ("call", call)):
            for _ in range(SINGLES):
                begin = time.perf_counter()
                await act(session)
                times[name].append((time.perf_counter() - begin) * 1e6)
    return times


async def in_parallel(session: Session) -> float:
    """Calls per second, PARALLEL of them open at a time."""
    done = 0
    end = time.perf_counter() + PARALLEL_SECONDS

    async def keep_calling() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await call(session)
            done += 1

    begin = time.perf_counter()
    await asyncio.gather(*[keep_calling() for _ in range(PARALLEL)])
    return done / (time.perf_counter() - begin)


async def measure(rounds: int) -> None:
    """Runs all cases at a cluster of its own."""
    async with local_cluster({"eu": 2}, trace=False) as cluster:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hopring.bench.suite.calls", "--serve", cluster.url("eu2")),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None, "it says when it is ready"
            assert await process.stdout.readline() == b"ready\n", "the server did not start"
            async with cluster.connect("eu1", name="caller", membership=False) as session:
                for _ in range(WARM):
                    await round_trip(session)
                    await call(session)
                times = await median_us(session, rounds)
                figures = {name: round(statistics.median(one), 1) for name, one in times.items()}
                ratio = round(figures["call"] / figures["round trip"], 3)
                builds = {"compiled": compiled.active()}
                alone = {"round_trip_us": figures["round trip"], "call_us": figures["call"], "ratio": ratio}
                print(json.dumps({"case": "one call alone, median", **alone, **builds}), flush=True)
                rates = [await in_parallel(session) for _ in range(rounds)]
                rate = {"calls_per_second": round(statistics.median(rates))}
                print(json.dumps({"case": f"{PARALLEL} calls at a time", **rate, **builds}), flush=True)
        finally:
            process.kill()
            await process.wait()


def main() -> None:
    """Runs the bench, or the server of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", metavar="URL")
    options = parser.parse_args()
    asyncio.run(serve(options.serve) if options.serve else measure(options.rounds))


if __name__ == "__main__":
    main()
