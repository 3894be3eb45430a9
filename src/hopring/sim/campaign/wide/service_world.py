"""The world of clusters with members that a seed stands for: sets, load and faults, drawn before the run.

As in the worlds of channels there are three parts: chaos; a pause in which all that can moves; and the heal.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hopring.haul.ids import ClusterId, ClusterMask, Talk, clusters_in, clusters_mask
from hopring.haul.link.schedule import Windows
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.wide.wide_world import CUT, between
from hopring.sim.campaign.world import Load
from hopring.sim.engine import generator
from hopring.sim.path import Quality

CHAOS_US: Final = 240_000_000
PAUSE_US: Final = 150_000_000
HEALED_US: Final = 300_000_000
"""Pause and heal are longer than silence, redialling and repeating together."""

CRASH, CRASH_ALL, SPLIT = "crash", "crash-cluster", "split"
CLIENT, SWITCH, SESSION, BURST, DISK = "client", "switch", "session", "burst", "disk"
"""Faults besides cuts: they last for `number` milliseconds."""

SMALL_BYTES: Final = 2_500
"""The limit of what waits in worlds where limits are reached."""


@dataclass(frozen=True, slots=True)
class ServiceWorld:
    """Everything that a seed decides."""

    seed: int
    members: tuple[int, ...]  # By cluster.
    sets: tuple[tuple[str, ClusterMask], ...]
    talks: tuple[tuple[str, Talk], ...]  # With their sets.
    quality: Quality  # Of lines between clusters: the longest delay.
    load: Load  # Messages a minute, of all clusters together.
    schedule: tuple[Fault, ...]
    life_us: tuple[int, int]  # Of connections.
    windows: tuple[
        tuple[ClusterId, ClusterId, Windows], ...
    ]  # Links with a schedule, the one that dials first.
    both_dial: bool
    on_demand: bool  # All links; both ends dial then.
    spool_bytes_max: int
    compact_entries: int
    founded: bool
    durable: bool  # Whether the first client of each cluster is a durable consumer.
    answers: float
    abcasts: float
    single: float
    with_files: float  # Of the messages.
    calls: float  # Of the messages.
    starts_us: tuple[tuple[str, int], ...] = ()
    lasting: tuple[Fault, ...] = ()

    @property
    def every(self) -> list[ClusterId]:
        """All clusters of the world."""
        return [ClusterId(one) for one in range(1, len(self.members) + 1)]

    @property
    def end_us(self) -> int:
        """The end of the world."""
        return CHAOS_US + PAUSE_US + HEALED_US


def draw_service_world(seed: int) -> ServiceWorld:
    """The world of a seed."""
    dice = generator(seed, "service world")
    count = dice.choice([2, 2, 3, 3, 4, 5])
    every = [ClusterId(one) for one in range(1, count + 1)]
    members = tuple([dice.choice([1, 1, 3, 3, 3, 5] if count < 4 else [1, 1, 3]) for _ in every])
    sets = [("s1", clusters_mask(every))]
    if count > 2 and dice.random() < 0.4:
        sets.append(("s2", clusters_mask(dice.sample(every, dice.randint(2, count)))))
    return ServiceWorld(
        seed,
        members,
        tuple(sets),
        _draw_talks(dice, sets),
        Quality(delay_us=dice.choice([5_000, 80_000, 600_000])),
        Load(dice.choice([5, 10, 20])),
        _draw_faults(seed, every, members),
        dice.choice([(2_000_000, 30_000_000), (60_000_000, 600_000_000)]),
        _draw_windows(dice, every),
        both_dial=dice.random() < 0.3,
        spool_bytes_max=SMALL_BYTES if dice.random() < 0.25 else 10_000_000,
        compact_entries=dice.choice([15, 60, 10_000]),
        founded=dice.random() < 0.8,
        durable=seed % 2 == 0,
        on_demand=generator(seed, "on demand").random() < 0.1,
        answers=dice.choice([0.0, 0.3, 0.6]),
        abcasts=dice.choice([0.0, 0.3, 0.7]),
        single=dice.choice([0.0, 0.2]),
        with_files=generator(seed, "file worlds").choice([0.0, 0.0, 0.3]),
        calls=generator(seed, "share of calls").choice([0.0, 0.0, 0.3]),
    )


def _draw_talks(dice: Random, sets: list[tuple[str, ClusterMask]]) -> tuple[tuple[str, Talk], ...]:
    talks: list[tuple[str, Talk]] = []
    for name, clusters in sets:
        talks.append((name, Talk(clusters)))
        for number in range(dice.randint(0, 2)):
            theirs = list(clusters_in(clusters))
            some = dice.sample(theirs, dice.randint(min(2, len(theirs)), len(theirs)))
            talks.append((name, Talk(clusters_mask(some), dice.choice(["", f"talk {number}"]))))
    return tuple(dict.fromkeys(talks))


def _draw_windows(dice: Random, every: list[ClusterId]) -> tuple[tuple[ClusterId, ClusterId, Windows], ...]:
    if dice.random() < 0.75:
        return ()
    pairs = [(one, other) for one in every for other in every if one < other]
    some = dice.sample(pairs, dice.randint(1, len(pairs)))
    return tuple([(*pair, Windows(60_000_000, 15_000_000, dice.randrange(60_000_000))) for pair in some])


def _draw_faults(seed: int, every: list[ClusterId], members: tuple[int, ...]) -> tuple[Fault, ...]:
    dice = generator(seed, "service faults")
    kinds = [CUT, CRASH, CRASH, CRASH_ALL, SPLIT, SPLIT, CLIENT, SWITCH, SESSION]
    chosen = [kind for kind in kinds if dice.random() < 0.6] or [dice.choice(kinds)]
    faults = [
        _draw_fault(dice, dice.choice(chosen), every, members) for _ in range(dice.choice([0, 4, 8, 16, 24]))
    ]
    large = [one for one in every if members[one - 1] > 1]
    for _ in range(dice.choice([0, 0, 1, 3]) if large else 0):
        cluster = dice.choice(large)
        draw = _draw_long_tail if dice.random() < 0.3 else _draw_cascade
        faults += draw(dice, cluster, members[cluster - 1])
    if dice.random() < 0.5:
        faults.append(Fault(CHAOS_US - 1, CUT, between(dice, every, dice.choice([0.0, 0.5]))))
    ambush = generator(seed, "service ambush")
    if large and ambush.random() < 0.3:
        cluster = ambush.choice(large)
        faults += _draw_forgotten(ambush, cluster, members[cluster - 1])
    if large and ambush.random() < 0.3:
        cluster = ambush.choice(large)
        name = f"c{cluster}m{ambush.randint(1, members[cluster - 1])}"
        faults.append(Fault(ambush.randrange(CHAOS_US), DISK, (str(cluster), name), ambush.randint(5, 5_000)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _draw_forgotten(dice: Random, cluster: ClusterId, members: int) -> list[Fault]:
    """All members of a view die when its epoch is on some of their disks; the others meet the rest first."""
    names = [f"c{cluster}m{number}" for number in range(1, members + 1)]
    dice.shuffle(names)
    away, here = names[: (members - 1) // 2], names[(members - 1) // 2 :]
    at_us = dice.randrange(5_000_000, CHAOS_US - 5_000_000)
    sides = tuple([f"{one}=1" for one in away])
    faults = [Fault(at_us, SPLIT, (str(cluster), *sides), 20)]
    faults += [Fault(at_us + 500 * number, BURST, (str(cluster),)) for number in range(1, 5)]
    crash_us = at_us + dice.choice([3_000, 4_000, 5_000, 6_000, 8_000])
    for number, name in enumerate(here):
        back_ms = 400 if number < len(here) // 2 else 5
        faults.append(Fault(crash_us, CRASH, (str(cluster), name), back_ms))
    faults += [Fault(crash_us + delay_us, BURST, (str(cluster),)) for delay_us in (30_000, 60_000, 90_000)]
    return faults


def _draw_cascade(dice: Random, cluster: ClusterId, members: int) -> list[Fault]:
    """Views of one cluster in quick succession, with messages between them: logs that differ, and votes."""
    names = [f"c{cluster}m{number}" for number in range(1, members + 1)]
    hosts = [*names, f"c{cluster}k1", f"c{cluster}k2"]
    faults: list[Fault] = []
    at_us = dice.randrange(5_000_000, CHAOS_US - 5_000_000)
    for _ in range(dice.randint(6, 16)):
        match dice.choice([BURST, BURST, CRASH, SPLIT, SPLIT, CRASH_ALL]):
            case "burst":
                faults.append(Fault(at_us, BURST, (str(cluster),)))
            case "crash":
                faults.append(Fault(at_us, CRASH, (str(cluster), dice.choice(names)), dice.randint(1, 60)))
            case "crash-cluster":
                faults.append(Fault(at_us, CRASH_ALL, (str(cluster),), dice.randint(1, 60)))
            case _:
                sides = tuple([f"{host}={dice.choice([0, 1])}" for host in hosts])
                faults.append(Fault(at_us, SPLIT, (str(cluster), *sides), dice.randint(5, 200)))
        at_us += dice.choice([1_000, 4_000, 20_000, 60_000])
    return faults


def _draw_long_tail(dice: Random, cluster: ClusterId, members: int) -> list[Fault]:
    """A member with entries that nobody else has is alone while others go on, and then meets one of these."""
    names = [f"c{cluster}m{number}" for number in range(1, members + 1)]
    clients = [f"c{cluster}k1", f"c{cluster}k2"]
    dice.shuffle(names)
    at_us = dice.randrange(5_000_000, CHAOS_US - 5_000_000)
    faults = [Fault(at_us, BURST, (str(cluster),)) for _ in range(dice.randint(3, 8))]
    at_us += dice.choice([1_000, 2_000])
    aside = [*names[: members // 2], *clients]
    faults.append(Fault(at_us, SPLIT, (str(cluster), *[f"{one}=1" for one in aside]), 5_000))
    at_us += dice.choice([20_000, 30_000, 50_000, 90_000])
    aside = [*names[: members // 2], *names[-1:], *clients]
    faults.append(Fault(at_us, SPLIT, (str(cluster), *[f"{one}=1" for one in aside]), dice.randint(50, 300)))
    return faults


def _draw_fault(dice: Random, kind: str, every: list[ClusterId], members: tuple[int, ...]) -> Fault:
    at_us = dice.randrange(CHAOS_US)
    cluster = dice.choice(every)
    names = [f"c{cluster}m{number}" for number in range(1, members[cluster - 1] + 1)]
    short, long = dice.randint(50, 5_000), dice.randint(5_000, 90_000)
    match kind:
        case "cut":
            return Fault(at_us, kind, between(dice, every, 0.3), dice.choice([short, long]))
        case "crash":
            return Fault(at_us, kind, (str(cluster), dice.choice(names)), dice.choice([short, short, long]))
        case "split":
            hosts = [*names, f"c{cluster}k1", f"c{cluster}k2"]
            sides = tuple([f"{host}={dice.choice([0, 1])}" for host in hosts])
            return Fault(at_us, kind, (str(cluster), *sides), dice.choice([short, long]))
        case "client":
            return Fault(at_us, kind, (str(cluster), f"c{cluster}k{dice.choice([1, 2])}"), short)
        case "switch":
            other = dice.choice([one for one in every if one != cluster])
            return Fault(at_us, kind, (str(cluster), str(other)), dice.choice([short, long]))
        case "session":
            return Fault(at_us, kind, (str(cluster), dice.choice(names)))
    return Fault(at_us, kind, (str(cluster),), dice.choice([short, long]))
