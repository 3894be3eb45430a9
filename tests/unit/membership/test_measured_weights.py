"""Measured weights in whole clusters, in virtual time: slow links are avoided, jittery ones are not."""

from dataclasses import replace
from itertools import pairwise

import pytest

from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkProtocol, Weights
from hopring.ids import SiteId
from hopring.routing.trees import Pair
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

SECOND_US = 1_000_000
HOP, TCP = LinkProtocol.HOP, LinkProtocol.TCP
Parents = dict[SiteId, dict[SiteId, SiteId]]

# By their number, sites are asia, eu and us.
ASIA, EU, US = SiteId(0), SiteId(1), SiteId(2)
ASIA_EU: Pair = (ASIA, EU)
DIRECT: Parents = {ASIA: {EU: ASIA, US: ASIA}, EU: {ASIA: EU, US: EU}, US: {ASIA: US, EU: US}}
VIA_US: Parents = {ASIA: {EU: US, US: ASIA}, EU: {ASIA: US, US: EU}, US: {ASIA: US, EU: US}}


def config_of(protocol: LinkProtocol = HOP, weights: Weights = Weights.MEASURED) -> Config:
    local = local_config({"eu": 2, "us": 2, "asia": 1})
    pairs = [("asia", "eu"), ("asia", "us"), ("eu", "us")]
    links = tuple(LinkConfig(ends, 70_000, protocol) for ends in pairs)
    return replace(local, links=links, weights=weights)


class Sites:
    """Three sites whose paths have different delays."""

    def __init__(self, config: Config, **quality: float) -> None:
        self.cluster = SimCluster(config, seed=1, quality=Quality(delay_us=100))
        self._sites = {site.name: [daemon.name for daemon in site.daemons] for site in config.sites}
        for one, other, delay_us in (("asia", "eu", 25_000), ("asia", "us", 15_000), ("eu", "us", 15_000)):
            self.shape(one, other, delay_us=delay_us, **quality)
        self.cluster.start()

    def shape(self, one: str, other: str, **quality: float) -> None:
        for near in self._sites[one]:
            for far in self._sites[other]:
                self.cluster.network.shape_both(near, far, **quality)

    def run(self, seconds: int) -> None:
        self.cluster.run_for(seconds * SECOND_US)

    def another_view(self, name: str = "us2") -> None:
        """Causes another view: a daemon crashes and restarts."""
        self.cluster.stop(name)
        self.run(3)
        self.cluster.restart(name)
        self.run(5)
        assert self.cluster.settled()

    @property
    def views(self) -> int:
        return self.cluster.hosts["eu1"].membership.view.id.counter

    @property
    def trees(self) -> Parents:
        """The trees of all daemons, which must be the same."""
        stacks = [host.membership.stack for host in self.cluster.hosts.values()]
        first, *others = [
            {source: tree.parent for source, tree in stack.network.trees.items()}
            for stack in stacks
            if stack is not None
        ]
        assert len(others) == len(stacks) - 1
        assert all(one == first for one in others)
        return first

    def agreed(self, ends: Pair) -> int:
        weights = {
            host.membership.network.measuring.agreed.get(ends, 0) for host in self.cluster.hosts.values()
        }
        (weight,) = weights
        return weight


def test_an_unmeasured_link_keeps_the_configured_weight() -> None:
    sites = Sites(config_of())
    sites.run(1)

    assert sites.cluster.settled()
    assert sites.agreed(ASIA_EU) == 0  # None was agreed on,
    for host in sites.cluster.hosts.values():
        assert host.membership.stack is not None
        # so the configured ones apply.
        assert set(host.membership.stack.network.topology.weights.values()) == {70_000}


def test_with_fixed_weights_a_slow_link_is_kept_and_carries_no_pings() -> None:
    sites = Sites(config_of(weights=Weights.FIXED))
    sites.shape("asia", "eu", delay_us=90_000)
    sites.run(20)
    sites.another_view()

    assert sites.trees == DIRECT
    stack = sites.cluster.hosts["eu1"].membership.stack
    assert stack is not None
    assert (stack.samples(), stack.spares) == ({}, {})


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [HOP, TCP])
def test_a_link_that_becomes_slow_is_avoided_from_the_next_view_on_until_it_is_fast_again(
    protocol: LinkProtocol,
) -> None:
    sites = Sites(config_of(protocol))
    sites.run(60)
    sites.another_view()
    assert sites.trees == DIRECT

    sites.shape("asia", "eu", delay_us=90_000)
    views = sites.views
    sites.run(60)
    assert (sites.views, sites.trees) == (views, DIRECT)  # Never within a view.
    sites.another_view()
    assert sites.trees == VIA_US
    assert 80_000 <= sites.agreed(ASIA_EU) <= 90_000

    sites.shape("asia", "eu", delay_us=25_000)
    sites.run(60)
    assert sites.trees == VIA_US
    sites.another_view()
    assert sites.trees == DIRECT


@pytest.mark.slow
def test_a_link_that_loses_packets_is_avoided_while_it_does() -> None:
    sites = Sites(config_of())
    sites.run(60)
    sites.shape("asia", "eu", loss=0.3)
    for _ in range(4):
        sites.run(300)
        sites.another_view()
        assert sites.trees == VIA_US

    sites.shape("asia", "eu", loss=0.0)
    sites.run(600)
    sites.another_view()
    assert sites.trees == DIRECT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delay_us", "jitter_us"), [(25_000, 8_000), pytest.param(42_000, 20_000, marks=pytest.mark.long)]
)
def test_an_hour_of_jitter_and_views_changes_the_trees_at_most_once(delay_us: int, jitter_us: int) -> None:
    """The second case is a close one: the path over us takes about as long as the direct link."""
    sites = Sites(config_of(), jitter_us=jitter_us, loss=0.01)
    sites.shape("asia", "eu", delay_us=delay_us)
    sites.run(30)
    seen = [sites.trees]
    while sites.cluster.engine.now_us < 3_600 * SECOND_US:
        sites.run(150)
        sites.another_view()
        seen.append(sites.trees)

    assert len(seen) > 20
    assert sum(one != other for one, other in pairwise(seen)) <= 1


@pytest.mark.slow
def test_weights_outlive_the_daemon_that_represents_a_site() -> None:
    sites = Sites(config_of())
    sites.shape("asia", "eu", delay_us=90_000)
    sites.run(60)
    sites.another_view("eu1")  # The other ends have measured too.

    assert sites.trees == VIA_US
    assert 80_000 <= sites.agreed(ASIA_EU) <= 90_000


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [HOP, TCP])
def test_the_end_of_a_link_that_no_tree_uses_is_no_reason_for_a_view(protocol: LinkProtocol) -> None:
    sites = Sites(config_of(protocol))
    sites.shape("asia", "eu", delay_us=90_000)
    sites.run(60)
    sites.another_view()
    stack = sites.cluster.hosts["eu1"].membership.stack
    assert stack is not None
    assert len(stack.spares) == 1
    views = sites.views

    for name in ("eu1", "eu2"):
        sites.cluster.network.cut_both("asia1", name)
    sites.run(30)

    assert [link.failure != "" for link in stack.spares.values()] == [True]
    assert (sites.views, sites.trees) == (views, VIA_US)
    assert sites.cluster.settled()
