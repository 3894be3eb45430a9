"""Runs many seeds on several processors and reports their outcomes in the order of the seeds.

The processes share nothing, and a seed's outcome does not depend on the process that ran it.
"""

import signal
import traceback
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from hopring.check.properties.property import Verdict
from hopring.errors import HopError
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

    An interrupt reaches this process alone, which ends the others. WorkerEnded if one of them ends by itself.
    """
    if jobs == 1 or len(seeds) == 1:
        with plant(all_bugs()[bug_name] if bug_name else None) as planted:
            for seed in seeds:
                yield report(seed, planted, kind)
        return
    workers: list[_Worker] = []
    try:
        # An interrupt while the workers are created waits until all of them are known here.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            for _ in range(min(jobs, len(seeds))):
                workers.append(_Worker(workers, bug_name, kind, before))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield from _in_order(workers, seeds)
    finally:
        for worker in workers:
            worker.end()


def _in_order(workers: list["_Worker"], seeds: Sequence[int]) -> Iterator[SeedReport]:
    """Gives each worker a seed after the other, and holds back reports that come before their turn."""
    waiting = iter(range(len(seeds)))
    early: dict[int, SeedReport | Exception] = {}
    idle, busy = workers, dict[Connection, _Worker]()
    for turn in range(len(seeds)):
        while turn not in early:
            for worker, at in zip(idle, waiting, strict=False):
                worker.begin(at, seeds[at])
                busy[worker.channel] = worker
            idle = [busy.pop(channel) for channel in wait(list(busy)) if isinstance(channel, Connection)]
            early |= dict(worker.outcome() for worker in idle)
        outcome = early.pop(turn)
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome


class WorkerEnded(HopError):
    """A process of a campaign has ended by itself: it was killed, or it ran out of memory."""

    def __init__(self, seed: int, exit_code: int | None) -> None:
        super().__init__(f"the process that ran seed {seed} ended with {exit_code}; run that seed alone")
        self.seed = seed


class _Worker:
    """A process that runs one seed after the other, until it is killed or this process has ended."""

    def __init__(
        self, others: Sequence["_Worker"], bug_name: str | None, kind: WorldKind, mask: Iterable[int]
    ) -> None:
        # Forked workers start at once, and have the bugs that tests add.
        context = get_context("fork")
        self.channel, far_end = context.Pipe()
        # A worker sees the end of this process only if no other holds the near end of its channel.
        ours = [self.channel, *[other.channel for other in others]]
        self._process = context.Process(target=_work, args=(far_end, ours, bug_name, kind, mask), daemon=True)
        self._process.start()
        far_end.close()
        self._seed, self._at = 0, 0

    def begin(self, at: int, seed: int) -> None:
        """Gives it a seed, which is number `at` of all."""
        self._seed, self._at = seed, at
        try:
            self.channel.send(seed)
        except OSError:
            raise self._ended() from None

    def outcome(self) -> tuple[int, SeedReport | Exception]:
        """The number of the seed, and its report or what it raised; called when its channel has something."""
        try:
            return self._at, self.channel.recv()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> WorkerEnded:
        self.end()
        return WorkerEnded(self._seed, self._process.exitcode)

    def end(self) -> None:
        """Kills it, which it cannot delay; it has nothing to tidy up."""
        self._process.kill()
        self._process.join()
        self.channel.close()


def _work(
    channel: Connection,
    theirs: Sequence[Connection],
    bug_name: str | None,
    kind: WorldKind,
    mask: Iterable[int],
) -> None:
    """The main function of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for one in theirs:
        one.close()
    with suppress(EOFError, OSError):
        try:
            with plant(all_bugs()[bug_name] if bug_name else None) as planted:
                while True:
                    seed = channel.recv()
                    channel.send(_outcome(seed, planted, kind))
        except MisplacedBug as error:
            # It may get another seed before the report of an earlier one ends the campaign.
            while True:
                channel.recv()
                channel.send(error)


def _outcome(seed: int, planted: Planted, kind: WorldKind) -> SeedReport | Exception:
    try:
        return report(seed, planted, kind)
    except Exception as error:  # The caller of `run_many` gets it.
        error.add_note(traceback.format_exc())
        return error


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
