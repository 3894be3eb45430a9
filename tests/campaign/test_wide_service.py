"""The campaign of the long-haul service with members, logs and connections, and what it catches."""

from collections import Counter
from functools import cache

import pytest

from hopring.check.wide.calls import CALLS
from hopring.check.wide.files import FILES
from hopring.check.wide.history import (
    WideAccepted,
    WideCallAnswered,
    WideFileSeen,
    WideFinished,
    WideFrameSent,
    WideLogEvent,
    WideSeen,
    WideSourceGone,
    WideSwitched,
)
from hopring.check.wide.judge import check_wide
from hopring.check.wide.properties import (
    ACCEPTED,
    EMPTY,
    HONEST,
    LIMITS,
    NONE_LOST,
    ONE_LINE,
    ONE_LOG,
    ONE_ORDER,
    REQUESTS,
    SILENT,
)
from hopring.sim.campaign.bugs import file_bugs, haul_bugs
from hopring.sim.campaign.bugs.planting import Bug, plant
from hopring.sim.campaign.runner import NO_CRASH
from hopring.sim.campaign.wide.service_runner import ServiceRun, run_service_world
from hopring.sim.campaign.wide.service_world import ServiceWorld, draw_service_world
from hopring.sim.campaign.wide.wide_world import WideWorld
from hopring.sim.campaign.wide.wide_worlds import draw_any_wide_world, run_any_wide_world

# By bug: a seed whose world catches it, and a property that is broken.
CAUGHT = {
    "sends-before-sync": (1, ACCEPTED),
    "acks-before-sync": (16, NONE_LOST),
    "view-majority": (1, NO_CRASH),
    "no-promise": (8, ONE_ORDER),
    "longest-log": (25, NO_CRASH),
    "appends-after-signal": (4, ONE_LOG),
    "two-forwarders": (7, ONE_LINE),
    "handed-unseen": (7, ONE_LINE),
    "durable-forgotten": (2, NONE_LOST),
    "clock-behind": (7, HONEST),
    "delayed-fill": (184, NONE_LOST),
    "number-restarts": (1, NONE_LOST),
    "request-twice": (1, REQUESTS),
    "off-link-sends": (8, SILENT),
    "limit-ignored": (1, LIMITS),
    "file-early": (13, NONE_LOST),
    "digest-unchecked": (32, FILES),
    "name-unchecked": (13, FILES),
    "file-dropped-early": (38, NO_CRASH),
    "lacking-unasked": (10, NONE_LOST),
    "snapshot-alone": (2, NONE_LOST),
    "spool-emptied-early": (8, NONE_LOST),
    "call-made-again": (53, CALLS),
    "last-answer-counts": (5, EMPTY),
    "answer-not-kept": (5, CALLS),
}
BUGS = (*haul_bugs.BUGS, *file_bugs.BUGS)


def broken_in(seed: int) -> list[str]:
    return [verdict.property for verdict in run_any_wide_world(draw_any_wide_world(seed)).broken]


@cache
def lived(seed: int) -> ServiceRun:
    """A world that has run, for several tests."""
    run = ServiceRun(draw_service_world(seed))
    run.live()
    return run


@pytest.mark.slow
def test_a_member_that_dials_instead_of_another_one_is_not_refused_for_ever() -> None:
    assert {seed: found for seed in (1166, 1406) if (found := broken_in(seed))} == {}


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 4), *(seed for seed, _ in CAUGHT.values())}
    worlds = [draw_any_wide_world(seed) for seed in sorted(seeds)]
    channels = [world.seed for world in worlds if isinstance(world, WideWorld)]
    found = {seed: broken_in(seed) for seed in channels}
    for world in worlds:
        if isinstance(world, ServiceWorld):
            verdicts = check_wide(lived(world.seed).service.history)
            found[world.seed] = [verdict.property for verdict in verdicts if not verdict.holds]

    assert (len(channels), len(worlds)) >= (1, 13)
    assert {seed: broken for seed, broken in found.items() if broken} == {}


@pytest.mark.slow
def test_the_worlds_have_what_the_checks_are_about() -> None:
    events: Counter[type] = Counter()
    reasons: Counter[str] = Counter()
    for seed in (*range(1, 12), 22):
        run = lived(seed)
        events.update(type(one) for one in run.service.history)
        reasons.update(run.service.reasons)

    assert events[WideAccepted] > 300
    assert events[WideSeen] > 1_000
    assert events[WideFinished] > 300
    assert events[WideFileSeen] > 20
    assert events[WideSourceGone] > 5
    assert events[WideCallAnswered] > 20
    assert events[WideFrameSent] > 2_000
    assert events[WideLogEvent] > 20_000
    assert events[WideSwitched] > 10
    assert reasons["the other end is silent"] > 5
    assert reasons["the window is over"] > 10


def test_a_world_is_the_same_each_time() -> None:
    world = draw_service_world(2)

    assert run_service_world(world) == run_service_world(world)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("planted", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_caught(planted: Bug) -> None:
    seed, property_name = CAUGHT[planted.name]

    with plant(planted) as runs:
        found = broken_in(seed)

    assert runs.runs
    assert property_name in found
