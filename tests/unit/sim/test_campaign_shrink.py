from dataclasses import replace

import pytest

from hopring.check.properties.property import broken
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import WorldOutcome
from hopring.sim.campaign.shrink import Shrinker
from hopring.sim.campaign.world import SimWorld, draw_world

FAULTS = tuple(Fault(at_us=number * 1_000, kind="heal", number=number) for number in range(1, 21))


def world(load_per_second: int = 150) -> SimWorld:
    one = draw_world(1)
    return replace(one, schedule=FAULTS, load=replace(one.load, per_second=load_per_second))


class Machine:
    """Fails with one property while it has these faults and this load, and with another without any fault."""

    def __init__(self, *needed: int, load_per_second: int = 0) -> None:
        self.needed = set(needed)
        self.load_per_second = load_per_second
        self.runs = 0

    def run(self, world: SimWorld) -> WorldOutcome:
        self.runs += 1
        fails = self.needed <= {int(fault.number) for fault in world.schedule}
        if fails and world.load.per_second >= self.load_per_second:
            verdicts = [broken("2.7 virtual synchrony", "a and b"), broken("2.15 self delivery", "a")]
        else:
            verdicts = [] if world.schedule else [broken("2.15 self delivery", "a")]
        return WorldOutcome(world.seed, 10, tuple(verdicts), [], len(world.schedule))


@pytest.mark.parametrize("needed", [[7], [3, 18], [1, 2, 20], [5, 6, 7, 8], list(range(1, 21))])
def test_only_the_faults_that_are_needed_are_left(needed: list[int]) -> None:
    machine = Machine(*needed)

    shrunk = Shrinker(world(), run=machine.run).shrink()

    assert shrunk is not None
    assert [fault.number for fault in shrunk.world.schedule] == needed
    assert (shrunk.faults_before, shrunk.runs) == (20, machine.runs)
    assert shrunk.verdict.property == "2.7 virtual synchrony"


def test_a_world_that_fails_without_any_fault_needs_none() -> None:
    shrunk = Shrinker(world(), run=Machine().run).shrink()

    assert shrunk is not None
    assert shrunk.world.schedule == ()


@pytest.mark.parametrize(("needed", "left"), [(0, 0), (4, 5), (60, 60), (61, 150)])
def test_the_load_is_reduced_as_far_as_possible(needed: int, left: int) -> None:
    shrunk = Shrinker(world(), run=Machine(7, load_per_second=needed).run).shrink()

    assert shrunk is not None
    assert shrunk.world.load.per_second == left


def test_paths_become_as_good_as_they_can_be() -> None:
    poor = world()
    poor = replace(poor, quality=replace(poor.quality, loss=0.08, jitter_us=300))

    shrunk = Shrinker(poor, run=Machine(7).run).shrink()

    assert shrunk is not None
    assert (shrunk.world.quality.loss, shrunk.world.quality.jitter_us) == (0, 0)


def test_a_world_that_holds_is_not_shrunk() -> None:
    assert Shrinker(world(), run=Machine(21).run).shrink() is None


def test_the_runs_are_bounded_and_the_best_so_far_is_kept() -> None:
    machine = Machine(7, 18)

    shrunk = Shrinker(world(), run=machine.run, runs_max=6).shrink()

    assert shrunk is not None
    assert machine.runs == 6
    assert {7, 18} <= {int(fault.number) for fault in shrunk.world.schedule}


def test_progress_is_reported() -> None:
    told: list[tuple[int, int]] = []

    Shrinker(world(), lambda runs, faults: told.append((runs, faults)), Machine(7).run).shrink()

    assert told[0] == (2, 20)
    assert told[-1][1] == 1
