"""The networks of the papers' experiments, in virtual time."""

from collections.abc import Iterable
from statistics import fmean

from hopring.config.model import UNTUNED, Config, Daemon, LinkConfig, LinkProtocol, LinkTuning, Site
from hopring.sim.path import Quality
from hopring.testing.overlay import Overlay

CHAIN = ("mae-east", "ucsb", "osu", "rutgers", "cnds", "hopkins")
CHAIN_DELAYS_US = (52_000, 35_000, 12_000, 5_000, 1_000)
CHAIN_LINKS = tuple(zip(CHAIN, CHAIN[1:], CHAIN_DELAYS_US, strict=False))

# The six sites as a shared tree around the best connected one. The available copies of the papers lack the
# drawing of theirs (thesis figure 4.3); delays are those of the chain, coast to coast and nearer.
TREE_LINKS = (
    ("mae-east", "ucsb", 52_000),
    ("mae-east", "osu", 12_000),
    ("mae-east", "cnds", 5_000),
    ("cnds", "hopkins", 1_000),
    ("cnds", "rutgers", 5_000),
)

Edges = Iterable[tuple[str, str, int]]


def config_of(
    edges: Edges, protocol: LinkProtocol = LinkProtocol.HOP, tuning: LinkTuning = UNTUNED, daemons: int = 1
) -> Config:
    """Sites with this number of daemons each, and exactly these links, weighted by their delay."""
    edges = tuple(edges)
    names = sorted({name for one, other, _ in edges for name in (one, other)})
    sites = [
        Site(name, tuple(Daemon(f"{name}{number}", "127.0.0.1") for number in range(1, daemons + 1)))
        for name in names
    ]
    links = sorted(
        [
            LinkConfig((min(one, other), max(one, other)), delay_us, protocol, tuning)
            for one, other, delay_us in edges
        ],
        key=lambda link: link.sites,
    )
    return Config("paper", tuple(sites), tuple(links), mesh=False)


def overlay_of(config: Config, edges: Edges, seed: int = 1, **quality: float) -> Overlay:
    """The overlay on paths with these delays and qualities, running and settled."""
    overlay = Overlay(config, seed, Quality(delay_us=100))
    for one, other, delay_us in edges:
        overlay.shape_sites(one, other, delay_us=delay_us, **quality)
    overlay.start()
    overlay.run(1_000_000)
    return overlay


def numbered(number: int, size: int = 1024) -> bytes:
    """A bundle that differs from all others."""
    return b"%010d" % number + bytes(size - 10)


def goodput(overlay: Overlay, receiver: str, from_us: int, until_us: int) -> float:
    """Bytes of bundles per second that a daemon received in a span of time."""
    size = sum(
        len(one.bundle)
        for one in overlay.deliveries
        if one.daemon == receiver and from_us <= one.at_us < until_us
    )
    return size * 1_000_000 / (until_us - from_us)


def mean_latency_us(overlay: Overlay, receiver: str, bundles: set[bytes] | None = None) -> float:
    """The mean time from multicast to receipt."""
    return fmean(
        one.at_us - one.sent_at_us
        for one in overlay.deliveries
        if one.daemon == receiver and (bundles is None or one.bundle in bundles)
    )
