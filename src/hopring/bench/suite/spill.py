"""Spill: a reader takes nothing for a minute while its group runs at full load, and then catches up from disk.

One site on loopback with two daemons. One process sends numbered Agreed messages as fast as it may; a session
at the other daemon takes them as fast as it can, and the silent session is at the same daemon. Both spill: a
Python program that takes message by message is slower than the daemons.
"""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from hopring import Gap, Group, Message, connect, local_cluster

BODY_BYTES: Final = 1_000
SILENT_S: Final = 60.0
END: Final = b"end"


async def send(url: str, seconds: float) -> None:
    """Sends numbered messages for some seconds, then the end mark."""
    async with connect(url, membership=False) as session:
        sent, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            await session.multicast("load", (b"%d" % sent).ljust(BODY_BYTES))
            sent += 1
        await session.multicast("load", END)


async def count(group: Group) -> int:
    """Receives everything up to the end mark; asserts that no number is missing or repeated."""
    taken = 0
    while True:
        event = await group.receive()
        assert not isinstance(event, Gap), "nothing may be lost"
        if isinstance(event, Message):
            if event.data == END:
                return taken
            assert int(event.data) == taken, f"{int(event.data)} instead of {taken}"
            taken += 1


def on_disk_mbytes(state: Path) -> float:
    """The size of all spill files."""
    return round(sum(file.stat().st_size for file in state.glob("**/*.spill/*")) / 1e6, 1)


async def main() -> None:
    """Starts two daemons and prints the figures."""
    async with (
        local_cluster({"eu": 2}, trace=False) as cluster,
        cluster.connect("eu2", membership=False, slow="spill") as slow,
        cluster.connect("eu2", membership=False, slow="spill") as quick,
    ):
        silent, along = await slow.join("load"), await quick.join("load")
        begin = time.monotonic()
        sender = subprocess.Popen(
            [sys.executable, "-m", "hopring.bench.suite.spill", cluster.url("eu1"), str(SILENT_S)]
        )
        expected = await count(along)
        silent_s = time.monotonic() - begin
        assert sender.wait() == 0, "the sender failed"
        disk_mbytes = on_disk_mbytes(cluster.directory)
        begin = time.monotonic()
        taken = await count(silent)
        caught_up_s = time.monotonic() - begin
        left_mbytes = on_disk_mbytes(cluster.directory)
    assert taken == expected, "all of them"
    figures = {
        "silent_s": round(silent_s, 1),
        "messages": taken,
        "messages_per_s": round(taken / silent_s),
        "disk_mbytes": disk_mbytes,
        "caught_up_s": round(caught_up_s, 1),
        "caught_up_messages_per_s": round(taken / caught_up_s),
        "disk_mbytes_after": left_mbytes,
    }
    print(json.dumps({"case": "one reader silent", **figures}), flush=True)


if __name__ == "__main__":
    asyncio.run(send(sys.argv[1], float(sys.argv[2])) if len(sys.argv) > 1 else main())
