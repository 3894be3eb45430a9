"""The campaign of the long-haul service: clusters on channels that are cut for long, and what it catches."""

import pytest

from hopring.check.wide.history import WideSeen, WideWaiting
from hopring.check.wide.properties import (
    CAUSES,
    EMPTY,
    HONEST,
    INVENTED,
    MIXED_CAUSES,
    NONE_LOST,
    NOT_IN_VAIN,
    ONE_ORDER,
)
from hopring.haul.order.events import CastKind
from hopring.sim.campaign.bugs.planting import Bug, plant
from hopring.sim.campaign.bugs.wide_bugs import BUGS
from hopring.sim.campaign.wide.wide_runner import WideRun, run_wide_world
from hopring.sim.campaign.wide.wide_world import draw_wide_world

# By bug: a seed whose world catches it, and a property that is broken.
CAUGHT = {
    "validity-reversed": (1, NONE_LOST),
    "to-destinations-only": (2, EMPTY),
    "list-is-past": (3, CAUSES),
    "all-is-past": (2, NONE_LOST),
    "bit-if-new": (3, EMPTY),
    "known-forgotten": (1, NONE_LOST),
    "collected-delayed": (10, EMPTY),
    "causes-on-arrival": (12, NOT_IN_VAIN),
    "local-at-once": (2, MIXED_CAUSES),
    "pair-request": (5, MIXED_CAUSES),
    "order-not-waited": (12, ONE_ORDER),
    "body-gone-early": (1, EMPTY),
    "told-before-all": (1, HONEST),
    "body-altered": (2, INVENTED),
}


def broken_in(seed: int) -> list[str]:
    return [verdict.property for verdict in run_wide_world(draw_wide_world(seed)).broken]


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 61), *(seed for seed, _ in CAUGHT.values())}
    assert {seed: found for seed in sorted(seeds) if (found := broken_in(seed))} == {}


def test_the_worlds_have_what_the_checks_are_about() -> None:
    waits = asked = abcasts = cbcasts = 0
    for seed in range(1, 13):
        run = WideRun(draw_wide_world(seed))
        run.live()
        history = run.clusters.history
        asked += run.clusters.frames["AskForParcel"]
        waits += sum(len(one.parcels) for one in history if isinstance(one, WideWaiting))
        kinds = [one.parcel.kind for one in history if isinstance(one, WideSeen) and one.parcel]
        abcasts += kinds.count(CastKind.ABCAST)
        cbcasts += kinds.count(CastKind.CBCAST)

    assert waits > 3
    assert asked > 3
    assert min(abcasts, cbcasts) > 500


def test_a_world_is_the_same_each_time() -> None:
    world = draw_wide_world(7)

    assert run_wide_world(world) == run_wide_world(world)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("planted", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_caught(planted: Bug) -> None:
    seed, property_name = CAUGHT[planted.name]

    with plant(planted) as runs:
        found = broken_in(seed)

    assert runs.runs
    assert property_name in found
