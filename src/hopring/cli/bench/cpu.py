"""CPU per message, as a multiple of a fixed piece of work that was measured beside it.

Rates move with whatever else a machine does; processor time moves less, and its ratio to work that never
changes is nearly the same on machines of different speed. So a baseline can be recorded of it.
"""

import json
import time
from pathlib import Path
from statistics import median
from struct import Struct
from typing import Any, Final

from hopring import compiled
from hopring.cli.bench.clock import read
from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.job import Case
from hopring.cli.bench.throughput import Throughput, measure_throughput
from hopring.value import Value

HEAD_ROOM: Final = 1.3
SETTLE_SECONDS: Final = 1.0
_ROUNDS: Final = 5
_LOOPS: Final = 2000
_HEAD: Final = Struct("<IQHH")
GATED: Final = ("sending_ratio", "receiving_ratio")


class Cpu(Value, frozen=True):
    """Of 1 KB messages in bundles, at three daemons of one site."""

    sending_us: float  # At the daemon of the sender.
    receiving_us: float  # The mean of the others.
    calibration_us: float
    sending_ratio: float  # To the calibration.
    receiving_ratio: float
    idle_percent: float  # Of a processor, the busiest daemon while nobody says anything.
    lost: int
    order_ok: bool
    compiled: bool


def calibrate() -> float:
    """Microseconds of processor time for a loop of work like ours: heads, columns, and copies of 1 KB."""
    body, best = bytes(1024), float("inf")
    for _ in range(_ROUNDS):
        begin = time.process_time()
        kept: dict[int, bytes] = {}
        for number in range(_LOOPS):
            kept[number & 63] = b"".join([_HEAD.pack(number, number, 1, 2), body])
            if _HEAD.unpack_from(kept[number & 63])[0] != number:
                raise AssertionError("a copy is a copy")
        best = min(best, (time.process_time() - begin) * 1e6 / _LOOPS)
    return best


def measure_cpu(daemons: Daemons, case: Case, runs: int, idle_seconds: float) -> Cpu:
    """Medians of some runs, each between two calibrations."""
    idle_percent = _idle_percent(daemons, idle_seconds)
    calibrations = [calibrate()]
    results: list[Throughput] = []
    for number in range(runs):
        results.append(measure_throughput(daemons, case, f"cpu{number}"))
        calibrations.append(calibrate())
    first, *others = daemons.names
    calibration_us = median(calibrations)
    sending_us = median([one.daemon_cpu_us_per_message[first] for one in results])
    receiving_us = median([one.daemon_cpu_us_per_message[name] for one in results for name in others])
    return Cpu(
        sending_us=round(sending_us, 3),
        receiving_us=round(receiving_us, 3),
        calibration_us=round(calibration_us, 4),
        sending_ratio=round(sending_us / calibration_us, 3),
        receiving_ratio=round(receiving_us / calibration_us, 3),
        idle_percent=round(idle_percent, 2),
        lost=max([one.lost for one in results]),
        order_ok=all(one.order_ok for one in results),
        compiled=compiled.active(),
    )


def _idle_percent(daemons: Daemons, seconds: float) -> float:
    time.sleep(SETTLE_SECONDS)
    before = read(daemons.servers())
    time.sleep(seconds)
    after = read(daemons.servers())
    taken = [after.taken_s[name] - before.taken_s[name] for name in after.taken_s]
    return max(taken) / (after.at_s - before.at_s) * 100


def too_dear(cpu: Cpu, baseline: dict[str, Any]) -> list[str]:
    """What takes more than the baseline and its head-room, in words; none if all is well."""
    kind = _kind(cpu)
    if kind not in baseline:
        return [f"the baseline has nothing of {kind} daemons; record it with --record"]
    out = []
    for name in GATED:
        now, then = getattr(cpu, name), baseline[kind][name]
        if now > then * HEAD_ROOM:
            percent = (now / then - 1) * 100
            out.append(f"{kind} {name} is {now}, {percent:.0f} % above the baseline {then}; 30 % is the limit")
    return out


def record(cpu: Cpu, file: Path) -> None:
    """Makes these figures the baseline of their kind; the other kind stays."""
    baseline = json.loads(file.read_text()) if file.exists() else {}
    baseline[_kind(cpu)] = {name: getattr(cpu, name) for name in GATED}
    file.write_text(json.dumps(baseline, indent=2, sort_keys=True) + "\n")


def _kind(cpu: Cpu) -> str:
    return "compiled" if cpu.compiled else "interpreted"
