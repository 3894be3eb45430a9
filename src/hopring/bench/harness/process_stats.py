"""Processor time of processes, of all their threads, to the nanosecond: the process CPU clock."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """What a process has taken so far; ProcessLookupError if there is none."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        raise ProcessLookupError(pid) from None


def wakes(pid: int) -> int:
    """How often a process has gone to sleep and been woken so far; ProcessLookupError if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def memory_bytes(pid: int, kind: str) -> int:
    """Of a process, by the kernel's words; ProcessLookupError if there is none.

    `Rss` is all that is in memory, `Pss` counts only its share of what others use too, `Anonymous` is its own.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


class CpuReading(NamedTuple):
    """Clocks at one moment."""

    at_s: float
    taken_s: dict[str, float]  # By name of the process.
    busy_s: float  # All processors together, everybody's work.


def read_cpu(pids: dict[str, int]) -> CpuReading:
    """The clocks of these processes, and of the machine."""
    return CpuReading(time.monotonic(), {name: cpu_seconds(pid) for name, pid in pids.items()}, _busy_s())


def others_share(before: CpuReading, after: CpuReading, processors: int) -> float:
    """The part of the machine that was busy with somebody else's work: a reason to doubt what was measured."""
    ours = sum(after.taken_s.values()) - sum(before.taken_s.values())
    whole = (after.at_s - before.at_s) * processors
    return round(max(0.0, after.busy_s - before.busy_s - ours) / whole, 2)


def _busy_s() -> float:
    user, nice, system, _idle, _wait, hard, soft, *_ = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    return sum(map(int, (user, nice, system, hard, soft))) / os.sysconf("SC_CLK_TCK")
