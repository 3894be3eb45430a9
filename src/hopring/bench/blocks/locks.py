"""Kills of a lock's holder, and of its daemon: how long until the next one has it, and whether all is right.

    python -m hopring.bench.blocks.locks [--kills 20] [--daemons 5] [--patience 500ms]

Three daemons are in one site, and at each a process claims the same lock. The present holder is ended with
SIGKILL, or its daemon is; a new process takes its place in the queue. Every time is that of the clock of this
machine, so it is known whether the next one had the lock before the last one had ended, or had learned of its
loss. Prints JSON lines: the times in milliseconds, in which the lease is included. It fails with an error if
fences do not rise, or two had the lock at once.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, Queue
from statistics import median
from typing import Final

from hopring import compiled, sync

GROUP: Final = "rows"
LOCK: Final = "row"
SITES: Final = {"eu": 3}
SECONDS_MAX: Final = 60.0
LOOK_SECONDS: Final = 0.005
PATIENCE: Final = "500ms"


class Killed(StrEnum):
    """What a kill ends: a process or its daemon."""

    HOLDER = "holder"
    DAEMON = "daemon"


@dataclass(frozen=True, slots=True)
class ClaimProcess:
    """A process that claims the lock, and the daemon that it is at."""

    daemon: str
    process: subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class LockEvent:
    """A grant or a loss that a claim has reported."""

    claim: ClaimProcess
    fence: int | None  # None: it has lost the lock.
    at_ns: int


@dataclass(frozen=True, slots=True)
class Takeover:
    """One kill, and the holder that followed."""

    killed: Killed
    fence: int
    took_ms: float  # From the kill to the grant, as the next holder knows it.
    apart_ms: float  # From the end of the last holder, or from when it knew of its loss; never negative.


class LockKills:
    """Claims of one lock at all daemons of a cluster, and the kills of its holders."""

    def __init__(self, cluster: sync.Cluster) -> None:
        """Starts the claims; the first holder is there when this returns."""
        self._cluster = cluster
        self._events: Queue[LockEvent] = Queue()
        self._claims: dict[str, ClaimProcess] = {}
        for daemon in cluster.daemons:
            self._claim(daemon)
        self._holder = self._granted()

    def kill(self, killed: Killed) -> Takeover:
        """Kills the holder or its daemon, waits for the next one, and replaces what was killed."""
        holder, last = self._holder.claim, self._holder
        assert self._events.empty(), "nobody gets or loses the lock between kills"
        began_ns = ended_ns = time.monotonic_ns()
        if killed is Killed.HOLDER:
            os.kill(holder.process.pid, signal.SIGKILL)
        else:
            self._cluster.crash(holder.daemon)
            lost = self._next()
            assert (lost.claim, lost.fence) == (holder, None), (
                "the last holder learns of it before there is another"
            )
            ended_ns = lost.at_ns
        self._holder = self._granted()
        fence = self._holder.fence
        assert fence is not None, "it was granted"
        assert last.fence is not None, "it was granted"
        assert fence > last.fence, f"fence {fence} after {last.fence}"
        assert self._holder.at_ns > ended_ns, "two had the lock at once"
        if killed is Killed.DAEMON:
            self._cluster.restart(holder.daemon)
            self._cluster.settled()
        self._end(holder)
        self._claim(holder.daemon)
        return Takeover(
            killed, fence, (self._holder.at_ns - began_ns) / 1e6, (self._holder.at_ns - ended_ns) / 1e6
        )

    def close(self) -> None:
        """Ends the processes of all claims."""
        for claim in self._claims.values():
            self._end(claim)

    def _claim(self, daemon: str) -> None:
        command = [sys.executable, "-m", "hopring.bench.blocks.locks", "--claim", self._cluster.url(daemon)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        claim = self._claims[daemon] = ClaimProcess(daemon, process)
        assert process.stdout is not None, "it is a pipe"
        assert process.stdout.readline() == "claims\n", "the claim did not begin"
        threading.Thread(target=self._listen, args=[claim], daemon=True).start()

    def _listen(self, claim: ClaimProcess) -> None:
        assert claim.process.stdout is not None, "it is a pipe"
        for line in claim.process.stdout:
            told = json.loads(line)
            self._events.put(LockEvent(claim, told["fence"], told["at_ns"]))

    def _next(self) -> LockEvent:
        try:
            return self._events.get(timeout=SECONDS_MAX)
        except Empty:
            raise TimeoutError(f"nobody had the lock within {SECONDS_MAX:g} s") from None

    def _granted(self) -> LockEvent:
        event = self._next()
        assert event.fence is not None, "nobody but the killed one loses the lock"
        return event

    @staticmethod
    def _end(claim: ClaimProcess) -> None:
        claim.process.kill()
        claim.process.wait()


def claim_lock(url: str) -> None:
    """Claims the lock, and reports its grant and its loss with their times; in a process of its own."""

    def say(fence: int | None) -> None:
        print(json.dumps({"fence": fence, "at_ns": time.monotonic_ns()}), flush=True)

    with sync.connect(url, reconnect=False, timeout_seconds=SECONDS_MAX) as session:
        locking = session.join(GROUP).lock(LOCK)
        print("claims", flush=True)
        say(locking.acquire())
        while locking.held:
            time.sleep(LOOK_SECONDS)
        say(None)


def measure(kills: dict[Killed, int], patience: str) -> None:
    """Kills holders, and then daemons, and prints the times."""
    with sync.local_cluster(SITES, trace=False, patience=patience) as cluster:
        claims = LockKills(cluster)
        try:
            for killed, count in kills.items():
                found = sorted([claims.kill(killed).took_ms for _ in range(count)])
                if found:
                    times = {"median_ms": median(found), "worst_ms": found[-1]}
                    facts = {"kills": count, "patience": patience, "compiled": compiled.active()}
                    shown = {key: round(value, 1) for key, value in times.items()}
                    print(json.dumps({"killed": killed.value, **shown, **facts}), flush=True)
        finally:
            claims.close()


def main() -> None:
    """Runs the bench, or one of its claims."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20, help="of holders")
    parser.add_argument("--daemons", type=int, default=5, help="of holders' daemons")
    parser.add_argument("--patience", default=PATIENCE, help="how long a daemon may be silent")
    parser.add_argument("--claim", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.claim:
        claim_lock(options.claim)
    else:
        measure({Killed.HOLDER: options.kills, Killed.DAEMON: options.daemons}, options.patience)


if __name__ == "__main__":
    main()
