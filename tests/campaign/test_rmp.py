"""The campaign with rings of peers: R1 to R17 and EVS-C hold, and planted bugs are caught."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.campaign.caught_rings import CAUGHT_RINGS

from hopring.check.rmp.peer_events import (
    ListSeen,
    PeerSuspended,
    StrangerAcknowledged,
    ToldToAnswer,
    WindowSeen,
)
from hopring.sim.campaign.bugs.planting import Bug, all_bugs, plant
from hopring.sim.campaign.rmp.ring_runner import RingRun, run_ring_world
from hopring.sim.campaign.rmp.ring_world import RING_DRAW, RingWorld, draw_ring_world
from hopring.sim.campaign.world import RMP_WORLD
from hopring.sim.path import Quality

SEEDS_FILE = Path(__file__).parents[1] / "seeds.txt"
BUGS = [bug for bug in all_bugs().values() if bug.world == RMP_WORLD]


def calm(seed: int) -> RingWorld:
    """The world of a seed without faults and leaves, on paths that lose nothing."""
    return replace(draw_ring_world(seed), schedule=(), changes=0.0, quality=Quality(delay_us=500))


def broken_in(seed: int) -> list[str]:
    return [verdict.property for verdict in run_ring_world(draw_ring_world(seed)).broken]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
def test_without_faults_rings_form_order_and_come_to_rest(seed: int) -> None:
    outcome = run_ring_world(calm(seed))

    assert outcome.broken == ()
    assert outcome.views > 0


def test_a_seed_gives_the_same_history_each_time_and_another_seed_another() -> None:
    first, again, other = (run_ring_world(calm(seed)) for seed in (3, 3, 4))

    assert first.peers == again.peers
    assert first.peers != other.peers


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    # Also the seeds of planted bugs: it is the bug that breaks their worlds.
    seeds = {*range(1, 11), *(seed for seed, _ in CAUGHT_RINGS.values())}
    assert {seed: found for seed in sorted(seeds) if (found := broken_in(seed))} == {}


@pytest.mark.slow
def test_seeds_that_failed_once_do_not_fail_again() -> None:
    lines = [line.split() for line in SEEDS_FILE.read_text().splitlines() if line.startswith("rmp ")]
    seeds = [int(seed) for _, draw, seed, *_ in lines if int(draw) == RING_DRAW]

    assert seeds
    assert {seed: found for seed in seeds if (found := broken_in(seed))} == {}


@pytest.mark.slow
def test_the_worlds_have_what_the_checks_are_about() -> None:
    """Calls of all ends, lists of all causes, suspended rings, holders of handlers, and full windows."""
    seen: Counter[str] = Counter()
    for seed in range(1, 21):
        run = RingRun(draw_ring_world(seed))
        run.live()
        for caller in run.rings.strangers.values():
            seen.update(caller.ended)
        for event in run.rings.observer.history():
            if isinstance(event, ListSeen):
                seen[event.cause] += 1
            elif isinstance(event, ToldToAnswer):
                seen["told again" if event.again else "told"] += event.holder
            elif isinstance(event, PeerSuspended | StrangerAcknowledged):
                seen[type(event).__name__] += 1
            elif isinstance(event, WindowSeen):
                seen["full windows"] += 2 * event.unacknowledged_bytes > event.window_bytes
        seen.update(moment.value for moment, _ in run.rings.observer.reached)

    wanted = ("acknowledged", "answered", "failed", "join", "leave", "lock", "failure", "told", "told again")
    moments = ("named", "joined", "passing", "prepared", "committed", "suspended")
    lacking = [name for name in (*wanted, *moments, "PeerSuspended", "full windows") if seen[name] < 5]
    assert lacking == []


def test_every_planted_bug_has_a_seed_that_catches_it() -> None:
    assert sorted(CAUGHT_RINGS) == sorted([bug.name for bug in BUGS])
    assert len(BUGS) >= 37


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("planted", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_is_caught(planted: Bug) -> None:
    seed, property_name = CAUGHT_RINGS[planted.name]

    with plant(planted) as runs:
        found = broken_in(seed)

    assert runs.runs
    assert property_name in found
