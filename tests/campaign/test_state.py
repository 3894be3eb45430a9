"""The campaign with agents whose group has a state: crashes, splits, merges, deaths, failing snapshots."""

import os

import pytest

from hopring.check.state import HAS_STATE, ONE_SPEAKER, SAME_STATES, SPEAKERS_STATE, BecameReady
from hopring.sim.blocks.state import StateAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_STATE = WorldKind(clients=True, blocks=("state",))

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "snapshot-behind-the-view": (1, SPEAKERS_STATE),
    "two-speakers": (1, ONE_SPEAKER),
    "empty-joiner-speaks": (1, HAS_STATE),
    "operation-lost-at-ready": (1, SAME_STATES),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    """Once, a member with an old state went on with a transfer of an earlier view (12)."""
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), 12, *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_STATE))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_states_are_transferred_merged_and_begun() -> None:
    taken = merged = begun = 0
    for seed in (1, 2, 3, 4, 6):
        run = BlockWorldRun(draw_world(seed, WITH_STATE))
        run.live()
        state = run.agents.blocks["state"]
        assert isinstance(state, StateAgents)
        ready = [one for one in state.history if isinstance(one, BecameReady)]
        taken += sum(len(one.sources) == 1 for one in ready)
        merged += sum(len(one.sources) > 1 for one in ready)
        begun += sum(not one.sources for one in ready)

    assert taken > 20
    assert merged > 1
    assert begun > 5


def test_the_bugs_of_state_transfer_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "state"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_STATE)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
