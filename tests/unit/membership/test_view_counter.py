"""View counters far apart: numbers out of nowhere, and daemons that meet again."""

import pytest

from hopring.config.builder import local_config
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation, Process
from hopring.membership.events import DaemonMessageReceived
from hopring.membership.messages import DaemonAlive
from hopring.membership.view_counter import COUNTER_NEAR, COUNTER_SPAN_US, ViewCounter
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

SECOND_US = 1_000_000
STEP = 1 << 32


def cluster_of(sites: dict[str, int]) -> SimCluster:
    return SimCluster(local_config(sites), 1, Quality(delay_us=500))


def test_claims_of_daemons_that_have_not_heard_this_one_raise_the_counter_by_little() -> None:
    counter = ViewCounter(1_003, STEP)

    for _ in range(1_000):
        counter.heard(counter.value + STEP, False, 5_000)

    assert counter.value == 1_003 + COUNTER_NEAR


def test_a_claim_of_a_daemon_that_has_heard_this_one_raises_the_counter_by_a_step_at_a_time() -> None:
    counter = ViewCounter(1_003, STEP)
    values = []
    for at_us in (0, 1_000, COUNTER_SPAN_US, 2 * COUNTER_SPAN_US):
        counter.heard(3 * STEP, True, at_us)
        values.append(counter.value)

    assert values == [1_003 + STEP, 1_003 + STEP, 1_003 + 2 * STEP, 3 * STEP]


def test_near_claims_are_believed_at_once_and_lower_ones_change_nothing() -> None:
    counter = ViewCounter(1_003, STEP)

    counter.heard(1_200, False, 0)
    counter.heard(7, True, 0)

    assert counter.value == 1_200


def test_a_newmemb_far_ahead_is_refused_and_in_reach_one_step_later() -> None:
    counter = ViewCounter(1_003, STEP)

    with pytest.raises(PeerError) as caught:
        counter.check(1_004 + STEP, 0)

    assert caught.value.reason is Drop.OUT_OF_WINDOW
    counter.check(1_004 + STEP, COUNTER_SPAN_US)


def test_numbers_out_of_nowhere_neither_part_a_cluster_nor_survive_its_restart() -> None:
    cluster = cluster_of({"eu": 3})
    cluster.start("eu1", "eu2")
    cluster.run_for(2 * SECOND_US)
    stranger = Process(DaemonId(2), Incarnation(999))
    victim = cluster.hosts["eu1"]
    for _ in range(3):
        claimed = victim.membership.counter + STEP
        victim.driver.step(DaemonMessageReceived(stranger, DaemonAlive(stranger, claimed)))
    cluster.start("eu3")
    cluster.run_for(5 * SECOND_US)

    assert cluster.settled()
    assert cluster.counters["eu1"] < 10 * COUNTER_NEAR
    for name in ("eu1", "eu2", "eu3"):
        cluster.crash(name)
    for name in ("eu1", "eu2", "eu3"):
        cluster.restart(name)
    cluster.run_for(2 * SECOND_US)
    assert cluster.settled()


@pytest.mark.parametrize("sites", [{"eu": 3}, {"eu": 2, "us": 2}], ids=str)
@pytest.mark.parametrize("ahead", ["first", "last"])
def test_daemons_with_counters_far_apart_share_a_view_after_some_steps(
    sites: dict[str, int], ahead: str
) -> None:
    cluster = cluster_of(sites)
    names = sorted(cluster.numbers)
    far = names[0] if ahead == "first" else names[-1]
    cluster.counters = dict.fromkeys(names, 1_003)
    cluster.counters[far] = 1_003 + 3 * STEP

    cluster.start()
    cluster.run_for(10 * SECOND_US)

    assert cluster.settled()
    assert cluster.hosts[far].membership.view.id.counter < 1_003 + 3 * STEP + 1_000
