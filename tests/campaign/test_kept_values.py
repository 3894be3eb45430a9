"""The campaign with times to live and retained values: splits, merges, joins, leaves and moves."""

import os
from collections import Counter

import pytest

from hopring.check.kept_values import AT_JOIN, EXPIRED, NOT_OLDER, TimedShown, TimeEnded, ValueAtJoin
from hopring.sim.blocks.kept_values import ValueAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_VALUES = WorldKind(clients=True, blocks=("values",))

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "expired-is-sent": (1, EXPIRED),
    "older-value-wins": (1, NOT_OLDER),
    "merged-value-not-shown": (1, AT_JOIN),
    "value-not-replaced": (1, AT_JOIN),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_VALUES))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_messages_expire_or_arrive_and_joiners_get_values() -> None:
    kinds: Counter[type] = Counter()
    with_value = 0
    for seed in (1, 2, 3):
        run = BlockWorldRun(draw_world(seed, WITH_VALUES))
        run.live()
        agents = run.agents.blocks["values"]
        assert isinstance(agents, ValueAgents)
        kinds.update(type(one) for one in agents.history)
        with_value += sum(bool(one.value) for one in agents.history if isinstance(one, ValueAtJoin))

    assert kinds[TimeEnded] > 100
    assert kinds[TimedShown] > 150
    assert with_value > 30


def test_the_bugs_of_values_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "values"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_VALUES)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
