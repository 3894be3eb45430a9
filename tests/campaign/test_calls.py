"""The campaign with clients that send requests to each other: crashes, splits, merges, and moves of callers."""

import os
from collections import Counter

import pytest

from hopring.blocks.caller import CallOutcome
from hopring.check.calls import ALL_END, ANSWERED_ONCE, DONE_ONCE, OF_ITS_CALL, ReplySent, RequestDone
from hopring.sim.blocks.calls import CallAgents
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import BlockWorldRun, run_seed
from hopring.sim.campaign.world import WITH_CALLS, draw_world

JOBS = os.cpu_count() or 1

# By bug: a seed whose world catches it, and the property that is broken.
CAUGHT = {
    "call-answered-twice": (1, ANSWERED_ONCE),
    "reply-to-another-call": (1, OF_ITS_CALL),
    "forgotten-call-done": (1, DONE_ONCE),
    "parted-call-not-repeated": (15, ALL_END),
}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    """Once, a late request of an earlier connection was done again (1, 9) or turned the reply away (5)."""
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 11), *(seed for seed, _ in CAUGHT.values())}
    reports = list(run_many(sorted(seeds), JOBS, None, WITH_CALLS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_calls_end_in_all_ways_and_requests_are_repeated() -> None:
    outcomes: Counter[CallOutcome] = Counter()
    again = done = 0
    for seed in (1, 3, 4):
        run = BlockWorldRun(draw_world(seed, WITH_CALLS))
        run.live()
        calls = run.agents.blocks["calls"]
        assert isinstance(calls, CallAgents)
        outcomes += calls.outcomes
        again += sum(isinstance(one, ReplySent) and one.again for one in calls.history)
        done += sum(isinstance(one, RequestDone) for one in calls.history)

    assert set(outcomes) == {
        CallOutcome.ENOUGH,
        CallOutcome.MISSING,
        CallOutcome.NO_SERVERS,
        CallOutcome.TIMED_OUT,
    }
    assert done > 500
    assert again > 50


def test_the_bugs_of_calls_are_all_tried() -> None:
    assert {one.name for one in all_bugs().values() if one.block == "calls"} == set(CAUGHT)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]

    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, WITH_CALLS)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]
