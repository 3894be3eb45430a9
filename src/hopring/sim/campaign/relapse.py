"""Relapses: a view breaks, and the recovery from it breaks too, at a moment that matters, before it is over.

Aimed at what is remembered of an attempt that failed. Those that are lost were heard unevenly; some sleep
through the first attempt and come back with what they know; somebody falls out of it who has decided or given
its word, while others carry it to its end; and then those who are left meet the sleepers. Who is who, what was
heard of whom and what befalls the attempt is drawn.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hopring.sim.campaign.schedule import CHAOS_US, Fault, Places, draw_sides

DAEMONS_MIN: Final = 5
"""Two that are lost, one that sleeps, and two that can disagree."""

FIRST_US: Final = 450_000
APART_US: Final = 1_250_000
"""From one relapse to the next: both attempts, and all together again."""

LAST_WORDS_US: Final = 12_000
"""So long before the break the lost begin to be heard unevenly, and speak."""

CALM_US: Final = 15_000
"""So long after it all ways are good again, before anybody looks for others."""

AMBUSH_US: Final = 100_000
"""So long after it, before silence can be noticed, what lies in wait for the attempt begins to."""

FAINT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Roles:
    """Who is who in a relapse."""

    lost: tuple[str, ...]  # Crash as the view breaks.
    asleep: tuple[str, ...]  # Sleep until somebody is bound by an attempt that failed.
    awake: tuple[str, ...]


def draw_relapses(dice: Random, places: Places) -> tuple[Fault, ...]:
    """As many as there is time for, and nothing else that goes wrong."""
    assert len(places.daemons) >= DAEMONS_MIN, "enough daemons for all roles"
    faults: list[Fault] = []
    for at_us in range(FIRST_US, CHAOS_US - APART_US + 1, APART_US):
        faults.extend(_draw_relapse(dice, places, at_us + dice.randint(0, 100_000)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _draw_relapse(dice: Random, places: Places, break_us: int) -> list[Fault]:
    roles = _draw_roles(dice, places)
    faults: list[Fault] = []
    for name in roles.lost:
        faults.extend(_draw_last_words(dice, places, roles, name, break_us))
        faults.append(Fault(break_us, "crash", (name,)))
        faults.append(Fault(break_us + dice.randint(800_000, 1_000_000), "restart", (name,)))
    for name in roles.asleep:
        faults.append(Fault(break_us, "pause", (name,), dice.randint(600, 1_000)))
        faults.append(Fault(break_us + AMBUSH_US, "wake", (name,), 0, "adrift", 1))
    faults.append(Fault(break_us + CALM_US, "loss"))
    faults.append(Fault(break_us + CALM_US, "heal"))
    faults.extend(_draw_second_fault(dice, places, roles, break_us + AMBUSH_US))
    faults.append(Fault(break_us + dice.randint(800_000, 900_000), "heal"))
    return faults


def _draw_roles(dice: Random, places: Places) -> Roles:
    """Mostly those that speak for a site are lost and sleep: what reaches them reaches nobody else there."""
    first = dice.sample(places.first, len(places.first))
    others = [name for name in places.daemons if name not in first]
    names = first + dice.sample(others, len(others))
    if dice.random() < 0.25:
        dice.shuffle(names)
    lost_count = dice.choice([1, 2, 2, 2])
    lost, rest = names[:lost_count], names[lost_count:]
    asleep_count = min(dice.choice([1, 1, 2]), len(rest) - 2)
    return Roles(tuple(lost), tuple(rest[:asleep_count]), tuple(rest[asleep_count:]))


def _draw_last_words(dice: Random, places: Places, roles: Roles, name: str, break_us: int) -> list[Fault]:
    """What one says that is about to be lost, and how well it is heard."""
    at_us = break_us - LAST_WORDS_US
    heard = _draw_heard(dice, [other for other in places.daemons if other != name], roles.asleep)
    faults: list[Fault] = []
    for _ in range(dice.randint(3, 6)):
        spoken_us = break_us - dice.randint(1_000, LAST_WORDS_US - 1_000)
        faults.append(Fault(spoken_us, "speak", (name, dice.choice(["safe", "safe", "agreed"]))))
    faint = tuple(f"{name}>{other}" for other, how in heard.items() if how == "faint")
    cut = tuple(f"{name}>{other}" for other, how in heard.items() if how == "cut")
    if faint:
        faults.append(Fault(at_us, "faint", faint, FAINT))
    if cut:
        faults.append(Fault(at_us, "patchy", cut))
    return faults


def _draw_heard(dice: Random, others: list[str], asleep: tuple[str, ...]) -> dict[str, str]:
    """By all; or by those alone who will sleep, and not all of it: a whisper; or by each as chance has it."""
    match dice.choice(["well", "whisper", "whisper", "unevenly"]):
        case "well":
            return {}
        case "whisper":
            return {other: "faint" if other in asleep else "cut" for other in others}
        case _:
            return {other: dice.choice(["well", "faint", "cut"]) for other in others}


def _draw_second_fault(dice: Random, places: Places, roles: Roles, at_us: int) -> list[Fault]:
    """What befalls the attempt, and those who carried it to its end all the same."""
    names = dice.sample(places.daemons, len(places.daemons))
    moment = dice.choice(["evs", "bound", "bound", "bound"])
    match dice.choice(["numb", "numb", "numb", "crash", "partition"]):
        case "numb":
            second = Fault(at_us, "numb", tuple(names), dice.randint(50, 300), moment, 1)
        case "crash":
            second = Fault(at_us, "crash", (dice.choice(roles.awake),), 0, moment, 1)
        case _:
            second = Fault(at_us, "partition", draw_sides(dice, places.daemons), 0, moment, 1)
    if dice.random() < 0.2:
        return [second, Fault(at_us, "partition", draw_sides(dice, places.daemons), 0, "installed", 1)]
    return [second, Fault(at_us, "tear", (), 0, "installed", 1)]
