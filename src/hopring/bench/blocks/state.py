"""State to a joiner while messages go on: how long it takes, and the longest pause of the other members.

    python -m hopring.bench.blocks.state [--megabytes 100] [--rate 1000]

Two daemons are in one site; every member is a process of its own. The speaker and a sender, which sends at the
given rate, are at one daemon, a watcher and the joiner at the other. Each member measures the longest time
between two messages, from the joiner's start to its end. Prints JSON lines.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import Final

from hopring import Message, Ready, compiled, connect, local_cluster

BEGIN: Final = b"begin"
END: Final = b"end"
DATA: Final = bytes(100)
PART_BYTES: Final = 1_000_000
QUIET_SECONDS: Final = 1.0
"""The time with messages before the joiner and after it."""


class Ballast:
    """A state of this many bytes, all zero."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._part = bytes(PART_BYTES)

    def snapshot(self) -> list[bytes]:
        """The state in parts; all are the same object."""
        return [self._part] * (self.size_bytes // PART_BYTES)

    def restore(self, state: bytes) -> None:
        """Counts the bytes of the state."""
        self.size_bytes = len(state)


async def member(role: str, url: str, size_bytes: int, rate: int) -> None:
    """One member: prints `ready`, and its longest pause when the joiner is done."""
    state = Ballast(size_bytes)
    began = time.perf_counter()
    async with connect(url, name=role) as session, session.join("state", state=state) as group:
        sending: asyncio.Task[None] | None = None
        last = longest = 0.0
        async for event in group:
            now = time.perf_counter()
            if isinstance(event, Ready):
                print(json.dumps({"role": role, "seconds": round(now - began, 2), "bytes": state.size_bytes}))
                sys.stdout.flush()
                if role == "joiner":
                    await asyncio.sleep(QUIET_SECONDS)
                    await group.multicast(END)
                elif role == "sender":
                    sending = asyncio.create_task(send(group.multicast, rate))
            elif isinstance(event, Message):
                if event.data == BEGIN:
                    last, longest = now, 0.0
                longest = max(longest, now - last)
                last = now
                if event.data == END:
                    break
        if sending is not None:
            sending.cancel()
        print(json.dumps({"role": role, "longest_pause_ms": round(longest * 1_000, 1)}), flush=True)


async def send(multicast: object, rate: int) -> None:
    """Sends messages at this rate, a hundredth of a second's at a time."""
    number = 0
    began = time.perf_counter()
    while True:
        while number < (time.perf_counter() - began) * rate:
            number += 1
            await multicast(DATA)  # type: ignore[operator]
        await asyncio.sleep(0.002)


async def start(role: str, url: str, size_bytes: int, rate: int) -> asyncio.subprocess.Process:
    """Starts a member as a process."""
    options = ["--role", role, "--url", url, "--bytes", str(size_bytes), "--rate", str(rate)]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hopring.bench.blocks.state", *options), stdout=asyncio.subprocess.PIPE
    )


async def line_of(process: asyncio.subprocess.Process) -> dict[str, object]:
    """The next line of a member."""
    assert process.stdout is not None, "it is a pipe"
    fields: dict[str, object] = json.loads(await process.stdout.readline())
    return fields


async def measure(size_bytes: int, rate: int) -> None:
    """Runs the members at a cluster of their own."""
    places = {"a-speaker": "eu1", "sender": "eu1", "watcher": "eu2"}
    async with local_cluster({"eu": 2}, trace=False) as cluster:
        others = []
        for role, daemon in places.items():
            others.append(await start(role, cluster.url(daemon), size_bytes, rate))
            await line_of(others[-1])
        async with cluster.connect("eu1", name="bench", membership=False) as session:
            await asyncio.sleep(QUIET_SECONDS)
            await session.multicast("state", BEGIN)
        joiner = await start("joiner", cluster.url("eu2"), 0, rate)
        facts = {"messages_per_second": rate, "compiled": compiled.active()}
        print(json.dumps({**await line_of(joiner), **facts}), flush=True)
        for process in others:
            print(json.dumps({**await line_of(process), **facts}), flush=True)
        for process in (*others, joiner):
            await process.wait()


def main() -> None:
    """Runs the bench, or a member of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--role")
    parser.add_argument("--url")
    parser.add_argument("--bytes", type=int, default=0)
    options = parser.parse_args()
    if options.role:
        asyncio.run(member(options.role, options.url, options.bytes, options.rate))
    else:
        asyncio.run(measure(options.megabytes * 1_000_000, options.rate))


if __name__ == "__main__":
    main()
