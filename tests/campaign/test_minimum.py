"""The campaign with a group that has a minimum: splits, merges, joins, leaves, and messages that wait."""

import os
from collections import Counter

import pytest

from hopring.check.minimum import KEPT, NOT_WHILE_SUSPENDED, WHEN_MISSED, MinimumSignal, MinimumView
from hopring.sim.blocks.minimum import MinimumAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_MINIMUM = WorldKind(clients=True, blocks=("minimum",))

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "suspended-delivers": (1, NOT_WHILE_SUSPENDED),
    "lost-minimum-forgotten": (2, KEPT),
    "minority-goes-on": (3, WHEN_MISSED),
    # Messages that wait for ever keep the end of their session waiting, too.
    "held-for-ever": (1, "EVS-C what a session asks for is carried out"),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    """Once, a join waited behind a message to the group that waited for this member (129, 149)."""
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), 129, 149, *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_MINIMUM))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_groups_are_suspended_by_splits_and_go_on() -> None:
    signals: Counter[bool] = Counter()
    views: Counter[bool] = Counter()
    splits = 0
    for seed in (1, 2, 4):
        run = BlockWorldRun(draw_world(seed, WITH_MINIMUM))
        run.live()
        agents = run.agents.blocks["minimum"]
        assert isinstance(agents, MinimumAgents)
        signals.update(one.suspended for one in agents.history if isinstance(one, MinimumSignal))
        views.update(one.suspended for one in agents.history if isinstance(one, MinimumView))
        splits += sum(one.split and one.minimum > 1 for one in agents.history if isinstance(one, MinimumView))

    assert min(signals[False], signals[True]) > 3
    assert min(views[False], views[True]) > 20
    assert splits > 5


@pytest.mark.slow
def test_members_that_part_and_meet_again_are_told_whether_they_were_too_few() -> None:
    """Once, the view of those that had parted said what was so of the view that followed it."""
    both = WorldKind(clients=True, blocks=("minimum", "values"))

    assert run_seed(2053, both).broken == ()


def test_the_bugs_of_minimum_sizes_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "minimum"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_MINIMUM)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
