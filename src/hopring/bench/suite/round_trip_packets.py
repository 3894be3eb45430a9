"""Instructions of the datagrams of one round trip of two clients, at all three daemons together, with valgrind.

    python -m hopring.bench.suite.round_trip_packets [--functions 30] [--sealed]

A round trip has five datagrams: who asks sends a short packet and the token, as one datagram, to the other two
daemons, who answers does the same, and the third passes the token back. Here three daemons' `Datagrams` on
loopback sockets of one process send and receive exactly these, without clients, ordering and timers: what is
counted is all between frames and system calls. So the count is the same in each run, other than that of whole
daemons under valgrind, where the token comes round more often. Instructions of the kernel are not counted.
Prints JSON, and on stderr the functions that take the most. Needs valgrind and compiled modules.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hopring import compiled
from hopring.bench.harness.daemons import ports_for
from hopring.bench.suite.instructions import CallgrindCounts, control, tool
from hopring.config import Config, cluster_hash, local_config
from hopring.daemon.loop.event_loop import READABLE, Loop
from hopring.daemon.net.datagrams import Datagrams
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.links.ring.options import RingOptions
from hopring.links.ring.token import first_token
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.stack_events import Identity, SendSite, SendTo
from hopring.wire.data import Data
from hopring.wire.header import Family
from hopring.wire.train import Frame, Packet

SITE: Final = {"a": 3}
ASKS, ANSWERS, THIRD = DaemonId(0), DaemonId(1), DaemonId(2)
PAYLOAD: Final = bytes(200)
"""A bundle with one message of 100 bytes."""

TOKEN: Final = first_token(0)
WARM_ROUNDS: Final = 200
ROUNDS: Final = 500
FRAMES: Final = 7
"""What arrives in a round: the packet twice, the answer twice, and the token three times."""


class DatagramSite:
    """The datagrams of three daemons of one site."""

    def __init__(self, sealed: bool) -> None:
        self.frames = 0
        """Frames that have arrived."""
        config = local_config(SITE, base_port=ports_for(SITE))
        self._loop = Loop()
        self._seq = 0
        members = [Process(DaemonId(at), Incarnation(2**60 + at)) for at in range(3)]
        self._daemons = [self._open(config, me, sealed) for me in members]
        for me, daemon in zip(members, self._daemons, strict=True):
            own = Identity(me.daemon, me.incarnation, cluster_hash(config), Generation(5))
            daemon.begin(own, [one.daemon for one in members])

    def _open(self, config: Config, me: Process, sealed: bool) -> Datagrams:
        sealing: Sealing | None = None
        if sealed:
            key = ClusterKey(b"k" * 32)
            cluster = SealedCluster(config.cluster, cluster_hash(config), len(config.daemons))
            sealing = Sealing(me, cluster, KeyRing([key], key.id), bytes(SECRET_BYTES))
        return Datagrams(self._loop, config, me, RingOptions().segment_bytes, self._take, sealing)

    def _take(self, packet: Packet) -> None:
        self.frames += len(packet.frames)

    def run(self) -> None:
        """Runs the rounds within the loop, whose clock then stands still, and has only them counted."""
        self._loop.call_soon(self._count)
        self._loop.run()

    def _count(self) -> None:
        self._meet()
        for _ in range(WARM_ROUNDS):
            self._round_trip()
        before = self.frames
        control("--instr=on", os.getpid())
        for _ in range(ROUNDS):
            self._round_trip()
        control("--instr=off", os.getpid())
        control("--dump", os.getpid())
        self._loop.stop()
        if self.frames - before != FRAMES * ROUNDS:
            sys.exit(f"{self.frames - before} frames arrived in {ROUNDS} rounds")

    def _meet(self) -> None:
        """Has the daemons answer each other's challenges."""
        for _ in range(4):
            for at, daemon in enumerate(self._daemons):
                for other in DaemonId((at + 1) % 3), DaemonId((at + 2) % 3):
                    daemon.send([SendTo(other, Family.RING, (TOKEN,))])
            for daemon in self._daemons:
                daemon.endpoint.drain()

    def _round_trip(self) -> None:
        """The five datagrams of a round trip."""
        self._send(ASKS, ANSWERS)
        self._read(ANSWERS)
        self._send(ANSWERS, THIRD)
        self._read(ASKS)
        self._read(THIRD)
        self._read(THIRD)
        self._daemons[THIRD].send([SendTo(ASKS, Family.RING, (TOKEN,))])
        self._read(ASKS)

    def _send(self, me: DaemonId, follower: DaemonId) -> None:
        self._seq += 1
        packet: tuple[Frame, ...] = (Data(self._seq, PAYLOAD),)
        self._daemons[me].send([SendSite(packet), SendTo(follower, Family.RING, (TOKEN,))])

    def _read(self, me: DaemonId) -> None:
        self._daemons[me].endpoint._ready(READABLE)


def count(sealed: bool, directory: Path) -> CallgrindCounts:
    """Counts the rounds in a process of its own."""
    out = directory / "callgrind"
    words = [sys.executable, "-m", "hopring.bench.suite.round_trip_packets", "--counted"]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    command = [*tool(out), *words, *(["--sealed"] if sealed else [])]
    subprocess.run(command, env=environment, check=True)
    return CallgrindCounts(out.with_name("callgrind.1"))


def main() -> None:
    """Counts and prints the figure."""
    parser = argparse.ArgumentParser("hopring.bench.suite.round_trip_packets")
    parser.add_argument("--sealed", action="store_true", help="with cluster keys")
    parser.add_argument(
        "--functions", type=int, default=0, metavar="N", help="show the N most expensive functions"
    )
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        DatagramSite(options.sealed).run()
        return
    if shutil.which("valgrind") is None or not compiled.active():
        message = "bench: round_trip_packets: needs valgrind, and `make compile`; left out"
        print(message, file=sys.stderr)
        return
    with TemporaryDirectory(prefix="hop-bench-") as name:
        counts = count(options.sealed, Path(name))
    figures = {"bench": "round_trip_packets", "sealed": options.sealed, "instructions": counts.total // ROUNDS}
    print(json.dumps(figures), flush=True)
    for function, total in counts.by_function().most_common(options.functions):
        print(f"{total // ROUNDS:>10,}  {function.removeprefix('CPyDef_')}", file=sys.stderr)


if __name__ == "__main__":
    main()
