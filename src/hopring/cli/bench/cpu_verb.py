"""`hop bench cpu`: what a message costs the daemons, and whether that is more than it used to be."""

import json
from pathlib import Path

import click
import msgspec

from hopring.cli.asking import json_option
from hopring.cli.bench.cpu import Cpu, least, measure_cpu, record, too_dear
from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.job import Case
from hopring.cli.bench.options import seconds_option
from hopring.cli.exits import Failure
from hopring.cli.progress_line import Steps

Baseline = dict[str, dict[str, float]]
"""Ratios by name, for each kind of build."""

AGAIN = 4
"""How often it is measured again if it seems too dear."""


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
@json_option
def cpu(
    runs: int, seconds: float, idle_seconds: float, baseline: Path | None, into: Path | None, as_json: bool
) -> None:
    """CPU time of daemons per message, and of idle daemons.

    Messages are Agreed, of 1 KB, in bundles, with three daemons in one site.
    Figures are microseconds by the process CPU clock, and their ratios to a fixed piece of work that is
    measured in the same seconds; medians of the runs. A baseline compares ratios, because machines differ;
    what seems too dear is measured again before it is called so.
    """
    known = _read_baseline(baseline)
    if into is not None and not into.parent.is_dir():
        raise click.BadParameter(
            f"there is no directory {into.parent}; choose another file", param_hint="--record"
        )
    with Steps(plain=True) as steps, Daemons({"a": 3}, say=steps.say) as daemons:
        seen = measure_cpu(daemons, Case(seconds=seconds), runs, idle_seconds, steps.say)
        problems = _problems(seen, known)
        tries = AGAIN
        while problems and tries:
            tries -= 1
            steps.say(f"too much CPU; measuring again, {tries + 1} times at most")
            seen = least(seen, measure_cpu(daemons, Case(seconds=seconds), runs, idle_seconds, steps.say))
            problems = _problems(seen, known)
    click.echo(json.dumps({"bench": "cpu", **msgspec.to_builtins(seen)}) if as_json else _text(seen))
    if seen.lost or not seen.order_ok:
        raise Failure(f"{seen.lost} messages were lost, order {'ok' if seen.order_ok else 'WRONG'}")
    if into is not None:
        record(seen, into)
    if problems:
        raise Failure("\n".join(problems))


def _problems(seen: Cpu, baseline: Baseline | None) -> list[str]:
    return [] if baseline is None else too_dear(seen, baseline)


def _read_baseline(file: Path | None) -> Baseline | None:
    """Before anything is measured; Failure if it is none."""
    try:
        return None if file is None else msgspec.json.decode(file.read_bytes(), type=Baseline)
    except msgspec.DecodeError as error:
        raise Failure(f"{file}: not a baseline ({error}); make one with --record") from None


def _text(seen: Cpu) -> str:
    return "\n".join(
        [
            f"daemon of the sender: {seen.sending_us:.2f} us of CPU each, {seen.sending_ratio} calibrations",
            f"daemons of receivers: {seen.receiving_us:.2f} us, {seen.receiving_ratio} calibrations",
            f"a calibration is {seen.calibration_us:.3f} us; {'compiled' if seen.compiled else 'interpreted'}",
            f"an idle daemon takes {seen.idle_percent} % of a processor",
            f"others took {seen.others_cpu_share:.0%} of the machine",
        ]
    )
