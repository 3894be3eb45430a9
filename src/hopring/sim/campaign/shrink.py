"""Shrinking: the smallest schedule of faults that still breaks the same property of a seed's world.

Delta debugging (Zeller and Hildebrandt, 2002) on the plain list of faults: leave out ever smaller parts of it
for as long as the world still fails. Then load and path faults are removed where they are not needed. The
smaller world draws other random numbers: it breaks the same property, but not with the same message.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from hopring.check.properties.property import Verdict
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import WorldOutcome, run_world
from hopring.sim.campaign.world import SimWorld

RUNS_MAX: Final = 300
"""A world takes about a second to run, so this bounds the waiting time."""

LOADS_PER_SECOND: Final = (0, 5, 20, 60)
CALM: Final = ("loss", "duplicate", "reorder", "jitter_us")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest world found, and what breaks in it."""

    world: SimWorld
    verdict: Verdict
    outcome: WorldOutcome
    faults_before: int
    runs: int


class Shrinker:
    """Shrinks the world of one seed; `tell` is called for each run with the number of faults left."""

    def __init__(
        self,
        world: SimWorld,
        tell: Callable[[int, int], None] = lambda _runs, _faults: None,
        run: Callable[[SimWorld], WorldOutcome] = run_world,
        runs_max: int = RUNS_MAX,
    ) -> None:
        self._world = world
        self._tell = tell
        self._run = run
        self._runs_max = runs_max
        self._runs = 0
        self._outcome: WorldOutcome | None = None

    def shrink(self) -> Shrunk | None:
        """The smallest world found, or None if this one does not fail."""
        faults_before = len(self._world.schedule)
        self._runs = 1
        outcome = self._run(self._world)
        if not outcome.broken:
            return None
        self._outcome = outcome
        self._drop_faults()
        self._calm_down()
        assert self._outcome is not None, "the first run failed"
        return Shrunk(self._world, self._outcome.broken[0], self._outcome, faults_before, self._runs)

    def _drop_faults(self) -> None:
        if self._without(()):
            return
        parts = 2
        while len(faults := self._world.schedule) >= 2 and self._runs < self._runs_max:
            if any(self._without(rest) for rest in _rests(faults, parts)):
                parts = max(2, parts - 1)
            elif parts >= len(faults):
                return
            else:
                parts = min(len(faults), 2 * parts)

    def _calm_down(self) -> None:
        """Reduces the load and the faults of paths."""
        for load in LOADS_PER_SECOND:
            smaller = replace(self._world.load, per_second=load)
            if load < self._world.load.per_second and self._still_fails(replace(self._world, load=smaller)):
                break
        if self._world.load.burst:
            self._still_fails(replace(self._world, load=replace(self._world.load, burst=0)))
        if self._world.load.sessions > 1:
            self._still_fails(replace(self._world, load=replace(self._world.load, sessions=1)))
        if self._world.starts_us:
            self._still_fails(replace(self._world, starts_us=()))
        if self._world.lasting:
            self._still_fails(replace(self._world, lasting=()))
        for trouble in CALM:
            quality = self._world.quality
            if getattr(quality, trouble):
                self._still_fails(replace(self._world, quality=replace(quality, **{trouble: 0})))

    def _without(self, schedule: tuple[Fault, ...]) -> bool:
        return self._still_fails(replace(self._world, schedule=schedule))

    def _still_fails(self, world: SimWorld) -> bool:
        """Runs a smaller world, and keeps it if the same property breaks first."""
        assert self._outcome is not None, "there is something to compare with"
        if self._runs >= self._runs_max:
            return False
        self._runs += 1
        self._tell(self._runs, len(self._world.schedule))
        outcome = self._run(world)
        if not outcome.broken or outcome.broken[0].property != self._outcome.broken[0].property:
            return False
        self._world, self._outcome = world, outcome
        return True


def _rests(faults: tuple[Fault, ...], parts: int) -> Iterator[tuple[Fault, ...]]:
    """The schedule without each of `parts` parts of nearly equal length."""
    cuts = [len(faults) * at // parts for at in range(parts + 1)]
    for start, end in pairwise(cuts):
        yield faults[:start] + faults[end:]
