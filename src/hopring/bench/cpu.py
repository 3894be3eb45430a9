"""`hop bench cpu`: CPU time per message, as a multiple of a fixed piece of work measured at the same time.

Rates vary with the load of a machine; CPU time varies less, and its ratio to constant work takes out the speed
of the machine. So a baseline can be recorded; docs/performance.md says how far it still varies.
"""

import json
import time
from functools import partial
from pathlib import Path
from statistics import fmean, median
from struct import Struct
from typing import Final

import click
import msgspec

from hopring import compiled
from hopring.bench.harness.daemons import BenchDaemons, in_clear_and_sealed
from hopring.bench.harness.figures import both_columns, both_columns_text, summary
from hopring.bench.harness.processes import ReportStep, no_progress, read_cpu, with_run_number
from hopring.bench.harness.workload import BenchWorkload
from hopring.bench.options import sealed_option, seconds_option
from hopring.bench.throughput import ThroughputResult, measure_throughput
from hopring.cli.daemon_session import json_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Failure

HEAD_ROOM: Final = 1.3
OTHERS_SHARE_MAX: Final = 0.1
SETTLE_SECONDS: Final = 1.0
CALIBRATE_EVERY_SECONDS: Final = 0.05
_LOOPS: Final = 500
_HEAD: Final = Struct("<IQHH")
GATED: Final = ("sending_ratio", "receiving_ratio")
_PLAIN: Final = ("sending_us", "receiving_us", "calibration_us", "idle_percent")


class CpuResult(msgspec.Struct, frozen=True):
    """CPU cost of 1 KB messages in bundles, at three daemons of one site."""

    sending_us: float  # At the daemon of the sender.
    receiving_us: float  # The mean of the others.
    calibration_us: float
    sending_ratio: float  # To the calibration.
    receiving_ratio: float
    idle_percent: float  # Of one processor: the busiest of the idle daemons.
    others_cpu_share: float  # CPU share of other processes; above a tenth, record nothing.
    lost: int
    order_ok: bool
    compiled: bool


def calibrate() -> float:
    """CPU microseconds of one round of the calibration: heads, columns and copies of 1 KB."""
    body, kept = bytes(1024), dict[int, bytes]()
    begin = time.process_time_ns()
    for number in range(_LOOPS):
        kept[number & 63] = b"".join([_HEAD.pack(number, number, 1, 2), body])
        if _HEAD.unpack_from(kept[number & 63])[0] != number:
            raise AssertionError("a copy begins with its number")
    return (time.process_time_ns() - begin) / 1000 / _LOOPS


def measure_cpu(
    daemons: BenchDaemons,
    workload: BenchWorkload,
    runs: int,
    idle_seconds: float,
    say: ReportStep = no_progress,
) -> CpuResult:
    """Medians of some runs, divided by the least calibration made during them.

    The least calibration hardly varies and measures the speed of the machine. Their median doubles now and then
    on a machine that shares its processors, while the daemons' cost does not.
    """
    say(f"measuring idle daemons for {idle_seconds:g} s")
    idle_percent = _idle_percent(daemons, idle_seconds)
    results: list[ThroughputResult] = []
    calibrations: list[float] = []
    for number in range(runs):
        group, told = f"cpu-{time.monotonic_ns()}", with_run_number(say, number, runs)
        results.append(
            measure_throughput(daemons, workload, group, partial(_calibrate_for, calibrations), told)
        )
    first, *others = daemons.names
    cpu_us = [one.daemon_cpu_us_per_message for one in results]
    sending_us = median([one[first] for one in cpu_us])
    receiving_us = median([fmean([one[name] for name in others]) for one in cpu_us])
    calibration_us = min(calibrations)
    return CpuResult(
        sending_us=round(sending_us, 3),
        receiving_us=round(receiving_us, 3),
        calibration_us=round(calibration_us, 4),
        sending_ratio=round(sending_us / calibration_us, 2),
        receiving_ratio=round(receiving_us / calibration_us, 2),
        idle_percent=round(idle_percent, 2),
        others_cpu_share=max([one.others_cpu_share for one in results]),
        lost=max([one.lost for one in results]),
        order_ok=all(one.order_ok for one in results),
        compiled=compiled.active(),
    )


def _calibrate_for(calibrations: list[float], seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0:
        calibrations.append(calibrate())
        time.sleep(min(left_s, CALIBRATE_EVERY_SECONDS))


def least(one: CpuResult, other: CpuResult) -> CpuResult:
    """The lesser of each figure of two measurements; losses add up."""
    lesser = {name: min(getattr(one, name), getattr(other, name)) for name in (*GATED, *_PLAIN)}
    return msgspec.structs.replace(
        one, **lesser, lost=max(one.lost, other.lost), order_ok=one.order_ok and other.order_ok
    )


def _idle_percent(daemons: BenchDaemons, seconds: float) -> float:
    time.sleep(SETTLE_SECONDS)
    before = read_cpu(daemons.servers())
    time.sleep(seconds)
    after = read_cpu(daemons.servers())
    taken = [after.taken_s[name] - before.taken_s[name] for name in after.taken_s]
    return max(taken) / (after.at_s - before.at_s) * 100


def above_baseline(cpu: CpuResult, baseline: dict[str, dict[str, float]]) -> list[str]:
    """A text for each figure above the baseline and its headroom."""
    kind = _kind(cpu)
    if not set(GATED) <= set(baseline.get(kind, {})):
        return [f"the baseline has nothing of {kind} daemons; record it with --record"]
    out = []
    for name in GATED:
        now, then = getattr(cpu, name), baseline[kind][name]
        if now > then * HEAD_ROOM:
            percent = (now / then - 1) * 100
            out.append(f"{kind} {name} is {now}, {percent:.0f} % above the baseline {then}; 30 % is the limit")
    if out and cpu.others_cpu_share > OTHERS_SHARE_MAX:
        out.append(f"others took {cpu.others_cpu_share:.0%} of the machine, so measure again when it is quiet")
    return out


def record(cpu: CpuResult, file: Path) -> None:
    """Records these figures as the baseline of their kind of build; the other kind stays."""
    baseline = json.loads(file.read_text()) if file.exists() else {}
    baseline[_kind(cpu)] = {name: getattr(cpu, name) for name in GATED}
    file.write_text(json.dumps(baseline, indent=2, sort_keys=True) + "\n")


def _kind(cpu: CpuResult) -> str:
    return "compiled" if cpu.compiled else "interpreted"


Baseline = dict[str, dict[str, float]]
"""Ratios by name, for each kind of build."""

AGAIN = 4
"""How often a figure above the baseline is measured again."""


@click.command()
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Number of runs; figures are their medians.",
)
@seconds_option(2.0)
@click.option(
    "--idle-seconds",
    type=click.FloatRange(min=0.1),
    default=3.0,
    show_default=True,
    help="Time for measuring idle daemons.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Exit with 1 if a message costs 30 % more than this file says.",
)
@click.option(
    "--record",
    "into",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the figures to this file, as a baseline.",
)
@sealed_option
@json_option
def cpu(
    runs: int,
    seconds: float,
    idle_seconds: float,
    baseline: Path | None,
    into: Path | None,
    sealed: bool,
    as_json: bool,
) -> None:
    """CPU time of daemons per message, and of idle daemons.

    Messages are Agreed, of 1 KB, in bundles, with three daemons in one site. Figures are microseconds of the
    process CPU clock, and their ratios to a fixed piece of work that is measured in the same seconds; medians
    of the runs. A baseline compares ratios, because machines differ; a figure above it is measured again before
    the command fails.
    """
    known = _read_baseline(baseline)
    if into is not None and not into.parent.is_dir():
        raise click.BadParameter(
            f"there is no directory {into.parent}; choose another file", param_hint="--record"
        )
    if sealed:
        if baseline is not None or into is not None:
            raise click.UsageError("a baseline is of daemons without encryption: leave --sealed out")
        _compare(runs, seconds, idle_seconds, as_json)
        return
    with Steps(plain=True) as steps, BenchDaemons({"a": 3}, say=steps.say) as daemons:
        seen = measure_cpu(daemons, BenchWorkload(seconds=seconds), runs, idle_seconds, steps.say)
        problems = _problems(seen, known)
        tries = AGAIN
        while problems and tries:
            tries -= 1
            steps.say(f"above the baseline; measuring again, at most {tries + 1} times")
            seen = least(
                seen, measure_cpu(daemons, BenchWorkload(seconds=seconds), runs, idle_seconds, steps.say)
            )
            problems = _problems(seen, known)
    click.echo(json.dumps({"bench": "cpu", **msgspec.to_builtins(seen)}) if as_json else _text(seen))
    if seen.lost or not seen.order_ok:
        raise Failure(f"{seen.lost} messages were lost, order {'ok' if seen.order_ok else 'WRONG'}")
    if into is not None:
        record(seen, into)
    if problems:
        raise Failure("\n".join(problems))


def _compare(runs: int, seconds: float, idle_seconds: float, as_json: bool) -> None:
    """Measures without and with encryption, one run of each in turn, and prints both."""

    def measure(daemons: BenchDaemons, _number: int) -> CpuResult:
        return measure_cpu(daemons, BenchWorkload(seconds=seconds), 1, idle_seconds, steps.say)

    with Steps(plain=True) as steps:
        both = in_clear_and_sealed({"a": 3}, runs, steps.say, measure)
    figures = both_columns(*[summary([msgspec.to_builtins(one) for one in some]) for some in both.values()])
    click.echo(json.dumps({"bench": "cpu", **figures}) if as_json else both_columns_text(figures))
    if any(one.lost or not one.order_ok for some in both.values() for one in some):
        raise Failure("messages were lost or reordered")


def _problems(seen: CpuResult, baseline: Baseline | None) -> list[str]:
    return [] if baseline is None else above_baseline(seen, baseline)


def _read_baseline(file: Path | None) -> Baseline | None:
    """The baseline, read before anything is measured; Failure if the file is none."""
    try:
        return None if file is None else msgspec.json.decode(file.read_bytes(), type=Baseline)
    except msgspec.DecodeError as error:
        raise Failure(f"{file}: not a baseline ({error}); make one with --record") from None


def _text(seen: CpuResult) -> str:
    return "\n".join(
        [
            f"daemon of the sender: {seen.sending_us:.2f} us of CPU each, {seen.sending_ratio} calibrations",
            f"daemons of receivers: {seen.receiving_us:.2f} us, {seen.receiving_ratio} calibrations",
            f"a calibration is {seen.calibration_us:.3f} us; {'compiled' if seen.compiled else 'interpreted'}",
            f"an idle daemon takes {seen.idle_percent} % of a processor",
            f"others took {seen.others_cpu_share:.0%} of the machine",
        ]
    )
