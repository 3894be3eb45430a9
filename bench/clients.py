"""Clients: how many messages a second two daemons carry for two clients, and how long one message takes.

Two sites on loopback, a client at each, all in one machine; so client and daemons share its processors.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

from hopring import AGREED, SAFE, Group, Message, Service, View, connect
from hopring.config import dump_toml, local_config

BASE_PORT: Final = 24_800
MESSAGES: Final = 20_000
PROBES: Final = 200
PROBE_EVERY_S: Final = 0.01


async def receive(group: Group, count: int) -> None:
    """Takes so many messages."""
    while count:
        count -= isinstance(await group.receive(), Message)


async def meet(group: Group) -> None:
    """Waits for a view of two."""
    while True:
        event = await group.receive()
        if isinstance(event, View) and len(event.members) == 2:
            return


async def flood(sender: Group, other: Group, size_bytes: int) -> float:
    """Messages per second, received by both."""

    async def send() -> None:
        for _ in range(MESSAGES):
            await sender.multicast(bytes(size_bytes))

    begin = time.monotonic()
    await asyncio.gather(send(), receive(sender, MESSAGES), receive(other, MESSAGES))
    return MESSAGES / (time.monotonic() - begin)


async def probe(sender: Group, other: Group, service: Service) -> list[float]:
    """Milliseconds from one client to the other, one message at a time."""
    taken = []
    for _ in range(PROBES):
        begin = time.monotonic()
        await sender.multicast(b"probe", service=service)
        await receive(other, 1)
        taken.append((time.monotonic() - begin) * 1000)
        await receive(sender, 1)
        await asyncio.sleep(PROBE_EVERY_S)
    return taken


async def measure() -> None:
    """All cases, on daemons that run."""
    url = f"hop://127.0.0.1:{BASE_PORT + 1}"
    async with connect(url) as one, connect(f"hop://127.0.0.1:{BASE_PORT + 3}") as two:
        here, there = await one.join("bench"), await two.join("bench")
        await meet(here)
        await meet(there)
        for size_bytes in (100, 1000):
            rate = await flood(here, there, size_bytes)
            print(json.dumps({"case": f"flood of {size_bytes} B", "messages_per_s": round(rate)}), flush=True)
        for service in (AGREED, SAFE):
            taken = await probe(here, there, service)
            figures = {"median_ms": round(median(taken), 2), "p99_ms": round(quantiles(taken, n=100)[-1], 2)}
            print(json.dumps({"case": f"latency, {service.name.lower()}", **figures}), flush=True)


def main() -> None:
    """Starts two daemons and prints the figures."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "hop.toml"
        file.write_text(dump_toml(local_config({"eu": 1, "us": 1}, base_port=BASE_PORT)))
        daemons = []
        logs = [Path(directory) / name for name in ("eu1", "us1")]
        for log in logs:
            command = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", log.name]
            with log.open("w") as stderr:
                daemons.append(subprocess.Popen([*command, "--state", directory], stderr=stderr))
        try:
            while not all("size=2" in log.read_text() for log in logs):
                assert all(daemon.poll() is None for daemon in daemons), (
                    logs[0].read_text() + logs[1].read_text()
                )
                time.sleep(0.1)
            asyncio.run(measure())
        finally:
            for daemon in daemons:
                daemon.terminate()
            for daemon in daemons:
                daemon.wait()


if __name__ == "__main__":
    main()
