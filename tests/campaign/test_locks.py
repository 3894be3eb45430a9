"""The campaign with clients that lock: crashes, splits, merges, and holders that vanish."""

import os

import pytest

from hopring.check.locks import ALL_GRANTED, FENCES_RISE, IN_PRIMARIES, LockTaken
from hopring.sim.blocks.locks import LockAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
WITH_LOCKS = WorldKind(clients=True, blocks=("locks",))

# By bug: a seed whose world catches it, and the property that is broken. An old holder that is not told has its
# lease renewed for ever: so messages are under way at the quiet end.
CAUGHT = {
    "fence-restarts": (2, FENCES_RISE),
    "lock-of-dead-kept": (10, ALL_GRANTED),
    "old-holder-not-told": (10, "2.15 self delivery"),
    "two-holders-after-a-split": (1, IN_PRIMARIES),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    """Once, a RENEW of the view before was refused before GROUPS (2, 3), and ticks had no end (1)."""
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 9), *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_LOCKS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_locks_are_granted_in_several_primary_views_and_without_one() -> None:
    taken: list[LockTaken] = []
    for seed in (2, 3, 8):
        run = BlockWorldRun(draw_world(seed, WITH_LOCKS))
        run.live()
        agents = run.agents.blocks["locks"]
        assert isinstance(agents, LockAgents)
        taken += [one for one in agents.history if isinstance(one, LockTaken)]

    assert sum(not one.partial for one in taken) > 20
    assert any(one.partial for one in taken)
    assert len({one.epoch for one in taken if not one.partial}) > 2


def test_the_bugs_of_locks_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "locks"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_LOCKS)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
