"""`hop why` names the link or the daemon, and the cause, from all sides together and from each side alone."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from tests.netns.three_sites import ThreeSites
from tests.netns.why_cluster import CGROUP, NAMES, WhyCluster, why_cluster

pytestmark = [pytest.mark.netns, pytest.mark.slow]

EU: Final = ("ap1", "eu1", "eu2")
US: Final = ("us1", "us2")


def others(*names: str) -> tuple[str, ...]:
    return tuple([one for one in NAMES if one not in names])


def a_cut_link(cluster: WhyCluster) -> None:
    before = cluster.counts()
    cluster.world.cut("eu", "us")
    cluster.until_changed(before, *NAMES)
    for side in ((), ("eu1", "eu2"), US):
        cluster.wait_for_story(lambda told: told.where == "link eu-us", of=side)
    told = cluster.wait_for_story(lambda told: told.fault == "network")
    assert "in either direction" in told.text
    cluster.world.heal()
    cluster.whole()


def a_split(cluster: WhyCluster) -> None:
    cluster.world.part(*US)
    cluster.until_views(EU, US)
    told = cluster.wait_for_story(lambda told: told.fault == "network")
    assert told.where in ("link ap-us", "link eu-us")
    assert "in either direction" in told.text
    for side in (EU, US):
        told = cluster.wait_for_story(lambda told: told.where in ("link ap-us", "link eu-us"), of=side)
        assert told.fault == "one side known"
    cluster.world.heal()
    cluster.whole()


def one_direction(cluster: WhyCluster) -> None:
    before = cluster.counts()
    cluster.world.block(("us", "eu"))
    cluster.until_changed(before, *NAMES)
    told = cluster.wait_for_story(lambda told: told.fault == "one way")
    assert told.where == "link eu-us"
    assert "packets from us1 to eu1 were lost" in told.text
    for side in (("eu1", "eu2"), US):
        cluster.wait_for_story(lambda told: told.where == "link eu-us", of=side)
    cluster.world.heal()
    cluster.whole()


def a_cut_by_hand(cluster: WhyCluster) -> None:
    cluster.ask("partition", "us | ap eu", "--yes")
    cluster.until_views(EU, US)
    for side in ((), EU, US):
        told = cluster.wait_for_story(lambda told: told.fault == "cut", of=side)
        assert "by user 0 over its admin channel" in told.text
        assert "heal" in told.remedy
    cluster.ask("heal")
    cluster.whole()


def a_killed_representative(cluster: WhyCluster) -> None:
    _killed(cluster, "us1")


def a_killed_daemon(cluster: WhyCluster) -> None:
    _killed(cluster, "eu2")


def _killed(cluster: WhyCluster, name: str) -> None:
    cluster.daemons.kill(name)
    cluster.until_views(others(name))
    told = cluster.wait_for_story(lambda told: told.fault == "not running")
    assert told.where == name
    for side in (["ap1"], [f"{name[:2]}{3 - int(name[2])}"]):
        cluster.wait_for_story(lambda told: name in told.text, of=side)
    cluster.daemons.start(name)
    cluster.whole()
    told = cluster.wait_for_story(lambda told: told.fault == "crashed")
    assert told.where == name


def an_orderly_stop(cluster: WhyCluster) -> None:
    cluster.daemons.stop("us2")
    cluster.until_views(others("us2"))
    for side in ((), EU, ("us1",)):
        told = cluster.wait_for_story(lambda told: told.fault == "stopped", of=side)
        assert told.where == "us2"
    cluster.daemons.start("us2")
    cluster.whole()


def a_freeze(cluster: WhyCluster) -> None:
    with cluster.frozen("us1"):
        cluster.until_views(others("us1"))
        told = cluster.wait_for_story(lambda told: told.fault == "not answering")
        assert told.where == "us1"
    cluster.whole()
    for side in ((), EU, US):
        told = cluster.wait_for_story(lambda told: told.fault == "stalled", of=side)
        assert told.where == "us1"
        assert "us1 did not run for" in told.text


def starvation(cluster: WhyCluster) -> None:
    if not (CGROUP / "cpu.cfs_quota_us").exists():
        pytest.skip("this machine has no cgroup for processor time")
    before = cluster.counts()
    with cluster.starved("eu2"):
        cluster.until_changed(before, *others("eu2"))
    cluster.whole()
    for side in ((), US, ("eu1",)):
        told = cluster.wait_for_story(lambda told: told.fault == "stalled", of=side)
        assert told.where == "eu2"


def a_delay(cluster: WhyCluster) -> None:
    before = cluster.counts()
    for one, other in (("eu1", "us1"), ("us1", "eu1")):
        cluster.ask_daemon(one, {"verb": "shape", "to": [other], "delay_us": 9_000_000})
    cluster.until_changed(before, *NAMES)
    for side in ((), ("eu1", "eu2"), US):
        told = cluster.wait_for_story(lambda told: told.fault == "shaped", of=side)
        assert told.where == "link eu-us"
        assert "delay_us 9000000" in told.text
    for one, other in (("eu1", "us1"), ("us1", "eu1")):
        cluster.ask_daemon(one, {"verb": "shape", "to": [other]})
    cluster.whole()


def a_cut_inside_a_site(cluster: WhyCluster) -> None:
    cluster.world.part("eu2")
    cluster.until_views(others("eu2"), ("eu2",))
    told = cluster.wait_for_story(lambda told: told.fault == "network")
    assert told.where == "site eu"
    for side in (("eu1",), ("eu2",)):
        cluster.wait_for_story(lambda told: told.where in ("site eu", "eu1", "eu2", "ap1 eu1 us1 us2"), of=side)
    cluster.world.heal()
    cluster.whole()


def another_configuration(cluster: WhyCluster) -> None:
    file = cluster.directory / "hop.toml"
    before = file.read_text()
    cluster.daemons.stop("us2")
    cluster.until_views(others("us2"))
    file.write_text(before.replace("weight = 30000", "weight = 31000"))
    cluster.daemons.start("us2")
    file_is_read = 'problem="'
    try:
        cluster.until_log("eu1", file_is_read, cluster.daemons.log("eu1").count(file_is_read) + 1)
        for side in ((), EU):
            told = cluster.wait_for_story(lambda told: told.fault == "refused", of=side)
            assert told.where == "us2"
            assert "cluster hash" in told.text
    finally:
        file.write_text(before)
    cluster.daemons.stop("us2")
    cluster.daemons.start("us2")
    cluster.whole()


WAYS: Final = (
    *(a_cut_link, a_split, one_direction, a_cut_by_hand, a_killed_representative, a_killed_daemon),
    *(an_orderly_stop, a_freeze, starvation, a_delay, a_cut_inside_a_site, another_configuration),
)
DAILY: Final = (a_split, a_freeze)


def play(world: ThreeSites, ways: tuple[Callable[[WhyCluster], None], ...]) -> None:
    # Short, because paths of sockets are limited.
    with TemporaryDirectory(prefix="why-") as directory, why_cluster(world, Path(directory)) as cluster:
        for way in ways:
            print(way.__name__)
            way(cluster)
            print(cluster.why().output)


def test_hop_why_names_a_split_and_a_freeze_from_either_side(world: ThreeSites) -> None:
    play(world, DAILY)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("way", [one for one in WAYS if one not in DAILY], ids=lambda way: way.__name__)
def test_hop_why_names_the_fault_from_either_side(world: ThreeSites, way: Callable[[WhyCluster], None]) -> None:
    play(world, (way,))
