"""The world of the demonstration: sites, delays, and a configuration on free ports of this machine."""

import random
import socket
from dataclasses import replace
from typing import Final

from hopring.config import Config, LinkTuning, RingTuning, local_config

SITES: Final = ("eu", "us", "ap")
DAEMONS_PER_SITE: Final = 2
DELAYS_MS: Final = {("eu", "us"): 40, ("us", "ap"): 60, ("eu", "ap"): 80}
CUT: Final = ("eu", "ap")
DETOUR: Final = "us"
RATE_MBIT: Final = 20

# On a busy machine a process may not run for a while; that should not look like a lost token.
_RING: Final = RingTuning(token_loss_us=3_000_000)
# Loss here is not congestion, so the links run at a given rate; congestion control would slow down as TCP does.
_LINK: Final = LinkTuning(rate_bytes_per_second=RATE_MBIT * 125_000)
_PORTS: Final = range(20_000, 32_000)  # Below those that the kernel gives to others.
_PORTS_PER_DAEMON: Final = 2


def make_config() -> Config:
    """The cluster, on ports that are free right now."""
    sites = dict.fromkeys(SITES, DAEMONS_PER_SITE)
    links: dict[tuple[str, str], int | str] = {ends: f"{ms}ms" for ends, ms in DELAYS_MS.items()}
    count = len(SITES) * DAEMONS_PER_SITE * _PORTS_PER_DAEMON
    config = local_config(sites, links, free_base_port(count), cluster="demo")
    return replace(
        config,
        sites=tuple([replace(site, ring=_RING) for site in config.sites]),
        links=tuple([replace(link, tuning=_LINK) for link in config.links]),
    )


def delay_ms(one: str, other: str) -> int:
    """One way between two sites; within a site there is none to speak of."""
    return DELAYS_MS.get((one, other), DELAYS_MS.get((other, one), 0))


def free_base_port(count: int) -> int:
    """The first of so many consecutive ports that are free. Somebody may still be faster: be ready to retry."""
    dice = random.Random()
    for _ in range(200):
        base = dice.randrange(_PORTS.start, _PORTS.stop - count)
        if all(_is_free(port) for port in range(base, base + count)):
            return base
    raise OSError("no free ports on 127.0.0.1")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
