"""The scenario of the demonstration: sites, delays, groups and phases."""

from typing import Final

SITES: Final = {"eu": 2, "us": 2, "ap": 2}
DELAYS: Final = {("eu", "us"): "40ms", ("us", "ap"): "60ms", ("eu", "ap"): "80ms"}
SIDES: Final = (("eu",), ("us", "ap"))
"""The sides of the partition."""

PATIENCE: Final = "2s"

TRADES: Final = "trades"
ORDERS: Final = "orders"
GROUPS: Final = (TRADES, ORDERS)
"""Every client is in both, so every site wants every message and no bundle is pruned: see `summary`."""

BODY_BYTES: Final = 200
PERIOD_SECONDS: Final = 0.06
"""Each client sends one message in this time; every third is Safe."""

TOGETHER: Final = "together"
SPLITTING: Final = "splitting"
APART: Final = "apart"
MERGING: Final = "merging"
AGAIN: Final = "together again"
QUIET: Final = "quiet"
PHASES: Final = (TOGETHER, SPLITTING, APART, MERGING, AGAIN)
CALM: Final = (TOGETHER, APART, AGAIN)


def site_of(daemon: str) -> str:
    """The site of a daemon, by its name in a local cluster."""
    return daemon.rstrip("0123456789")


def side_of(daemon: str) -> tuple[str, ...]:
    """The side of the partition that a daemon is on."""
    return next(side for side in SIDES if site_of(daemon) in side)


def sides_in(phase: str) -> tuple[tuple[str, ...], ...]:
    """The sets of sites that reach each other in a phase."""
    return (tuple(SITES),) if phase in (TOGETHER, AGAIN) else SIDES
