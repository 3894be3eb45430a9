"""The sites of a world, their daemons, and the links between them."""

from random import Random
from typing import Final

from hopring.config.local import local_config
from hopring.config.model import Config, Link, LinkProtocol, LinkTuning
from hopring.sim.campaign.relapse import DAEMONS_MIN
from hopring.sim.campaign.schedule import Places

SITES: Final = ("ams", "ber", "cai", "del", "edi")
HOP, TCP = LinkProtocol.HOP, LinkProtocol.TCP

# Timers scaled to a world of five seconds.
LINK: Final = LinkTuning(
    silence_us=250_000, heartbeat_us=60_000, initial_round_trip_us=20_000, lazy_us=4_000, nacks_max=12
)


def places_of(config: Config) -> Places:
    """Where faults can strike."""
    return Places(
        daemons=tuple(daemon.name for daemon in config.daemons),
        sites=tuple(site.name for site in config.sites),
        first=tuple(site.daemons[0].name for site in config.sites),
    )


def draw_sites(dice: Random, protocols: Random) -> Config:
    """One to four sites, two to nine daemons, and weights by chance: a way may lead through another site."""
    site_count = dice.randint(1, 4)
    counts = dict.fromkeys(SITES[:site_count], 1)
    for _ in range(dice.randint(max(0, 2 - site_count), 9 - site_count)):
        counts[dice.choice(sorted(counts))] += 1
    return _draw_links(dice, protocols, counts, (1, 9))


def draw_small_sites(dice: Random, protocols: Random) -> Config:
    """For relapses: what one site hears, no other need know, so the link to each is the shortest way there."""
    counts = dict.fromkeys(SITES[: dice.choice([3, 4, 5, 5])], 1)
    for _ in range(dice.randint(max(0, DAEMONS_MIN - len(counts)), 2)):
        counts[dice.choice(sorted(counts))] += 1
    return _draw_links(dice, protocols, counts, (4, 7))


def _draw_links(dice: Random, protocols: Random, counts: dict[str, int], weights: tuple[int, int]) -> Config:
    names = sorted(counts)
    config = local_config(counts)
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    share = 0.5 if protocols.random() < 0.15 else 0.0
    links: list[Link] = []
    for ends in pairs:
        protocol = TCP if protocols.random() < share else HOP
        links.append(Link(ends, dice.randint(*weights) * 1_000, protocol, tuning=LINK))
    return Config(config.cluster, config.sites, tuple(links))
