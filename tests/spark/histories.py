"""Histories for both checkers: from the model, from campaigns, with planted bugs, and altered.

Each is written as a run below one directory, with the plain checker's verdict beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.check.evs_model import run as run_model
from tests.unit.check.evs_mutants import MUTANTS, Sound, edited
from tests.unit.check.evs_notation import history

from hopring.check.judge import check_evs
from hopring.check.properties.property import Verdict
from hopring.check.trace import Event
from hopring.check.trace_files import write_parquet
from hopring.sim.campaign import runner
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.runner import run_seed
from hopring.spark.audit import Ends

# By planted bug in daemons: a seed of a world that shows it.
CATCHING = {
    **{"promise-before-data": 3, "gap-ignored": 4, "tie-ignored": 1, "safe-unstable": 2, "fifo-at-once": 1},
    **{"agreed-passes-safe": 1, "discard-unstable": 4, "duplicates-held": 2, "promise-from-clock": 2},
    **{"one-value-aru": 2, "clock-not-raised": 1, "stale-generation": 14, "unstamped-lost": 1},
    **{"delivered-line-missing": 1, "reliable-skipped": 130, "holes-in-store": 2, "dummies-kept": 13},
    **{"companions-skipped": 10, "old-packet-taken": 517, "commit-forgotten": 262, "line-forgotten": 77},
    **{"foreign-state-counted": 1, "done-too-soon": 2, "last-not-resent": 1, "together-with-all": 1},
    **{"view-id-reused": 1, "counter-not-raised": 4, "old-newmemb": 1, "early-data-dropped": 10},
    **{"installs-alone": 2, "clock-reset": 1, "unreliable-twice": 2, "unreliable-late": 1},
    **{"kept-counts": 239},
}
SHORT_CATCHING = {
    "duplicates-held": 20008,
    "holes-in-store": 20012,
    "safe-unstable": 20046,
    "together-with-all": 1,
}
"""The same in short worlds, of a few kinds."""


@dataclass
class JudgedRuns(ABC):
    """Runs below a directory, with the verdict of the plain checker on each."""

    directory: Path
    broken: dict[str, set[str]] = field(default_factory=dict)
    ends: dict[str, Ends] = field(default_factory=dict)

    def add(self, run: str, events: Iterable[Event], ends: Ends) -> None:
        events = list(events)
        directory = self.directory / f"run={run}"
        directory.mkdir(parents=True)
        write_parquet(events, directory / "trace.parquet")
        self.broken[run] = {verdict.property for verdict in self.verdicts(events, ends) if not verdict}
        self.ends[run] = ends

    @abstractmethod
    def verdicts(self, events: list[Event], ends: Ends) -> list[Verdict]:
        """The verdicts of the plain checker."""


class Histories(JudgedRuns):
    """Runs of daemons, judged by EVS."""

    def verdicts(self, events: list[Event], ends: Ends) -> list[Verdict]:
        return check_evs(events, ends.quiet, ends.components, counters_survive=ends.counters_survive)

    def add_lines(self, text: str, ends: Ends | None = None) -> None:
        """Adds a handwritten history, with a quiet end by default."""
        self.add("lines", history(text), Ends(True) if ends is None else ends)

    def add_models(self, seeds: Iterable[int]) -> None:
        for seed in seeds:
            done = run_model(seed)
            self.add(f"model-{seed}", done.events, settled(done.components))

    def add_mutants(self, of_each: int) -> None:
        """Adds histories of the model with this many alterations of each kind."""
        dice = Random(1)
        for mutant in MUTANTS:
            found = 0
            for seed in range(300):
                done = run_model(seed)
                edits = list(mutant(Sound(done.events)))
                if edits and found < of_each:
                    found += 1
                    events = edited(done.events, dice.choice(edits))
                    self.add(f"{mutant.__name__}-{seed}", events, settled(done.components))
                if found == of_each:
                    break

    def add_campaign(self, seeds: Iterable[int]) -> None:
        for seed in seeds:
            with recorded_ends("check_evs") as recorded:
                outcome = run_seed(seed)
            self.add(f"seed-{seed}", outcome.history, recorded[0] if recorded else Ends())

    def add_bugs(self, names: Iterable[str], seeds: Mapping[str, int] = CATCHING) -> None:
        for name in names:
            with plant(all_bugs()[name]), recorded_ends("check_evs") as recorded:
                outcome = run_seed(seeds[name])
            self.add(f"bug-{name}", outcome.history, recorded[0] if recorded else Ends())


def jobs_of(spark: Any) -> int:
    """The number of jobs that Spark has run in this session."""
    jobs: int = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    return jobs


def work_of(spark: Any, jobs_before: int) -> int:
    """The records that tasks have read since then, from files, from kept tables and from other tasks.

    A count and no time: it is the same on a busy machine.
    """
    java, gateway = spark.sparkContext._jsc.sc(), spark.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.double, 0)
    store = java.statusStore()
    stages: set[int] = set()
    for number in range(jobs_before, jobs_of(spark)):
        its = store.job(number).stageIds()
        stages |= {int(its.apply(at)) for at in range(its.size())}
    listed = store.stageList(None, False, False, nothing, gateway.jvm.java.util.ArrayList())
    found = [listed.apply(at) for at in range(listed.size())]
    return sum(one.inputRecords() + one.shuffleReadRecords() for one in found if one.stageId() in stages)


def settled(components: Iterable[Collection[str]]) -> Ends:
    return Ends(True, tuple(frozenset(component) for component in components))


@contextmanager
def recorded_ends(checker: str) -> Iterator[list[Ends]]:
    """Records the arguments of this checker for the end of each world of a campaign."""
    recorded: list[Ends] = []
    check = getattr(runner, checker)

    def record(events, quiet_end, components=None, **options):  # type: ignore[no-untyped-def]
        parts = None if components is None else tuple(frozenset(component) for component in components)
        recorded.append(Ends(quiet_end, parts, **options))
        return check(events, quiet_end, components, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, checker, record)
        yield recorded
