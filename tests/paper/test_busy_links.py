"""Table 4.1 of *A Low Latency, Loss Tolerant Architecture*: six sites, some with a slow access line.

Under the load of a source that sends as fast as it can, queues are seconds long. A busy link must not be taken
for dead, and a dead one must be noticed.
"""

from itertools import combinations

import pytest
from tests.paper.paper_networks import CHAIN, TREE_LINKS, Edges, config_of, numbered

from hopring.config.model import LinkProtocol
from hopring.sim.path import Quality
from hopring.testing.network_check import Nlinkfailed, check_network
from hopring.testing.overlay import Overlay

# Of each host, fitted to the table's column for direct links; the paper does not name them.
ACCESS_KBIT = {
    "rutgers": 950,
    "ucsb": 1_700,
    "mae-east": 2_500,
    "cnds": 10_000,
    "osu": 10_000,
    "hopkins": 10_000,
}
PATH_KBIT = 720
SOURCES = ("mae-east", "cnds", "rutgers", "ucsb")
MESSAGES = 400
SEEDS = (1, 2)
SILENCE_US = 1_200_000  # The default.

FAN_OUT: Edges = tuple(
    (one, other, 52_000 if "ucsb" in (one, other) else 12_000) for one, other in combinations(sorted(CHAIN), 2)
)


def loaded(
    edges: Edges, protocol: LinkProtocol, source: str, seed: int, queue_bytes: int, loss: float = 0.0
) -> Overlay:
    """Six sites behind slow lines; the source has just multicast everything at once."""
    overlay = Overlay(config_of(edges, protocol), seed, Quality(delay_us=100))
    for one, other, delay_us in edges:
        overlay.shape_sites(
            one,
            other,
            delay_us=delay_us,
            loss=loss,
            rate_bytes_per_second=PATH_KBIT * 125,
            queue_bytes=queue_bytes,
        )
    for site, kbit in ACCESS_KBIT.items():
        overlay.network.access_line(f"{site}1", kbit * 125, queue_bytes)
    overlay.start()
    overlay.run(1_000_000)
    for number in range(MESSAGES):
        overlay.multicast(f"{source}1", numbered(number))
    return overlay


def run_until_delivered(overlay: Overlay) -> None:
    """Runs until everything is delivered or a link has failed, for at most 60 seconds."""
    end_us = overlay.engine.now_us + 60_000_000
    while overlay.engine.now_us < end_us and len(overlay.deliveries) < MESSAGES * len(CHAIN):
        overlay.run(overlay.engine.now_us + 500_000)
        if failures(overlay):
            return


def failures(overlay: Overlay) -> list[tuple[str, str]]:
    return [(event.daemon, event.reason) for event in overlay.trace if isinstance(event, Nlinkfailed)]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [LinkProtocol.TCP, LinkProtocol.HOP])
@pytest.mark.parametrize(
    ("queue_bytes", "loss"),
    [(256 * 1024, 0.0), (32 * 1024, 0.01)],
    ids=["256K", "32K 1%"],
)
@pytest.mark.parametrize("edges", [FAN_OUT, TREE_LINKS], ids=["fan-out", "tree"])
def test_a_link_behind_a_slow_access_line_does_not_fail(
    edges: Edges, protocol: LinkProtocol, queue_bytes: int, loss: float
) -> None:
    for source in SOURCES:
        for seed in SEEDS:
            overlay = loaded(edges, protocol, source, seed, queue_bytes, loss)
            run_until_delivered(overlay)

            assert (source, seed, failures(overlay)) == (source, seed, [])
            assert len(overlay.deliveries) == MESSAGES * len(CHAIN)
            assert all(check_network(overlay.trace))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [LinkProtocol.TCP, LinkProtocol.HOP])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_dead_neighbour_behind_a_slow_access_line_is_noticed(protocol: LinkProtocol, seed: int) -> None:
    overlay = loaded(TREE_LINKS, protocol, "mae-east", seed, 256 * 1024)
    overlay.run(overlay.engine.now_us + 2_000_000)
    overlay.network.crash("mae-east1")
    # Packets in the queues of 256 KB still arrive; the silence begins after them.
    queued_us = 256 * 1024 * 1_000_000 // (PATH_KBIT * 125)
    overlay.run(overlay.engine.now_us + queued_us + 4 * SILENCE_US + 100_000)

    assert {daemon for daemon, _ in failures(overlay)} >= {"ucsb1", "osu1", "cnds1"}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [LinkProtocol.TCP, LinkProtocol.HOP])
def test_a_dead_neighbour_on_an_idle_link_is_noticed_after_the_silence(protocol: LinkProtocol) -> None:
    overlay = Overlay(config_of(TREE_LINKS, protocol), 1, Quality(delay_us=100))
    for one, other, delay_us in TREE_LINKS:
        overlay.shape_sites(one, other, delay_us=delay_us)
    overlay.start()
    overlay.run(3_000_000)
    overlay.network.crash("mae-east1")
    overlay.run(overlay.engine.now_us + SILENCE_US + 60_000)

    assert {daemon for daemon, _ in failures(overlay)} == {"ucsb1", "osu1", "cnds1"}
