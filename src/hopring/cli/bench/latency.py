"""Latency: one probe at a time, to a group of one's own and back, or to a client elsewhere that answers."""

import json
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

from hopring.cli.bench import board as slots
from hopring.cli.bench.crew import READY_SECONDS, Crew, Say, System, unsaid
from hopring.cli.bench.job import Case, Job
from hopring.cli.bench.throughput import set_board, start_flood, stop_flood
from hopring.cli.exits import Failure
from hopring.value import Value

PROBE_SECONDS_MAX: Final = 0.2
"""So long a probe may take on the average, before the bench gives up."""


class RoundTrip(Value, frozen=True):
    """What some probes took."""

    p50_us: float
    p99_us: float
    max_us: float
    probes: int


class Probing(Value, frozen=True):
    """How it is probed."""

    probes: int = 2000
    pause_us: int = 0
    to_itself: bool = False
    load: Case | None = None  # What flows meanwhile, in another group.


def measure_latency(system: System, case: Case, probing: Probing, group: str, say: Say = unsaid) -> RoundTrip:
    """One run, at servers that are there; `group` has not been used before."""
    with TemporaryDirectory(prefix="hop-bench-") as name, Crew(system, Path(name)) as crew:
        if probing.load is None:
            return _probe(crew, Path(name), case, probing, group, say)
        file = Path(name) / "load"
        board = set_board(file, probing.load)
        start_flood(crew, system, board, Job("", 0, str(file), f"{group}-load", probing.load), say)
        time.sleep(probing.load.warm_seconds)
        trip = _probe(crew, Path(name), case, probing, group, say)
        sent, lost = stop_flood(crew, board)
        if lost:
            raise Failure(f"{system.name}: {lost} of {sent} messages of the load are lost")
        return trip


def _probe(crew: Crew, directory: Path, case: Case, probing: Probing, group: str, say: Say) -> RoundTrip:
    answering = 0 if probing.to_itself else case.receivers
    file = directory / "board"
    board = set_board(file, case.but(receivers=answering))
    job = Job("answer", 0, str(file), group, case, probing.probes, probing.pause_us, probing.to_itself)
    for number in range(answering):
        crew.start(job.but(number=number))
    ready = slots.RECEIVER_READY
    crew.wait(lambda: all(board[ready : ready + answering]), READY_SECONDS, "who answers is not ready")
    say(f"sending {probing.probes} probes, one at a time")
    name = crew.start(job.but(role="ping"))
    seconds = READY_SECONDS + (PROBE_SECONDS_MAX + probing.pause_us / 1e6) * probing.probes
    taken_us: list[float] = json.loads(crew.result(name, seconds))
    return RoundTrip(
        p50_us=round(median(taken_us), 1),
        p99_us=round(quantiles(taken_us, n=100)[-1], 1),
        max_us=round(max(taken_us), 1),
        probes=len(taken_us),
    )
