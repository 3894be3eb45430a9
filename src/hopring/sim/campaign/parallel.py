"""Runs many seeds on several processors and reports their outcomes in the order of the seeds.

The processes share nothing, and a seed's outcome does not depend on the process that ran it.
"""

import signal
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from hopring.check.properties.property import Verdict
from hopring.sim.campaign.bugs.planting import MisplacedBug, Planted, all_bugs, plant
from hopring.sim.campaign.runner import NO_CRASH
from hopring.sim.campaign.world import PLAIN, WorldKind
from hopring.sim.campaign.worlds import run_any_seed


@dataclass(frozen=True, slots=True)
class SeedReport:
    """The outcome of a seed, without its history."""

    seed: int
    events: int
    views: int
    faults: int
    broken: tuple[Verdict, ...]
    planted_runs: int = 0  # How often a planted bug's code ran.

    @property
    def failed(self) -> bool:
        """Whether any property is broken."""
        return bool(self.broken)


def report(seed: int, planted: Planted, kind: WorldKind = PLAIN) -> SeedReport:
    """Runs a seed and reports its outcome."""
    before = planted.runs
    outcome = run_any_seed(seed, kind)
    for verdict in outcome.broken:
        if verdict.property == NO_CRASH and "_bugs.py:" in verdict.witness:
            # The planted code itself does not fit the changed code: that is no finding.
            raise MisplacedBug(verdict.witness, "does not fit the code any more")
    return SeedReport(
        seed, outcome.events, outcome.views, outcome.faults, outcome.broken, planted.runs - before
    )


def run_many(
    seeds: Sequence[int],
    jobs: int,
    bug_name: str | None = None,
    kind: WorldKind = PLAIN,
) -> Generator[SeedReport, None, None]:
    """Yields reports in the order of the seeds; a caller that has seen enough closes the iterator.

    An interrupt reaches this process alone, which ends the others.
    """
    if jobs == 1 or len(seeds) == 1:
        with plant(all_bugs()[bug_name] if bug_name else None) as planted:
            for seed in seeds:
                yield report(seed, planted, kind)
        return
    # Forked workers start at once; a spawned one prints a traceback if it is ended while it starts.
    context = get_context("fork")
    # An interrupt while the workers are created waits until the pool can end them all.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with context.Pool(min(jobs, len(seeds)), _begin, (bug_name,)) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield from pool.imap(partial(_report, kind), seeds)
            # One that is told to end while it begins may still have the handlers of the command.
            pool.close()
            pool.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(bug_name: str | None) -> None:
    """Initialises a worker; a planted bug stays planted in it until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    planting = plant(all_bugs()[bug_name] if bug_name else None)
    _planted.append(planting.__enter__())
    _plantings.append(planting)


def _report(kind: WorldKind, seed: int) -> SeedReport:
    return report(seed, _planted[0], kind)


_planted: list[Planted] = []
_plantings: list[object] = []  # Kept, or the bug would be undone when its generator is collected.


@dataclass(slots=True)
class CampaignTotals:
    """Totals over the reports of a campaign."""

    seeds: int = 0
    events: int = 0
    views: int = 0
    planted_runs: int = 0
    failed: list[SeedReport] = field(default_factory=list)

    def add(self, one: SeedReport) -> None:
        """Adds a report to the totals."""
        self.seeds += 1
        self.events += one.events
        self.views += one.views
        self.planted_runs += one.planted_runs
        if one.failed:
            self.failed.append(one)

    @property
    def violations(self) -> int:
        """How many properties were broken, over all seeds."""
        return sum(len(one.broken) for one in self.failed)
