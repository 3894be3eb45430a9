"""The fault schedule of a world: a plain list, drawn before the run, which can be replayed, printed and shrunk.

A fault strikes at its time; or, if it waits for a moment, as soon after it as a given number of daemons have
reached that moment. The moment is found during the run, and is the same in every run of the same world.

Some worlds draw relapses instead of faults of all kinds: a view breaks, and its recovery is interrupted at a
critical moment. They aim at the state that daemons keep of a failed attempt. The lost daemons were heard
unevenly; some daemons are paused during the first attempt and return with what they know; one daemon drops out
after it has decided or is bound, while others complete the attempt; then the rest meet the paused ones. Roles,
losses and the second fault are drawn.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

CHAOS_FROM_US: Final = 300_000
CHAOS_US: Final = 3_000_000

KINDS: Final = (
    *("crash", "stop", "partition", "sever", "one_way", "cut_sites", "heal", "pause", "loss"),
    *("storm", "cascade", "cascade"),
)
RARE: Final = ("late", "slow", "forget", "long_pause")
OF_A_HOST: Final = ("speak", "crash", "stop", "restart", "forget", "pause", "wake", "late", "slow")
BREAKS: Final = ("crash", "partition", "sever", "one_way", "cut_sites")
"""Faults that can end a view at once; a burst of messages is sent just before them."""

MOMENTS: Final = ("evs", "bound", "installed", "adrift")
"""Moments that a fault can wait for: a daemon has decided in an attempt, is bound by the decision, has
installed a new view, or is bound by the decision of an attempt that failed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, or the end of one."""

    at_us: int
    kind: str
    what: tuple[str, ...] = ()
    number: float = 0.0
    moment: str = ""  # The moment it waits for, and
    count: int = 0  # at how many daemons.

    def __str__(self) -> str:
        words = [self.kind, *self.what] + ([f"{self.number:g}"] if self.number else [])
        waits = f" when {self.count} {self.moment}" if self.moment else ""
        return f"{self.at_us / 1000:8.1f}ms  {' '.join(words)}{waits}"


@dataclass(frozen=True, slots=True)
class FaultTargets:
    """The daemons and sites that faults can strike."""

    daemons: tuple[str, ...]
    sites: tuple[str, ...]
    first: tuple[str, ...]  # The lowest daemon of each site: its representative.


def draw_schedule(dice: Random, places: FaultTargets) -> tuple[Fault, ...]:
    """About ten faults between the start and the heal."""
    kinds = [kind for kind in KINDS if dice.random() < 0.6] or [dice.choice(KINDS)]
    kinds += [kind for kind in RARE if dice.random() < 0.1]
    faults: list[Fault] = []
    at_us = CHAOS_FROM_US
    while at_us < CHAOS_US:
        kind = dice.choice(kinds)
        faults.extend(draw_fault(dice, places, kind, at_us))
        # A cascade takes about a second; another fault in the middle would end it early.
        pause_us = 1_000_000 if kind == "cascade" else 0
        at_us += pause_us + int(dice.expovariate(3.5) * 1_000_000)
    # Faults after the heal are left out: nothing would ever end them.
    in_time = [fault for fault in faults if fault.at_us < CHAOS_US]
    return tuple(sorted(in_time, key=lambda fault: fault.at_us))


def draw_fault(dice: Random, places: FaultTargets, kind: str, at_us: int) -> list[Fault]:
    """One fault of this kind, with the faults that belong to it, such as the restart after a crash."""
    one, other = dice.choice(places.daemons), dice.choice(places.daemons)
    match kind:
        case "crash" | "stop" | "forget":
            back_us = at_us + dice.randint(5_000, 600_000)
            lost = [Fault(at_us, "forget", (one,))] if kind == "forget" else []
            end = Fault(at_us, "stop" if kind == "stop" else "crash", (one,))
            return [end, *lost, Fault(back_us, "restart", (one,))]
        case "partition":
            return [Fault(at_us, "partition", draw_sides(dice, places.daemons))]
        case "sever" | "one_way":
            return [Fault(at_us, kind, (one, other))] if one != other else []
        case "cut_sites":
            return [Fault(at_us, kind, tuple(dice.sample(places.sites, 2)))] if len(places.sites) > 1 else []
        case "pause":
            return [Fault(at_us, "pause", (one,), dice.randint(20, 500))]
        case "long_pause":
            return [Fault(at_us, "pause", (one,), dice.randint(800, 1_500))]
        case "loss":
            return [Fault(at_us, "loss", (), dice.choice([0.0, 0.01, 0.1, 0.3]))]
        case "late":
            return [Fault(at_us, "late", (one,), dice.randint(1, 30))]
        case "slow":
            return [Fault(at_us, "slow", (one,), dice.choice([0.1, 0.3, 1.0]))]
        case "storm":
            # Heavy loss just before a break: some daemons have messages that others lack and cannot request.
            worse = draw_fault(dice, places, dice.choice(BREAKS), at_us + dice.randint(10_000, 40_000))
            calm_us = at_us + dice.randint(50_000, 300_000)
            return [Fault(at_us, "loss", (), 0.4), *worse, Fault(calm_us, "loss", (), dice.choice([0.0, 0.05]))]
        case "cascade":
            return _draw_cascade(dice, places, at_us)
        case _:
            return [Fault(at_us, "heal")]


def draw_sides(dice: Random, names: tuple[str, ...]) -> tuple[str, ...]:
    """A partition that puts each daemon on one of two or three sides."""
    ways = dice.choice([2, 2, 3])
    return tuple(f"{name}={dice.randrange(ways)}" for name in names)


def _draw_cascade(dice: Random, places: FaultTargets, at_us: int) -> list[Fault]:
    """A view breaks under heavy loss, and the following attempts are interrupted at critical moments.

    Some daemons crash with messages that only they had; some are paused during the first attempt and return
    with theirs. Then some daemons do not hear how the attempt ends, and once others have installed its view,
    the network is partitioned again.
    """
    break_us = at_us + dice.randint(10_000, 40_000)
    names = dice.sample(places.daemons, len(places.daemons))
    # Two are left at least, if there are more.
    lost = names[: min(dice.choice([0, 1, 1, 2, 2]), max(1, len(names) - 3))]
    asleep = [name for name in names[len(lost) :][:2] if dice.random() < 0.6]
    whispers = len(places.first) > 2 and len(names) > 4 and dice.random() < 0.6
    if whispers:
        speaker, listener, other = dice.sample(places.first, 3)
        lost, asleep = [speaker, other], [listener]
        faults = _draw_whisper(places, break_us, (speaker, listener, other))
    else:
        faults = _draw_storm(dice, places, at_us, break_us)
    for name in lost:
        faults.append(Fault(break_us, "crash", (name,)))
        faults.append(Fault(break_us + dice.randint(900_000, 1_500_000), "restart", (name,)))
    wait_us = break_us + 100_000
    for name in asleep:
        faults.append(Fault(break_us, "pause", (name,), dice.randint(350, 1_200)))
        faults.append(Fault(wait_us, "wake", (name,), 0, "adrift", 1))
    if not lost and not asleep:
        faults.append(Fault(break_us, "partition", draw_sides(dice, places.daemons)))
    struck = Fault(wait_us, "deaf", (), 0, "bound", 1)
    faults.append(struck if whispers else _draw_ambush(dice, places, wait_us))
    if whispers or dice.random() < 0.6:
        faults.append(Fault(wait_us, "tear", (), 0, "installed", 1))
    else:
        faults.append(Fault(wait_us, "partition", draw_sides(dice, places.daemons), 0, "installed", 1))
    faults.append(Fault(break_us + dice.randint(900_000, 1_500_000), "heal"))
    return faults


def _draw_whisper(places: FaultTargets, break_us: int, who: tuple[str, str, str]) -> list[Fault]:
    """Only the listener receives from the speaker, and not everything; the third daemon is heard by all."""
    speaker, listener, other = who
    rest = [name for name in places.daemons if name not in (speaker, listener)]
    at_us, calm_us = break_us - 12_000, break_us + 15_000
    return [
        Fault(at_us, "patchy", tuple(f"{speaker}>{name}" for name in rest)),
        Fault(at_us, "loss", (), 0.4),
        *[Fault(break_us - before_us, "speak", (speaker, "agreed")) for before_us in (9_000, 6_000, 3_000)],
        *[Fault(break_us - before_us, "speak", (other, "safe")) for before_us in (5_000, 2_000)],
        Fault(calm_us, "loss"),
        Fault(calm_us, "heal"),
    ]


def _draw_storm(dice: Random, places: FaultTargets, at_us: int, break_us: int) -> list[Fault]:
    """Some daemons receive messages that others do not: by random loss, or because some directions are cut."""
    calm_us = break_us + 15_000
    if dice.random() < 0.5:
        loss = Fault(at_us, "loss", (), dice.choice([0.3, 0.5, 0.7]))
        return [loss, Fault(calm_us, "loss", (), dice.choice([0.0, 0.0, 0.1]))]
    ways = [(one, other) for one in places.daemons for other in places.daemons if one != other]
    cut = [f"{one}>{other}" for one, other in ways if dice.random() < 0.4]
    return [Fault(at_us, "patchy", tuple(cut)), Fault(calm_us, "heal")]


def _draw_ambush(dice: Random, places: FaultTargets, at_us: int) -> Fault:
    """The fault that interrupts the first attempt."""
    moment, count = dice.choice(["evs", "bound"]), dice.randint(1, 3)
    match dice.choice(["struck", "struck", "struck", "deaf", "crash", "partition"]):
        case "struck":
            # Those that have reached the moment receive nothing from the others any more.
            return Fault(at_us, "deaf", (), 0, "bound", 1)
        case "deaf":
            deaf = [name for name in places.daemons if dice.random() < 0.4]
            return Fault(at_us, "deaf", tuple(deaf), 0, moment, count)
        case "crash":
            return Fault(at_us, "crash", (dice.choice(places.daemons),), 0, moment, count)
        case _:
            return Fault(at_us, "partition", draw_sides(dice, places.daemons), 0, moment, 1)


def draw_shuffle(dice: Random, places: FaultTargets) -> tuple[Fault, ...]:
    """Partitions in quick succession, often before the daemons of a view have exchanged their groups."""
    faults: list[Fault] = []
    at_us = dice.randint(500_000, 1_000_000)
    while at_us < CHAOS_US:
        sides = draw_sides(dice, places.daemons)
        waits = dice.random() < 0.6
        count = dice.randint(1, len(places.daemons)) if waits else 0
        faults.append(Fault(at_us, "partition", sides, 0, "installed" if waits else "", count))
        at_us += dice.randint(150_000, 500_000)
    return tuple(faults)


def draw_lasting(dice: Random, places: FaultTargets) -> tuple[Fault, ...]:
    """Cuts that remain after the heal; rarely any."""
    match dice.choice(["", "partition", "cut_sites", "sever"]) if dice.random() < 0.08 else "":
        case "":
            return ()
        case kind:
            return tuple(draw_fault(dice, places, kind, CHAOS_US))


DAEMONS_MIN: Final = 5
"""Two that are lost, one that is paused, and two that can disagree."""

RELAPSE_FIRST_US: Final = 450_000
APART_US: Final = 1_250_000
"""From one relapse to the next: both attempts, and all together again."""

LAST_WORDS_US: Final = 12_000
"""This long before the break the lost daemons begin to be heard unevenly, and send."""

CALM_US: Final = 15_000
"""This long after the break all paths are good again, before any daemon searches for others."""

AMBUSH_US: Final = 100_000
"""This long after the break, before silence can be noticed, the second fault begins to wait for its moment."""

FAINT: Final = 0.5


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of daemons in a relapse."""

    lost: tuple[str, ...]  # Crash as the view breaks.
    asleep: tuple[str, ...]  # Paused until a daemon is bound by an attempt that failed.
    awake: tuple[str, ...]


def draw_relapses(dice: Random, places: FaultTargets) -> tuple[Fault, ...]:
    """As many relapses as fit before the heal, and no other faults."""
    assert len(places.daemons) >= DAEMONS_MIN, "enough daemons for all roles"
    faults: list[Fault] = []
    for at_us in range(RELAPSE_FIRST_US, CHAOS_US - APART_US + 1, APART_US):
        faults.extend(_draw_relapse(dice, places, at_us + dice.randint(0, 100_000)))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _draw_relapse(dice: Random, places: FaultTargets, break_us: int) -> list[Fault]:
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


def _draw_roles(dice: Random, places: FaultTargets) -> Roles:
    """Mostly representatives are lost or paused: their site receives through them."""
    first = dice.sample(places.first, len(places.first))
    others = [name for name in places.daemons if name not in first]
    names = first + dice.sample(others, len(others))
    if dice.random() < 0.25:
        dice.shuffle(names)
    lost_count = dice.choice([1, 2, 2, 2])
    lost, rest = names[:lost_count], names[lost_count:]
    asleep_count = min(dice.choice([1, 1, 2]), len(rest) - 2)
    return Roles(tuple(lost), tuple(rest[:asleep_count]), tuple(rest[asleep_count:]))


def _draw_last_words(dice: Random, places: FaultTargets, roles: Roles, name: str, break_us: int) -> list[Fault]:
    """The last messages of a daemon that is about to be lost, and the losses on their paths."""
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
    """Who receives the last messages: all daemons, those that will be paused in part, or at random."""
    match dice.choice(["well", "whisper", "whisper", "unevenly"]):
        case "well":
            return {}
        case "whisper":
            return {other: "faint" if other in asleep else "cut" for other in others}
        case _:
            return {other: dice.choice(["well", "faint", "cut"]) for other in others}


def _draw_second_fault(dice: Random, places: FaultTargets, roles: Roles, at_us: int) -> list[Fault]:
    """The fault that interrupts the attempt, and the partition after some have completed it."""
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
