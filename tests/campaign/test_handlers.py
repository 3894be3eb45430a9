"""The campaign with clients that call a handler: of its servers, the holder of its lock answers."""

import os
from collections import Counter

import pytest

from hopring.blocks.caller import CallOutcome
from hopring.check.calls import BY_HOLDER, IN_TURN, RequestDone
from hopring.sim.blocks.handlers import HandlerAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_HANDLERS = WorldKind(clients=True, blocks=("handlers",))

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "call-answered-by-two": (1, BY_HOLDER),
    "handler-after-its-loss": (1, IN_TURN),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_HANDLERS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_several_holders_answer_one_after_the_other() -> None:
    outcomes: Counter[CallOutcome] = Counter()
    fences: set[int] = set()
    for seed in (1, 2, 3):
        run = BlockWorldRun(draw_world(seed, WITH_HANDLERS))
        run.live()
        agents = run.agents.blocks["handlers"]
        assert isinstance(agents, HandlerAgents)
        outcomes += agents.outcomes
        fences |= {one.fence for one in agents.history if isinstance(one, RequestDone)}

    assert outcomes[CallOutcome.ENOUGH] > 100
    assert len(fences) > 5


def test_the_bugs_of_handlers_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "handlers"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_HANDLERS)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
