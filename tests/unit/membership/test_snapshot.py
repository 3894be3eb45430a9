"""Snapshots of the membership, which all code outside it reads."""

from hopring.config import local_config
from hopring.engine import Snapshot
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

SECOND_US = 1_000_000


def cluster_of(sites: dict[str, int]) -> SimCluster:
    cluster = SimCluster(local_config(sites), 1, Quality(delay_us=500))
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    assert cluster.settled()
    return cluster


def members(cluster: SimCluster, snapshot: Snapshot) -> list[str]:
    return [cluster.names[one.daemon] for one in snapshot.members]


def test_a_whole_view_has_members_a_ring_links_and_routes() -> None:
    cluster = cluster_of({"eu": 2, "us": 1})
    cluster.hosts["eu2"].submit(Service.AGREED, 10)
    cluster.run_for(SECOND_US)

    eu1 = cluster.hosts["eu1"].snapshot()

    assert (eu1.phase, eu1.phase_detail, eu1.settled, eu1.attempt) == ("op", "op", True, None)
    assert members(cluster, eu1) == ["eu1", "eu2", "us1"]
    assert [cluster.names[one] for one in eu1.ring.members] == ["eu1", "eu2"]
    assert [(cluster.names[one.peer], one.protocol) for one in eu1.links] == [("us1", "hop")]
    assert eu1.links[0].counters.sent > 0
    assert eu1.overlay is not None
    assert [(one.use, one.cut) for one in eu1.overlay.routes] == [("tree", False)]
    assert eu1.overlay.representative == eu1.me.daemon
    assert eu1.window.used_bundles == eu1.window.queue_bytes == 0
    assert set(eu1.window.sizes) == {
        *("personal_segments", "global_segments", "packet_segments"),
        *("bytes", "bundles"),
    }


def test_a_daemon_that_is_alone_searches_and_has_no_network() -> None:
    cluster = SimCluster(local_config({"eu": 2}), 1, Quality(delay_us=500))
    cluster.start("eu1")

    eu1 = cluster.hosts["eu1"].snapshot()

    assert (eu1.phase, eu1.settled, eu1.network, eu1.links) == ("search", False, None, ())
    assert members(cluster, eu1) == ["eu1"]
    assert eu1.phase_detail != "search", "the snapshot does not name the state of the search"


def test_the_last_counters_of_a_network_stay_until_the_next_one_ends() -> None:
    cluster = cluster_of({"eu": 1, "us": 1})
    before = cluster.hosts["eu1"].snapshot().network
    assert before is not None

    cluster.crash("us1")
    cluster.run_for(5 * SECOND_US)
    after = cluster.hosts["eu1"].snapshot()

    assert members(cluster, after) == ["eu1"]
    assert after.last_network is not None
    assert after.last_network.generation != (None if after.network is None else after.network.generation)


def test_every_delivery_moves_the_place_that_is_reached() -> None:
    cluster = cluster_of({"eu": 2})
    before = cluster.hosts["eu1"].snapshot().reached

    cluster.hosts["eu2"].submit(Service.AGREED, 10)
    cluster.run_for(SECOND_US)

    assert cluster.hosts["eu1"].snapshot().reached > before
