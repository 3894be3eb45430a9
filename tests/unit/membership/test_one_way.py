"""Links inside a site that work one way only, in the simulator: the resulting views, and how soon they come."""

from itertools import combinations, permutations

import pytest

from hopring.check import trace
from hopring.check.judge import check_evs
from hopring.config.builder import local_config
from hopring.membership.options import MembershipOptions
from hopring.membership.snapshot import MembershipPhase
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

pytestmark = pytest.mark.slow

Cut = tuple[str, str]  # From, to.
LOOK_US = 20_000
CUT_US = 10_000_000
SETTLE_US = 1_500_000  # Detection, two searches one after the other, and a half.
HEAL_US = MembershipOptions().probe_us + 500_000
EU = ("eu1", "eu2", "eu3", "eu4")


def views_of(cluster: SimCluster) -> set[frozenset[str]]:
    """The views in force; a daemon without one at the moment counts as alone."""
    views = set()
    for host in cluster.hosts.values():
        members = [cluster.names[one.daemon] for one in host.membership.view.members]
        views.add(frozenset(members if host.membership.phase is MembershipPhase.OP else [host.name]))
    return views


def could_be_one(one: frozenset[str], other: frozenset[str], cuts: tuple[Cut, ...]) -> bool:
    """Whether these views should merge: all their daemons hear each other."""
    return not any(pair in cuts for pair in permutations(one | other, 2))


def installed(cluster: SimCluster, since_us: int) -> int:
    return sum(isinstance(event, trace.ViewInstalled) and event.at_us >= since_us for event in cluster.history)


def judge(counts: dict[str, int], cuts: tuple[Cut, ...], load: bool) -> None:
    cluster = SimCluster(local_config(counts), 1, Quality(delay_us=200))
    cluster.start()
    cluster.run_for(1_000_000)
    assert cluster.settled()
    for cut in cuts:
        cluster.network.cut(*cut)
    begun_us = cluster.engine.now_us
    while cluster.engine.now_us < begun_us + CUT_US:
        cluster.run_for(LOOK_US)
        for host in cluster.hosts.values() if load else ():
            host.submit(Service.AGREED, 100)
        if cluster.engine.now_us > begun_us + SETTLE_US:
            apart = [pair for pair in combinations(views_of(cluster), 2) if could_be_one(*pair, cuts)]
            assert not apart, f"{cuts}: {apart}"
    assert installed(cluster, begun_us) <= len(cluster.hosts) + 1, cuts
    healed_us = cluster.engine.now_us
    cluster.network.heal()
    while not cluster.settled() and cluster.engine.now_us < healed_us + HEAL_US:
        cluster.run_for(LOOK_US)
    assert cluster.settled(), cuts
    assert all(verdict.holds for verdict in check_evs(cluster.history, quiet_end=False))


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize("cut", list(permutations(EU[:3], 2)))
def test_one_way_in_a_site_of_three(cut: Cut, load: bool) -> None:
    judge({"eu": 3}, (cut,), load)


@pytest.mark.parametrize("cut", list(permutations(EU, 2)))
def test_one_way_in_a_site_of_four(cut: Cut) -> None:
    judge({"eu": 4}, (cut,), load=False)


@pytest.mark.parametrize("far", ["asia", "us"])
@pytest.mark.parametrize("cut", list(permutations(EU[:3], 2)))
def test_one_way_in_a_site_beside_another(cut: Cut, far: str) -> None:
    judge({"eu": 3, far: 1}, (cut,), load=True)


@pytest.mark.parametrize(
    "cuts",
    [
        (("eu1", "eu2"), ("eu3", "eu4")),
        (("eu3", "eu2"), ("eu1", "eu4")),
        (("eu1", "eu3"), ("eu4", "eu1")),
        (("eu2", "eu3"), ("eu4", "eu1"), ("eu1", "eu3")),
    ],
)
def test_several_links_of_a_site_of_four(cuts: tuple[Cut, ...]) -> None:
    judge({"eu": 4}, cuts, load=True)


@pytest.mark.parametrize("loss", [0.1, 0.3])
def test_two_halves_of_a_site_find_each_other_although_messages_are_lost(loss: float) -> None:
    for seed in range(1, 7):
        cluster = SimCluster(local_config({"eu": 6}), seed, Quality(delay_us=200, loss=loss))
        cluster.start()
        cluster.run_for(3_000_000)
        cluster.network.partition(["eu1", "eu2", "eu3"], ["eu4", "eu5", "eu6"])
        cluster.run_for(4_000_000 + seed * 137_000)
        cluster.network.heal()
        healed_us = cluster.engine.now_us
        while not cluster.settled() and cluster.engine.now_us < healed_us + HEAL_US:
            cluster.run_for(LOOK_US)

        assert cluster.settled(), seed
