"""CPU time, wake-ups and memory of processes, from the kernel."""

import os
import time
from pathlib import Path
from typing import NamedTuple

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads, in nanosecond resolution; ProcessLookupError if there is none."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        raise ProcessLookupError(pid) from None


def wakes(pid: int) -> int:
    """How often a process has been woken; ProcessLookupError if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def memory_bytes(pid: int, kind: str) -> int:
    """Memory of a process of a kind named as in /proc; ProcessLookupError if there is none.

    `Rss` is everything resident, `Pss` counts shared pages in proportion, `Anonymous` is its own.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


class CpuReading(NamedTuple):
    """CPU clocks of processes and of the machine."""

    at_s: float
    taken_s: dict[str, float]  # By name of the process.
    busy_s: float  # All processors and processes together.


def read_cpu(pids: dict[str, int]) -> CpuReading:
    """Reads the CPU clocks of these processes and of the machine."""
    return CpuReading(time.monotonic(), {name: cpu_seconds(pid) for name, pid in pids.items()}, _busy_s())


def others_share(before: CpuReading, after: CpuReading, processors: int) -> float:
    """The share of the machine that other processes used: a reason to doubt a measurement."""
    ours = sum(after.taken_s.values()) - sum(before.taken_s.values())
    whole = (after.at_s - before.at_s) * processors
    return round(max(0.0, after.busy_s - before.busy_s - ours) / whole, 2)


def _busy_s() -> float:
    user, nice, system, _idle, _wait, hard, soft, *_ = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    return sum(map(int, (user, nice, system, hard, soft))) / os.sysconf("SC_CLK_TCK")
