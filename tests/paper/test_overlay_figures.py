"""Claims of the papers about the overlay, and the network properties on every kind of link."""

import random

import pytest
from tests.paper.paper_networks import config_of, numbered, overlay_of

from hopring.config.model import Config, Daemon, LinkConfig, LinkProtocol, Site
from hopring.sim.path import Quality
from hopring.testing.network_check import check_network
from hopring.testing.overlay import Overlay

FORK = (("a", "b", 10_000), ("a", "c", 10_000))


def bytes_sent(overlay: Overlay, source: str, target: str) -> int:
    tally = overlay.network.path(source, target).counters
    return tally.sent_bytes + 28 * tally.sent


@pytest.mark.slow
def test_a_pruned_branch_carries_at_most_a_twentieth_of_the_bytes() -> None:
    """Report 3.2 and thesis 3.4.2: down a branch where no site wants a message only its meta-data is sent."""
    overlay = overlay_of(config_of(FORK), FORK)
    before = {name: bytes_sent(overlay, "a1", name) for name in ("b1", "c1")}
    for number in range(4_000):
        overlay.multicast("a1", numbered(number), overlay.mask("b"))
        overlay.run(overlay.engine.now_us + 1_000)
    overlay.run(overlay.engine.now_us + 1_000_000)

    wanted, pruned = (bytes_sent(overlay, "a1", name) - before[name] for name in ("b1", "c1"))
    print(f"\npruned branch: {pruned / wanted:.1%} of {wanted} bytes")
    assert pruned <= 0.05 * wanted
    assert sum(count for (name, _, _), count in overlay.metas.items() if name == "c1") == 4_000
    assert all(check_network(overlay.trace))


def random_config(dice: random.Random) -> Config:
    """2 to 5 sites of 1 to 3 daemons, a connected overlay with some loops, links of both protocols."""
    names = [f"s{number}" for number in range(dice.randint(2, 5))]
    sites = [
        Site(one, tuple(Daemon(f"{one}d{at}", "127.0.0.1") for at in range(dice.randint(1, 3))))
        for one in names
    ]
    pairs = {(names[dice.randrange(at)], names[at]) for at in range(1, len(names))}
    pairs |= {(one, other) for one in names for other in names if one < other and dice.random() < 0.3}
    links = [
        LinkConfig(ends, dice.randint(1, 50) * 1_000, dice.choice([LinkProtocol.HOP, LinkProtocol.TCP]))
        for ends in sorted(pairs)
    ]
    return Config("random", tuple(sites), tuple(links), mesh=False)


def random_masks(overlay: Overlay, dice: random.Random) -> list[str]:
    return [site.name for site in overlay.config.sites if dice.random() < 0.6] or [overlay.config.sites[0].name]


def run_random(seed: int, with_a_cut: bool) -> Overlay:
    """Some seconds of traffic on a bad network; optionally a link fails."""
    dice = random.Random(seed)
    config = random_config(dice)
    quality = Quality(
        delay_us=200, jitter_us=100, loss=dice.choice([0, 0.01, 0.05]), duplicate=0.02, reorder=0.02
    )
    overlay = Overlay(config, seed, quality)
    for link in config.links:
        overlay.shape_sites(*link.sites, delay_us=link.weight)
    overlay.start()
    overlay.run(500_000)
    victim = dice.choice(config.links).sites if with_a_cut else None
    for number in range(120):
        if victim is not None and number == 60:
            cut_sites(overlay, *victim)
        sender = dice.choice(sorted(overlay.daemons))
        if not overlay.daemons[sender].stack.failed:
            size = dice.choice([10, 10, 100, 100, 5_000, 100_000])
            overlay.multicast(sender, numbered(number, size), overlay.mask(*random_masks(overlay, dice)))
        overlay.run(overlay.engine.now_us + dice.randrange(20_000))
    run_until_quiet(overlay)
    return overlay


def run_until_quiet(overlay: Overlay) -> None:
    """Runs until no bundle has arrived anywhere for a while."""
    seen = -1
    while seen < len(overlay.deliveries):
        seen = len(overlay.deliveries)
        overlay.run(overlay.engine.now_us + 10_000_000)


def cut_sites(overlay: Overlay, one: str, other: str) -> None:
    sites = {site.name: site for site in overlay.config.sites}
    for near in sites[one].daemons:
        for far in sites[other].daemons:
            overlay.network.cut_both(near.name, far.name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_properties_2_21_to_2_23_hold_on_every_mixture_of_links(seed: int) -> None:
    overlay = run_random(seed, with_a_cut=False)

    assert [verdict for verdict in check_network(overlay.trace) if not verdict] == []
    assert not any(daemon.stack.failed for daemon in overlay.daemons.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 115))
def test_properties_2_21_to_2_23_hold_when_a_link_dies(seed: int) -> None:
    overlay = run_random(seed, with_a_cut=True)

    assert [verdict for verdict in check_network(overlay.trace) if not verdict] == []


@pytest.mark.slow
def test_a_cut_link_is_routed_around_when_all_agree_that_it_is_cut() -> None:
    """FAULTS: a route change with a cut link causes no loop, no loss and no duplicate."""
    triangle = (("a", "b", 10_000), ("a", "c", 10_000), ("b", "c", 15_000))
    overlay = overlay_of(config_of(triangle, daemons=2), triangle)
    cut_sites(overlay, "a", "b")
    overlay.run(overlay.engine.now_us + 3_000_000)
    ended = {name for name, daemon in overlay.daemons.items() if daemon.stack.failed}
    assert ended >= {"a1", "b1"}

    overlay.start(cut=[("a", "b")])
    sent_at_us = overlay.engine.now_us
    overlay.multicast("a2", b"around")
    overlay.run(sent_at_us + 2_000_000)

    latencies = {
        one.daemon: one.at_us - one.sent_at_us for one in overlay.deliveries if one.bundle == b"around"
    }
    assert set(latencies) == {"a1", "a2", "b1", "b2", "c1", "c2"}
    assert 25_000 <= latencies["b1"] <= 27_000
    assert all(check_network(overlay.trace))


@pytest.mark.slow
def test_a_seed_gives_the_same_history_twice() -> None:
    assert run_random(5, with_a_cut=True).trace == run_random(5, with_a_cut=True).trace
