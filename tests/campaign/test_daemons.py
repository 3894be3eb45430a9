"""A short fault campaign, for every commit; `hop sim --seeds N` runs a long one."""

from dataclasses import replace
from pathlib import Path

import pytest

from hopring.sim.campaign.bugs.planting import Bug, all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import run_seed, run_world
from hopring.sim.campaign.world import DRAW, RING, WorldKind, draw_world
from hopring.stack_events import StackOptions
from hopring.testing.trace import digest

SEEDS_FILE = Path(__file__).parents[1] / "seeds.txt"
JOBS = 2

# By bug: a seed whose world is quick and catches it, and the property that is broken.
CAUGHT = {
    "duplicates-held": (2, "2.5 no duplication"),
    "line-forgotten": (237, "2.14(3) after the signal, safe for all that come along"),
    "fifo-at-once": (20001, "2.11 FIFO messages"),
    "kept-counts": (239, "I7 all daemons share one view after the heal"),
    "promise-before-data": (20006, "2.13(2) agreed messages come in their order"),
    "own-weights": (60, "I11 all daemons of a view have the same trees"),
    "together-with-all": (20001, "2.4 transitional set"),
    "names-vote": (5, "R6(2) primary chain"),
    "attempt-forgotten": (117, "R6(2) primary chain"),
    "half-is-enough": (1, "R6(2) primary chain"),
    "mark-forgotten": (97, "R6(2) primary chain"),
    "unstamped-lost": (20003, "I5 what a daemon takes it sends"),
    "unreliable-late": (20001, "2.19 sane view delivery"),
    "unreliable-twice": (20018, "2.5 no duplication"),
}


def seeds_that_failed() -> list[tuple[int, int, str]]:
    lines = [line.partition("#")[0].strip() for line in SEEDS_FILE.read_text().splitlines()]
    rows = [line.split(maxsplit=2) for line in lines if line and not line.startswith("rmp ")]
    return [(int(draw), int(seed), what) for draw, seed, what in rows]


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    reports = list(run_many(range(1, 41), JOBS))

    assert [report.seed for report in reports] == list(range(1, 41))
    assert [(report.seed, report.broken) for report in reports if report.failed] == []
    assert sum(report.views for report in reports) > 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("together", "clients"),
    [
        (1, True),
        (1024, False),
        pytest.param(1, False, marks=pytest.mark.long),
        pytest.param(1024, True, marks=pytest.mark.long),
    ],
)
def test_a_campaign_with_ring_windows_of_one_segment_finds_nothing_broken(together: int, clients: bool) -> None:
    ring = replace(RING, personal_window_segments=1, global_window_segments=together)
    for seed in range(1, 11):
        outcome = run_world(replace(draw_world(seed, WorldKind(clients)), stack=StackOptions(ring=ring)))

        assert outcome.broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for draw, seed, _ in seeds_that_failed() if draw == DRAW])
def test_a_seed_that_failed_once_holds_now(seed: int) -> None:
    assert run_seed(seed).broken == ()


def test_every_seed_in_the_file_has_a_description() -> None:
    assert all(draw <= DRAW and len(what.split()) > 2 for draw, _, what in seeds_that_failed())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20004, 20012])
def test_a_seed_gives_the_same_history_twice(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)

    assert digest(first.history) == digest(second.history)
    assert first.events == second.events


@pytest.mark.slow
def test_seeds_give_different_histories() -> None:
    assert digest(run_seed(20012).history) != digest(run_seed(20013).history)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]
    one: Bug = all_bugs()[name]

    with plant(one) as planted:
        outcome = run_seed(seed)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]


@pytest.mark.slow
def test_without_the_bugs_their_seeds_hold() -> None:
    reports = list(run_many(sorted({seed for seed, _ in CAUGHT.values()}), JOBS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_planted_bug_is_planted_in_every_process() -> None:
    reports = list(run_many([20001, 20001], JOBS, "fifo-at-once"))

    assert all(report.failed and report.planted_runs for report in reports)
    assert reports[0].broken == reports[1].broken
