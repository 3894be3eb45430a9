"""Claims of the papers about Hop, measured in virtual time; the bounds are ours."""

from collections.abc import Callable
from statistics import fmean

import pytest
from tests.paper.paper_networks import (
    CHAIN_DELAYS_US,
    CHAIN_LINKS,
    TREE_LINKS,
    Edges,
    config_of,
    goodput,
    mean_latency_us,
    numbered,
    overlay_of,
)

from hopring.config.model import LinkProtocol, LinkTuning
from hopring.testing.network_check import check_network
from hopring.testing.overlay import Overlay

ONE_LINK = (("a", "b", 50_000),)
MBIT_BYTES = 125_000
FIXED = LinkTuning(rate_bytes_per_second=MBIT_BYTES, burst_bytes=6_000)
SPAN_US = (3_000_000, 11_000_000)


def saturated(edges: Edges, sender: str, loss: float, seed: int = 1) -> Overlay:
    """Ten seconds in which the sender always has something to send."""
    overlay = overlay_of(config_of(edges, tuning=FIXED), edges, seed, loss=loss)
    for number in range(1_300):
        overlay.multicast(sender, numbered(number))
    overlay.run(SPAN_US[1])
    return overlay


@pytest.fixture(scope="module")
def loss_free_goodput() -> float:
    return goodput(saturated(ONE_LINK, "a1", loss=0.0), "b1", *SPAN_US)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.01, 0.02, 0.05, 0.10, 0.20])
def test_throughput_on_a_link_decreases_little_more_than_the_loss_rate(
    loss: float, loss_free_goodput: float
) -> None:
    """DSN 2000, loss experiment on one link: throughput falls with about the rate of the loss."""
    lossy = goodput(saturated(ONE_LINK, "a1", loss), "b1", *SPAN_US)

    assert lossy >= (1 - 1.3 * loss) * loss_free_goodput


@pytest.mark.slow
def test_ten_percent_loss_on_every_link_of_the_tree_leaves_three_quarters() -> None:
    """DSN 2000, loss experiment on the tree of six sites."""
    clean = saturated(TREE_LINKS, "mae-east1", loss=0.0)
    lossy = saturated(TREE_LINKS, "mae-east1", loss=0.10)
    receivers = ["ucsb1", "osu1", "cnds1", "hopkins1", "rutgers1"]

    slowest = min(goodput(lossy, name, *SPAN_US) / goodput(clean, name, *SPAN_US) for name in receivers)
    assert slowest >= 0.75


def pings(protocol: LinkProtocol, loss: float, seed: int) -> Overlay:
    """Sends messages of 1 KB, 100 per second, along the chain for ten seconds."""
    overlay = overlay_of(config_of(CHAIN_LINKS, protocol), CHAIN_LINKS, seed, loss=loss)
    for number in range(1_000):
        overlay.multicast("mae-east1", numbered(number))
        overlay.run(overlay.engine.now_us + 10_000)
    overlay.run(overlay.engine.now_us + 5_000_000)
    assert all(check_network(overlay.trace))
    return overlay


@pytest.mark.slow
def test_hop_latency_along_the_chain_stays_close_to_the_wire() -> None:
    """DSN 2000, chain latency: Hop's latency stays close to the ping times added up."""
    latency_us = mean_latency_us(pings(LinkProtocol.HOP, 0.0, seed=1), "hopkins1")

    assert latency_us <= 1.03 * sum(CHAIN_DELAYS_US)


@pytest.mark.slow
def test_loss_delays_hop_much_less_than_a_link_in_order() -> None:
    """Thesis 4.2: in-order links block what follows a lost packet, on every link of the chain again."""

    def excess_us(protocol: LinkProtocol) -> float:
        means = [mean_latency_us(pings(protocol, 0.01, seed), "hopkins1") for seed in (1, 2, 3, 4)]
        return fmean(means) - sum(CHAIN_DELAYS_US)

    hop_us, tcp_us = excess_us(LinkProtocol.HOP), excess_us(LinkProtocol.TCP)
    print(f"\nabove the wire: hop {hop_us / 1000:.1f} ms, tcp {tcp_us / 1000:.1f} ms")

    assert hop_us <= 0.3 * tcp_us


T1_BYTES_PER_SECOND = 187_500
LOADS = (0.0, 0.2, 0.4, 0.6, 0.8)


def latency_under_load_us(protocol: LinkProtocol, load: float) -> float:
    """Mean latency of one ping every 100 ms while the sender also floods at this share of the bottleneck."""
    tuning = LinkTuning(rate_bytes_per_second=T1_BYTES_PER_SECOND, burst_bytes=6_000)
    config = config_of(CHAIN_LINKS, protocol, tuning)
    line = {"loss": 0.005, "rate_bytes_per_second": T1_BYTES_PER_SECOND, "queue_bytes": 64_000}
    overlay = overlay_of(config, CHAIN_LINKS, seed=7, **line)
    wire_bytes = 1024 + 33 + 44 + 28  # Headers of object, frame, datagram, UDP and IP.
    flood_per_ping = load * T1_BYTES_PER_SECOND / 10 / wire_bytes
    pinged: set[bytes] = set()
    flooded = 0
    for number in range(200):
        ping = numbered(number)
        pinged.add(ping)
        overlay.multicast("mae-east1", ping)
        start_us = overlay.engine.now_us
        due = round(flood_per_ping * (number + 1)) - flooded
        for step in range(due):
            overlay.run(start_us + (step + 1) * 100_000 // (due + 1))
            overlay.multicast("mae-east1", numbered(1_000_000 + flooded))
            flooded += 1
        overlay.run(start_us + 100_000)
    overlay.run(overlay.engine.now_us + 10_000_000)
    assert all(check_network(overlay.trace))
    return mean_latency_us(overlay, "hopkins1", pinged)


@pytest.mark.slow
def test_hop_latency_is_almost_constant_under_load(record_property: Callable[[str, object], None]) -> None:
    """Thesis figure 4.5: Hop's latency hardly moves as the load grows; TCP's rises."""
    hop_us = [latency_under_load_us(LinkProtocol.HOP, load) for load in LOADS]
    tcp_us = [latency_under_load_us(LinkProtocol.TCP, load) for load in LOADS]
    print("\nload   hop ms   tcp ms")
    for load, hop, tcp in zip(LOADS, hop_us, tcp_us, strict=True):
        print(f"{load:4.0%} {hop / 1000:8.1f} {tcp / 1000:8.1f}")
        record_property(f"load {load:.0%}", f"hop {hop / 1000:.1f} ms, tcp {tcp / 1000:.1f} ms")

    assert max(hop_us) <= 1.15 * min(hop_us)
    assert max(tcp_us) > max(hop_us)
