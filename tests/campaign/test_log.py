"""The campaign with a replicated log: programs that die, disks that lose what was not synced, splits."""

import os
from collections import Counter

import pytest

from hopring.check.durable_log import (
    NOT_REFUSED,
    ONCE,
    ONE_ENTRY,
    SYNCED_BY_MAJORITY,
    AppendDone,
    DiskEmptied,
    EntryAccepted,
    SnapshotSynced,
)
from hopring.sim.blocks.log import LogAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import NO_CRASH, BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_LOG = WorldKind(clients=True, blocks=("log",))

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "accepted-before-sync": (2, SYNCED_BY_MAJORITY),
    # The code asserts that a log that is chosen has all that was accepted.
    "minority-accepts": (1, NO_CRASH),
    "empty-disk-votes": (1, NOT_REFUSED),
    "appended-behind-the-signal": (59, ONE_ENTRY),
    "repeated-is-applied": (1, ONCE),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_LOG))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10030, 10164, 10166])
def test_worlds_that_once_broke_a_property(seed: int) -> None:
    # 10030, 10166: a log that was begun again, after all had lost its first entry, got another id at some.
    # 10164: the simulated program read operations twice that followed a state in one step.
    assert run_seed(seed, WITH_LOG).broken == ()


@pytest.mark.slow
def test_logs_grow_through_snapshots_and_lost_disks() -> None:
    kinds: Counter[type] = Counter()
    for seed in (1, 2, 4):
        run = BlockWorldRun(draw_world(seed, WITH_LOG))
        run.live()
        agents = run.agents.blocks["log"]
        assert isinstance(agents, LogAgents)
        kinds.update(type(one) for one in agents.history)

    assert kinds[EntryAccepted] > 300
    assert kinds[AppendDone] > 100
    assert kinds[SnapshotSynced] > 5
    assert kinds[DiskEmptied] > 0


def test_the_bugs_of_the_log_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "log"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_LOG)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
