"""Priority: how long messages of one session take while bulk sessions saturate two daemons.

Two sites on loopback, a daemon each. Two processes send and take bulk, one at each daemon; another one sends
Agreed messages from a session at one daemon to a session at the other, with priority and without. All share the
machine's processors, so a figure says as much about them as about the daemons.

Messages go at irregular times: at regular ones they would come in step with the promises of the sites, for
which an Agreed message waits, and a figure would say only by how much they miss them.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

from hopring import Group, Message, View, connect
from hopring.config import ClientRight, ClientTuning, dump_toml, local_config

BASE_PORT: Final = 24_820
PORTS: Final = (BASE_PORT + 1, BASE_PORT + 3)
PROBES: Final = 500
PROBE_EVERY_S_MAX: Final = 0.03
BODY_BYTES: Final = 10_000
WARM_S: Final = 3.0


async def bulk(port: int) -> None:
    """Sends and receives as fast as it can; prints every second how many messages it sent."""
    async with connect(f"hop://127.0.0.1:{port}", membership=False, slow="drop") as session:
        group = await session.join("bulk")

        count, said_at = 0, time.monotonic()

        async def send() -> None:
            nonlocal count
            while True:
                await group.multicast(bytes(BODY_BYTES))
                count += 1

        sending = asyncio.create_task(send())
        while True:
            await group.receive()
            if time.monotonic() - said_at >= 1.0:
                print(count, flush=True)
                count, said_at = 0, time.monotonic()
        await sending


async def next_message(group: Group) -> Message:
    """The next message; views are skipped."""
    while True:
        event = await group.receive()
        if isinstance(event, Message):
            return event


async def probe(priority: bool) -> list[float]:
    """Latencies from one daemon's client to the other's, in ms; the order is checked."""
    async with (
        connect(f"hop://127.0.0.1:{PORTS[0]}", priority=priority) as one,
        connect(f"hop://127.0.0.1:{PORTS[1]}", priority=priority) as two,
    ):
        here, there = await one.join("probe"), await two.join("probe")
        while True:
            event = await there.receive()
            if isinstance(event, View) and len(event.members) == 2:
                break
        taken, dice = [], Random(PROBES)
        for at in range(PROBES):
            begin = time.monotonic()
            await here.multicast(b"%d" % at, self_discard=True)
            message = await next_message(there)
            taken.append((time.monotonic() - begin) * 1000)
            assert message.data == b"%d" % at, "order is kept"
            await asyncio.sleep(dice.uniform(0, PROBE_EVERY_S_MAX))
        return taken


def figures(case: str, taken: list[float], **more: object) -> float:
    """Prints the figures; returns the 99th percentile."""
    p99 = quantiles(taken, n=100)[-1]
    facts = {"median_ms": round(median(taken), 2), "p99_ms": round(p99, 2), "max_ms": round(max(taken), 2)}
    print(json.dumps({"case": case, **facts, **more}), flush=True)
    return p99


def measure() -> None:
    """Measures all cases on running daemons."""
    idle = figures("idle", asyncio.run(probe(priority=True)))
    command = [sys.executable, "-m", "hopring.bench.suite.priority", "bulk"]
    bulks = [subprocess.Popen([*command, str(port)], stdout=subprocess.PIPE, text=True) for port in PORTS]
    try:
        time.sleep(WARM_S)
        for priority in (True, False):
            taken = asyncio.run(probe(priority))
            case = f"saturated, {'with' if priority else 'without'} priority"
            figures(case, taken, times_idle=round(quantiles(taken, n=100)[-1] / idle, 1))
    finally:
        for process in bulks:
            process.terminate()
    for process in bulks:
        rates = [int(line) for line in process.communicate()[0].split()]
        print(json.dumps({"case": "bulk", "sent_per_s": round(median(rates)) if rates else 0}), flush=True)


def main() -> None:
    """Starts two daemons and prints the figures."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "hop.toml"
        config = local_config({"eu": 1, "us": 1}, base_port=BASE_PORT)
        file.write_text(dump_toml(replace(config, clients=ClientTuning(allow=(ClientRight.PRIORITY,)))))
        logs = [Path(directory) / name for name in ("eu1", "us1")]
        daemons = []
        for log in logs:
            command = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", log.name]
            with log.open("w") as stderr:
                daemons.append(subprocess.Popen([*command, "--state", directory], stderr=stderr))
        try:
            while not all("size=2" in log.read_text() for log in logs):
                assert all(daemon.poll() is None for daemon in daemons), "a daemon ended"
                time.sleep(0.1)
            measure()
        finally:
            for daemon in daemons:
                daemon.terminate()
            for daemon in daemons:
                daemon.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["bulk"]:
        asyncio.run(bulk(int(sys.argv[2])))
    else:
        main()
