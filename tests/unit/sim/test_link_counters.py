from collections import defaultdict
from itertools import pairwise

import pytest

from hopring.check.judge import check_evs
from hopring.check.trace import Counters
from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkProtocol, LinkTuning
from hopring.services import Service
from hopring.sim.campaign.runner import run_world
from hopring.sim.campaign.world import draw_world
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

PERIOD_US = 200_000
LOSS = 0.1
FAR_US = 30_000


def loaded(protocol: LinkProtocol = LinkProtocol.HOP) -> SimCluster:
    """Two sites with a round trip of 60 ms; a tenth of the packets from b to a is lost, and nothing else."""
    base = local_config({"a": 1, "b": 2})
    link = LinkConfig(("a", "b"), 10, protocol, LinkTuning(rate_bytes_per_second=1_000_000))
    config = Config(base.cluster, base.sites, (link,))
    cluster = SimCluster(config, 3, Quality(delay_us=500), link_counters_us=PERIOD_US)
    for far in ("b1", "b2"):
        cluster.network.shape_both("a1", far, delay_us=FAR_US)
    cluster.start()
    cluster.run_for(1_500_000)
    cluster.network.shape("b1", "a1", loss=LOSS)
    for _ in range(300):
        cluster.hosts["b2"].submit(Service.AGREED, 1_200)
        cluster.run_for(10_000)
    cluster.network.shape("b1", "a1", loss=0.0)
    cluster.run_for(2_000_000)
    assert cluster.settled()
    return cluster


def counters_of(cluster: SimCluster, name: str) -> list[Counters]:
    return [one for one in cluster.history if isinstance(one, Counters) and one.process.daemon == name]


@pytest.mark.slow
def test_the_counters_of_both_ends_fit_the_known_loss() -> None:
    cluster = loaded()
    first, *_, near = counters_of(cluster, "b1")
    far = counters_of(cluster, "a1")[-1]

    assert (near.peer, far.peer) == ("a1", "b1")
    assert near.link == f"a1@{far.link.rpartition('@')[2]}"
    assert near.sent == far.received, "nothing is in flight, so everything has arrived"
    sent = near.sent - first.sent
    assert sent >= 300
    assert 0.5 * LOSS <= far.lost / sent <= 2 * LOSS
    # Lost retransmissions are requested and sent again.
    assert far.lost <= near.retransmissions <= 2 * far.lost
    assert 0 < far.nacks <= 2 * far.lost
    assert near.lost == far.retransmissions == 0
    assert 2 * FAR_US <= near.round_trip_us <= 2 * FAR_US + 20_000


@pytest.mark.slow
def test_a_row_comes_in_every_period_and_within_a_link_counters_only_grow() -> None:
    rows = counters_of(loaded(), "a1")

    by_link: dict[str, list[Counters]] = defaultdict(list)
    for row in rows:
        assert row.at_us % PERIOD_US == 0
        by_link[row.link].append(row)
    (steady,) = by_link.values()
    assert {after.at_us - before.at_us for before, after in pairwise(steady)} == {PERIOD_US}
    for name in ("sent", "received", "lost", "nacks", "retransmissions"):
        counts = [getattr(row, name) for row in steady]
        assert counts == sorted(counts)


@pytest.mark.slow
def test_a_tcp_link_counts_what_it_sends_and_receives() -> None:
    cluster = loaded(LinkProtocol.TCP)

    near, far = counters_of(cluster, "b1")[-1], counters_of(cluster, "a1")[-1]
    assert near.sent == far.received > 100
    assert (near.lost, near.nacks, near.retransmissions, near.round_trip_us) == (0, 0, 0, 0)


@pytest.mark.slow
def test_without_a_period_there_are_none_and_with_one_all_else_is_the_same() -> None:
    world = next(world for world in map(draw_world, range(1, 100)) if len(world.config.sites) > 1)

    plain, counted = run_world(world), run_world(world, link_counters_us=50_000)

    assert not any(isinstance(event, Counters) for event in plain.history)
    assert [event for event in counted.history if not isinstance(event, Counters)] == plain.history
    assert any(isinstance(event, Counters) for event in counted.history)
    assert all(check_evs(counted.history, quiet_end=True))
