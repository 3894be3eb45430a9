"""The world of peers that a seed stands for: members, network, load and faults, drawn before the run."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from hopring.rmp.options import PeerRingOptions
from hopring.sim.campaign.fault_schedule import CHAOS_US, Fault
from hopring.sim.campaign.rmp.ring_schedule import (
    draw_aimed_schedule,
    draw_growth_schedule,
    draw_growth_starts,
    draw_holders_schedule,
    draw_joiners_schedule,
    draw_ring_schedule,
    draw_severed_schedule,
    draw_turning_schedule,
)
from hopring.sim.campaign.world import Load
from hopring.sim.engine import generator
from hopring.sim.path import Quality
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

RING_DRAW: Final = 1
"""Changes whenever a seed comes to mean another world; `tests/seeds.txt` says of which draw its seeds are."""

PEERS: Final = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal")
AIMED: Final = (3, 4)
"""Remainder and divisor of the seeds whose schedules aim at recoveries, and have no other faults."""

HOLDERS: Final = (1, 8)
"""The same of those whose schedules aim at the few that hold a message."""

CALM: Final = (5, 16)
"""Remainder and divisor of the seeds whose worlds lose nothing: there Unreliable messages arrive, too."""

CALLERS: Final = ("xan", "yve")
"""Processes that call the ring without being members."""

SETTLE_US: Final = 3_000_000
"""Within this time after the heal all peers are in one ring."""

QUIET_US: Final = 1_200_000
"""The end of a world, without load: long enough to see what an idle ring sends."""

OPTIONS: Final = PeerRingOptions()


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """One peer, with what it asks for when it joins."""

    name: str
    minimum: int = 1
    capable: bool = True  # It hears multicasts.
    found: bool = True


@dataclass(frozen=True, slots=True)
class RingWorld:
    """Everything that a seed decides."""

    seed: int
    peers: tuple[PeerPlan, ...]
    quality: Quality
    load: Load
    schedule: tuple[Fault, ...]
    changes: float = 0.0  # The share of leaves and joins among what peers do; the rest are messages.
    locks: float = 0.0  # The share of claims of locks.
    callers: tuple[str, ...] = ()  # Processes that call the ring without being members,
    calls: float = 0.0  # the share of their calls,
    via: tuple[str, ...] = ()  # and the members that send them on; without any they go to the group.
    resilient: tuple[
        int, ...
    ] = ()  # Draws of the losses that all messages survive; empty: messages of all kinds.
    one_host: bool = False  # All peers are processes of one machine.
    starts_us: tuple[tuple[str, int], ...] = ()  # Peers that start later than the others.
    lasting: tuple[Fault, ...] = ()  # Always empty: at the end all peers reach each other.
    options: PeerRingOptions = OPTIONS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all peers, the founder's first."""
        return tuple(peer.name for peer in self.peers)

    @property
    def end_us(self) -> int:
        """The end of the world."""
        return CHAOS_US + SETTLE_US + QUIET_US

    @property
    def quorate(self) -> bool:
        """Whether a member of the ring asks for a majority, or for all."""
        return any(peer.minimum in (MINIMUM_MAJORITY, MINIMUM_ALL) for peer in self.peers)


def draw_ring_world(seed: int) -> RingWorld:
    """The world of a seed."""
    dice = generator(seed, "ring world")
    aim = aim_of(seed)
    names = PEERS[: _SIZES.get(aim) or dice.choice([2, 3, 3, 4, 4, 5, 5, 6, 8])]
    peers = _draw_peers(generator(seed, "peers"), names, aim)
    starts = generator(seed, "starts of peers")
    world = RingWorld(
        seed,
        peers,
        _draw_quality(dice),
        _draw_load(dice),
        _SCHEDULES[aim](generator(seed, "ring faults"), names),
        changes=dice.choice([0.0, 0.02, 0.02, 0.1]),
        locks=dice.choice([0.0, 0.0, 0.05, 0.2]),
        starts_us=draw_growth_starts(starts, names) if aim in GROWING else _draw_starts(starts, names),
    )
    if aim in ("holders", "joiners"):
        load = replace(world.load, per_second=100 if aim == "holders" else 40, sizes=(10, 100, 1_000))
        resilient = (1, 1, 2, 2, 3) if aim == "holders" else (1, 2, 2, 2)
        world = replace(world, load=load, changes=0.05 if aim == "holders" else 0.0, resilient=resilient)
    world = _with_callers(world, generator(seed, "callers"))
    return _calmed(world) if seed % CALM[1] == CALM[0] else world


_SCHEDULES: Final[dict[str, Callable[[Random, tuple[str, ...]], tuple[Fault, ...]]]] = {
    "": draw_ring_schedule,
    "recoveries": draw_aimed_schedule,
    "turning": draw_turning_schedule,
    "severed": draw_severed_schedule,
    "growth": draw_growth_schedule,
    "holders": draw_holders_schedule,
    "joiners": draw_joiners_schedule,
}
_SIZES: Final = {"turning": 5, "growth": 5, "severed": 3, "joiners": 4}
GROWING: Final = ("growth", "joiners")
"""Aims at rings of three to which others come."""


def aim_of(seed: int) -> str:
    """What the schedule of a seed aims at: every fourth at recoveries, every eighth at holders of messages."""
    if seed % AIMED[1] == AIMED[0]:
        return ("recoveries", "turning", "severed", "growth")[seed // AIMED[1] % 4]
    if seed % HOLDERS[1] == HOLDERS[0]:
        return ("holders", "holders", "holders", "joiners")[seed // HOLDERS[1] % 4]
    return ""


def _with_callers(world: RingWorld, dice: Random) -> RingWorld:
    """In half of the worlds processes call the ring; in some of those members send their packets on."""
    callers = CALLERS[: dice.choice([0, 0, 1, 2])]
    deaf = any(not peer.capable for peer in world.peers)
    via = tuple(dice.sample(world.names, min(2, len(world.names)))) if deaf or dice.random() < 0.3 else ()
    if not callers:
        return world
    locks = max(world.locks, dice.choice([0.05, 0.2]))  # Somebody has to hold handlers.
    return replace(world, callers=callers, calls=dice.choice([0.1, 0.3]), via=via, locks=locks)


def _calmed(world: RingWorld) -> RingWorld:
    """The world without faults, on one machine, with a caller that gives its packets to a member."""
    quality = replace(world.quality, loss=0.0, reorder=0.0)
    names = CALLERS[:1], world.names[-1:]
    calm = replace(world, quality=quality, schedule=(), one_host=True)
    return replace(calm, callers=names[0], via=names[1], calls=0.3)


def _draw_peers(dice: Random, names: tuple[str, ...], aim: str) -> tuple[PeerPlan, ...]:
    """One rule for all in most worlds; the first peer founds the ring where founding has to be asked for."""
    kind = dice.choice(["one", "one", "majority", "majority", "majority", "constant", "mixed", "mixed", "all"])
    if aim:
        kind = dice.choice(["one", "majority", "majority"])
    if aim in ("turning", "growth", "joiners"):
        kind = "one" if aim == "joiners" else "majority"
    deaf: set[str] = set()
    if dice.random() < 0.15 and aim not in (
        "turning",
        "growth",
    ):  # Not the first alone, which founds: nobody could ask it by multicast.
        deaf = set(names) if dice.random() < 0.3 else {dice.choice(names[1:])}
    peers: list[PeerPlan] = []
    for place, name in enumerate(names):
        minimum = {
            "one": 1,
            "majority": MINIMUM_MAJORITY,
            "constant": 2,
            "all": MINIMUM_ALL,
            "mixed": dice.choice([1, 2, 3]),
        }[kind]
        founds = place == 0 or (kind in ("one", "constant", "mixed") and not deaf)
        peers.append(PeerPlan(name, minimum, name not in deaf, founds))
    return tuple(peers)


def _draw_quality(dice: Random) -> Quality:
    echo = dice.random() < 0.1
    return Quality(
        delay_us=dice.choice([100, 500, 500, 2_000, 5_000]),
        jitter_us=dice.choice([0, 100, 1_000]),
        loss=dice.choice([0.0, 0.0, 0.005, 0.02, 0.08]),
        duplicate=0.1 if echo else dice.choice([0.0, 0.0, 0.02]),
        duplicate_delay_us=600_000 if echo else 0,
        reorder=dice.choice([0.0, 0.0, 0.02]),
        reorder_delay_us=8_000,
    )


def _draw_load(dice: Random) -> Load:
    sizes = dice.choice([(10, 100, 1_000), (10, 100, 1_000), (10, 100, 3_000, 8_000), (100, 20_000)])
    return Load(per_second=dice.choice([10, 40, 100]), burst=dice.choice([0, 4, 8]), sizes=sizes)


def _draw_starts(dice: Random, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """In most worlds all but the first start within 100 ms; in some later, one after the other."""
    latest_us = dice.choice([0, 20_000, 100_000, 1_500_000])
    return tuple((name, dice.randint(0, latest_us)) for name in names[1:]) if latest_us else ()
