"""What a seed draws: the daemons, the network, the load, and the schedule of faults, all before the run.

The schedule is a plain list, so that it can be replayed, printed and made smaller.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from hopring.config.local import local_config
from hopring.config.model import Config, Link, LinkTuning
from hopring.links.ring_options import RingOptions
from hopring.membership.options import MembershipOptions
from hopring.sim.chance import generator
from hopring.sim.path import Quality
from hopring.stack_events import StackOptions

CHAOS_US: Final = 3_000_000
HEALED_US: Final = 2_000_000
SITES: Final = ("ams", "ber", "cai", "del")

# Timers scaled to a world of five seconds.
LINK: Final = LinkTuning(
    silence_us=350_000, heartbeat_us=60_000, initial_round_trip_us=20_000, lazy_us=1_000, nacks_max=12
)
RING: Final = RingOptions(
    token_loss_us=150_000,
    token_resend_us=8_000,
    hold_us=30_000,
    hurry_resend_us=4_000,
    asked_visits_max=400,
    free_rotation_us=0,
)
MEMBERSHIP: Final = MembershipOptions(
    alive_us=10_000,
    seg_us=35_000,
    join_us=15_000,
    gather_us=50_000,
    represented_us=150_000,
    statetrans_us=200_000,
    newmemb_us=20_000,
    probe_us=300_000,
    update_delta_us=5_000,
    update_floor_us=250_000,
    round_trip_us=20_000,
    flap_us=200_000,
    back_off_us=200_000,
    back_off_us_max=800_000,
)


STACK: Final = StackOptions(ring=RING)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, or right again, at one moment."""

    at_us: int
    kind: str
    what: tuple[str, ...] = ()
    number: float = 0.0

    def __str__(self) -> str:
        words = [self.kind, *self.what] + ([f"{self.number:g}"] if self.number else [])
        return f"{self.at_us / 1000:8.1f}ms  {' '.join(words)}"


@dataclass(frozen=True, slots=True)
class World:
    """All that a seed decides."""

    seed: int
    config: Config
    quality: Quality
    wide_delay_us: int
    load_per_second: int
    burst: int  # So many messages are sent just before each break, on top of the load.
    schedule: tuple[Fault, ...]
    membership: MembershipOptions = MEMBERSHIP
    stack: StackOptions = STACK


def draw_world(seed: int) -> World:
    """The world of a seed."""
    dice = generator(seed, "world")
    config = _draw_config(dice)
    quality = Quality(
        delay_us=dice.choice([500, 1_500, 4_000]),
        jitter_us=dice.choice([0, 300, 3_000]),
        loss=dice.choice([0, 0, 0.005, 0.02, 0.08]),
        duplicate=dice.choice([0, 0, 0.02]),
        reorder=dice.choice([0, 0, 0.02]),
        reorder_delay_us=8_000,
    )
    names = [daemon.name for daemon in config.daemons]
    return World(
        seed=seed,
        config=config,
        quality=quality,
        wide_delay_us=dice.choice([2_000, 5_000, 15_000]),
        load_per_second=dice.choice([20, 60, 150]),
        burst=dice.choice([0, 4, 8]),
        schedule=_draw_schedule(generator(seed, "faults"), names),
    )


def _draw_config(dice: Random) -> Config:
    site_count = dice.randint(1, 4)
    counts = dict.fromkeys(SITES[:site_count], 1)
    for _ in range(dice.randint(max(0, 2 - site_count), 9 - site_count)):
        counts[dice.choice(sorted(counts))] += 1
    names = sorted(counts)
    config = local_config(counts)
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    links = tuple(Link(ends, dice.randint(1, 9) * 1_000, tuning=LINK) for ends in pairs)
    return Config(config.cluster, config.sites, links)


def _draw_schedule(dice: Random, names: list[str]) -> tuple[Fault, ...]:
    kinds = [kind for kind in KINDS if dice.random() < 0.6] or [dice.choice(KINDS)]
    faults: list[Fault] = []
    at_us = 400_000
    while at_us < CHAOS_US:
        faults.extend(_draw_fault(dice, names, dice.choice(kinds), at_us))
        at_us += int(dice.expovariate(4) * 1_000_000)
    # What would come after the heal is left out: nothing would ever mend it.
    in_time = [fault for fault in faults if fault.at_us < CHAOS_US]
    return tuple(sorted(in_time, key=lambda fault: fault.at_us))


KINDS: Final = ("crash", "partition", "sever", "one_way", "heal", "pause", "loss", "storm")
BREAKS: Final = ("crash", "partition", "sever", "one_way")


def _draw_fault(dice: Random, names: list[str], kind: str, at_us: int) -> list[Fault]:
    one, other = dice.choice(names), dice.choice(names)
    match kind:
        case "crash":
            back_us = at_us + dice.randint(5_000, 600_000)
            return [Fault(at_us, "crash", (one,)), Fault(back_us, "restart", (one,))]
        case "partition":
            ways = dice.choice([2, 2, 3])
            return [Fault(at_us, "partition", tuple(f"{name}={dice.randrange(ways)}" for name in names))]
        case "sever" | "one_way":
            return [Fault(at_us, kind, (one, other))] if one != other else []
        case "pause":
            return [Fault(at_us, "pause", (one,), dice.randint(20, 500))]
        case "loss":
            return [Fault(at_us, "loss", (), dice.choice([0.0, 0.01, 0.1, 0.3]))]
        case "storm":
            # Much is lost just before something breaks: some have what others lack, and nobody can ask.
            worse = _draw_fault(dice, names, dice.choice(BREAKS), at_us + dice.randint(10_000, 40_000))
            calm_us = at_us + dice.randint(50_000, 300_000)
            return [Fault(at_us, "loss", (), 0.4), *worse, Fault(calm_us, "loss", (), dice.choice([0.0, 0.05]))]
        case _:
            return [Fault(at_us, "heal")]
