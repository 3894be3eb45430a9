"""The world of clusters that a seed stands for: talks, channels, load and cuts, drawn before the run.

A world has three parts: chaos; a pause without sends and new cuts, in which all moves that can move, so that
what waits then waits for a reason; and the heal, after which everything must come to rest.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hopring.haul.ids import ClusterId, Talk, clusters_mask
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.world import Load
from hopring.sim.engine import generator
from hopring.sim.path import Quality
from hopring.sim.wide.clusters import Direction

WIDE_CHAOS_US: Final = 20_000_000
PAUSE_US: Final = 15_000_000
"""Longer than all timers and delays together, so that nothing moves at its end."""

WIDE_HEALED_US: Final = 30_000_000
CUT_US: Final = (300_000, 12_000_000)

CUT: Final = "cut"
"""A fault: these channels are cut for so many milliseconds; without a number until the heal."""


@dataclass(frozen=True, slots=True)
class WideWorld:
    """Everything that a seed decides."""

    seed: int
    clusters: int
    talks: tuple[Talk, ...]
    quality: Quality  # Of channels: the longest delay.
    load: Load  # Parcels a second, of all clusters together.
    schedule: tuple[Fault, ...]
    answers: float  # The probability that a client answers what it gets, so that causes chain.
    abcasts: float
    single: float  # The share of cbcasts that are for one cluster.
    starts_us: tuple[tuple[str, int], ...] = ()  # Always empty: all clusters are there from the start.
    lasting: tuple[Fault, ...] = ()  # Always empty: at the end all channels are open.

    @property
    def every(self) -> list[ClusterId]:
        """All clusters of the world."""
        return [ClusterId(one) for one in range(1, self.clusters + 1)]

    @property
    def end_us(self) -> int:
        """The end of the world."""
        return WIDE_CHAOS_US + PAUSE_US + WIDE_HEALED_US


def draw_wide_world(seed: int) -> WideWorld:
    """The world of a seed."""
    dice = generator(seed, "wide world")
    clusters = dice.randint(2, 5)
    every = [ClusterId(one) for one in range(1, clusters + 1)]
    talks = [Talk(clusters_mask(every))]
    for number in range(dice.randint(0, 4)):
        some = dice.sample(every, dice.randint(2, clusters))
        talks.append(Talk(clusters_mask(some), dice.choice(["", f"talk {number}"])))
    return WideWorld(
        seed,
        clusters,
        tuple(dict.fromkeys(talks)),
        Quality(delay_us=dice.choice([5_000, 80_000, 600_000])),
        Load(dice.choice([1, 3, 7])),
        _draw_cuts(generator(seed, "wide cuts"), every),
        answers=dice.choice([0.0, 0.3, 0.6]),
        abcasts=dice.choice([0.0, 0.3, 0.7]),
        single=dice.choice([0.0, 0.2, 0.4]),
    )


def _draw_cuts(dice: Random, every: list[ClusterId]) -> tuple[Fault, ...]:
    """Cuts between two sides, both ways or one way; some last through the pause."""
    one_way = dice.choice([0.0, 0.5])
    cuts = [
        Fault(dice.randrange(WIDE_CHAOS_US), CUT, between(dice, every, one_way), dice.randint(*CUT_US) / 1_000)
        for _ in range(dice.choice([0, 2, 6, 12]))
    ]
    if dice.random() < 0.7:
        cuts.append(Fault(WIDE_CHAOS_US - 1, CUT, between(dice, every, one_way)))
    return tuple(sorted(cuts, key=lambda fault: fault.at_us))


def between(dice: Random, every: list[ClusterId], one_way: float) -> tuple[str, ...]:
    """The directions that a cut has between two sides of clusters."""
    side = set(dice.sample(every, dice.randint(1, len(every) - 1)))
    pairs = [(one, other) for one in every for other in every if (one in side) != (other in side)]
    if dice.random() < one_way:
        pairs = [pair for pair in pairs if dice.random() < 0.5] or pairs[:1]
    return tuple([f"{one}>{other}" for one, other in pairs])


def directions_of(fault: Fault) -> list[Direction]:
    """The channels that a fault cuts."""
    pairs = [pair.split(">") for pair in fault.what]
    return [(ClusterId(int(one)), ClusterId(int(other))) for one, other in pairs]
