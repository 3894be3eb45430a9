"""Fault schedules of worlds of peers: faults of all kinds, and ambushes that wait for a moment of a ring.

An *ambush* strikes the first peer that comes to a moment: it was named as the next token site, it has passed
the token, it has acknowledged the list of a recovery, it has installed it, or it is suspended.
"""

from random import Random
from typing import Final

from hopring.sim.campaign.fault_schedule import (
    CHAOS_FROM_US,
    CHAOS_US,
    Fault,
    FaultTargets,
    draw_fault,
    draw_sides,
)

KINDS: Final = (
    *("crash", "stop", "partition", "sever", "one_way", "heal", "pause", "loss", "storm"),
    *("ambush", "ambush", "cascade"),
)
RARE: Final = ("late", "slow", "long_pause")
RING_MOMENTS: Final = ("named", "joined", "passing", "prepared", "committed", "suspended")
RECOVERY_MOMENTS: Final = ("prepared", "prepared", "committed", "suspended")
GROWTH_US: Final = 700_000
"""When a ring of three grows, in the worlds that are about that."""

STRIKES: Final = ("fell", "numb", "mute", "tear", "freeze")
"""What an ambush does to the peer that comes to its moment: it crashes, hears nothing for a while, is heard by
nobody for a while, is alone on its side of a partition, or is paused."""


def draw_ring_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """About ten faults between the start and the heal."""
    kinds = [kind for kind in KINDS if dice.random() < 0.6] or [dice.choice(KINDS)]
    kinds += [kind for kind in RARE if dice.random() < 0.1]
    faults: list[Fault] = []
    at_us = CHAOS_FROM_US
    while at_us < CHAOS_US:
        kind = dice.choice(kinds)
        faults.extend(_draw(dice, names, kind, at_us))
        at_us += int(dice.expovariate(2.0 if kind == "cascade" else 3.5) * 1_000_000)
    return _in_time(faults)


def _draw(dice: Random, names: tuple[str, ...], kind: str, at_us: int) -> list[Fault]:
    if kind == "ambush":
        return draw_ambush(dice, at_us, RING_MOMENTS)
    if kind == "cascade":
        return _draw_cascade(dice, names, at_us)
    return draw_fault(dice, FaultTargets(names, (), names), kind, at_us)


def draw_ambush(dice: Random, at_us: int, moments: tuple[str, ...]) -> list[Fault]:
    """A strike at the first peer that comes to one of these moments."""
    kind, moment = dice.choice(STRIKES), dice.choice(moments)
    number = dice.choice([30, 100, 300, 600])
    end = [Fault(at_us + dice.randint(300_000, 900_000), "heal")] if kind == "tear" else []
    return [Fault(at_us, kind, (), number, moment, 1), *end]


def _draw_cascade(dice: Random, names: tuple[str, ...], at_us: int) -> list[Fault]:
    """The ring breaks, and its recoveries are interrupted once or twice."""
    break_us = at_us + dice.randint(10_000, 40_000)
    faults = [Fault(at_us, "loss", (), dice.choice([0.0, 0.2, 0.4]))]
    faults += _draw_break(dice, names, break_us)
    for _ in range(dice.choice([1, 1, 2])):
        faults += draw_ambush(dice, break_us + 20_000, RECOVERY_MOMENTS)
    faults.append(Fault(break_us + dice.randint(5_000, 50_000), "loss", (), 0.0))
    return faults


def _draw_break(dice: Random, names: tuple[str, ...], at_us: int) -> list[Fault]:
    lost = dice.sample(names, min(len(names) - 1, dice.choice([0, 1, 1, 2])))
    faults: list[Fault] = []
    for name in lost:
        if dice.random() < 0.4:
            faults.append(Fault(at_us, "pause", (name,), dice.randint(300, 1_200)))
        else:
            back_us = at_us + dice.randint(300_000, 1_200_000)
            faults += [Fault(at_us, "crash", (name,)), Fault(back_us, "restart", (name,))]
    return faults or [Fault(at_us, "partition", draw_sides(dice, names))]


def draw_aimed_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """Two recoveries, each torn apart at its moments, and the parts brought together in new ways.

    It aims at what members have to remember of an attempt that others do not know of: a list that one has
    acknowledged or installed alone, changes of the list that only some have seen, packets that one side has
    delivered. So the network is cut anew again and again, mostly in two, and there is no other fault.
    """
    faults: list[Fault] = []
    for begin_us in (CHAOS_FROM_US, CHAOS_FROM_US + 1_350_000):
        at_us = begin_us + dice.randint(0, 60_000)
        faults += _draw_break(dice, names, at_us)
        for _ in range(dice.choice([1, 2, 3])):
            faults += draw_ambush(dice, at_us + dice.randint(0, 250_000), RECOVERY_MOMENTS)
        for _ in range(dice.choice([1, 2, 2, 3])):
            at_us += dice.randint(60_000, 500_000)
            faults.append(Fault(at_us, "partition", draw_sides(dice, names)))
        faults.append(Fault(begin_us + 1_250_000, "heal"))
    return _in_time(faults)


def draw_turning_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """A majority recovers, and who has acknowledged its list is on the other side before it hears the end.

    Then the rest of the majority has committed, and the other side, with the one that is bound, is a majority
    of the list before (trap 14).
    """
    faults: list[Fault] = []
    for begin_us in (CHAOS_FROM_US, CHAOS_FROM_US + 1_350_000):
        at_us = begin_us + dice.randint(0, 60_000)
        more = dice.sample(names, len(names) // 2 + 1)
        sides = tuple([f"{name}={0 if name in more else 1}" for name in names])
        faults += [Fault(at_us, "partition", sides), Fault(at_us, "turn", (), 0, "prepared", 1)]
        faults.append(Fault(begin_us + 1_250_000, "heal"))
    return _in_time(faults)


def draw_growth_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """The founder and those who have just come are cut off from two who do not hear of them (trap 15)."""
    at_us = GROWTH_US + dice.randint(0, 30_000)
    sides = tuple([f"{name}={int(name in names[1:3])}" for name in names])
    return (Fault(at_us, "partition", sides), Fault(at_us + 1_500_000, "heal"))


def draw_growth_starts(dice: Random, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Three make a ring; the others come shortly before it is split."""
    first = [(name, dice.randint(0, 100_000)) for name in names[1:3]]
    return (*first, *[(name, GROWTH_US - dice.randint(0, 40_000)) for name in names[3:]])


def draw_holders_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """Token sites are cut off or die while packets are lost and members come: few hold what was delivered."""
    faults: list[Fault] = []
    at_us = CHAOS_FROM_US
    while at_us < CHAOS_US - 700_000:
        lossy_us = at_us + dice.randint(0, 30_000)
        victim = dice.choice(names)
        faults += [Fault(lossy_us, "loss", (), dice.choice([0.0, 0.2, 0.4]))]
        for _ in range(dice.choice([1, 1, 2])):
            kind, moment = (
                dice.choice(("mute", "mute", "tear", "fell")),
                dice.choice(("named", "passing", "joined")),
            )
            faults.append(Fault(lossy_us + dice.randint(1_000, 20_000), kind, (), 300, moment, 1))
        if dice.random() < 0.5:
            crash_us = lossy_us + dice.randint(10_000, 80_000)
            faults += [Fault(crash_us, "crash", (victim,)), Fault(crash_us + 250_000, "restart", (victim,))]
        faults.append(Fault(lossy_us + dice.randint(60_000, 250_000), "loss", (), 0.0))
        faults.append(Fault(at_us + 450_000, "heal"))
        at_us += 550_000
    return _in_time(faults)


def draw_severed_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """Two members do not hear each other, and others hear both: both begin recoveries, which do not meet."""
    faults: list[Fault] = []
    for begin_us in (CHAOS_FROM_US, CHAOS_FROM_US + 1_350_000):
        at_us = begin_us + dice.randint(0, 60_000)
        faults += [Fault(at_us, "sever", tuple(dice.sample(names, 2))), Fault(begin_us + 1_300_000, "heal")]
    return _in_time(faults)


def draw_joiners_schedule(dice: Random, names: tuple[str, ...]) -> tuple[Fault, ...]:
    """One of three does not hear the other two as a fourth comes; then it is apart from them, too (trap 2)."""
    *two, deaf, joiner = names
    faults: list[Fault] = []
    for begin_us in (GROWTH_US, GROWTH_US + 1_150_000):
        at_us = begin_us + dice.randint(0, 20_000)
        faults += [Fault(at_us, "one_way", (one, deaf)) for one in two]
        sides = (*[f"{one}=0" for one in two], f"{deaf}=1", f"{joiner}=1")
        faults.append(Fault(at_us + dice.randint(30_000, 100_000), "partition", sides))
        faults.append(Fault(begin_us + 900_000, "heal"))
        faults.append(Fault(begin_us + 950_000, "crash", (joiner,)))
        faults.append(Fault(begin_us + 1_150_000 - dice.randint(0, 25_000), "restart", (joiner,)))
    return _in_time(faults)


def _in_time(faults: list[Fault]) -> tuple[Fault, ...]:
    """Faults after the heal are left out: nothing would ever end them."""
    return tuple(sorted([fault for fault in faults if fault.at_us < CHAOS_US], key=lambda fault: fault.at_us))
