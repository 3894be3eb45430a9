"""Groups on the real membership, order and network, in virtual time."""

from random import Random

import pytest
from tests.unit.groups.book import Got, Shown
from tests.unit.groups.cluster import GroupCluster
from tests.unit.groups.judge import judge

from hopring.config.local import local_config
from hopring.groups.events import Disconnect, JoinGroup, LeaveGroup
from hopring.groups.groups import GState
from hopring.ids import GroupName
from hopring.membership.events import Resume, Withdraw
from hopring.ordering.entry import CONTROL_SESSION, Message
from hopring.services import Service
from hopring.sim.path import Quality

SECOND_US = 1_000_000
RED = GroupName("red")
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


def cluster_of(sites: dict[str, int], seed: int = 1) -> GroupCluster:
    cluster = GroupCluster(local_config(sites), seed, quality=Quality(delay_us=500))
    cluster.start()
    settle(cluster)
    return cluster


def settle(cluster: GroupCluster) -> None:
    for _ in range(30):
        cluster.run_for(SECOND_US)
        if cluster.settled() and all(one.groups.state is GState.GOP for one in cluster.members.values()):
            cluster.run_for(SECOND_US)
            return
    raise AssertionError("not settled")


def verdict(cluster: GroupCluster) -> list[str]:
    living = [cluster.members[name].groups for name in sorted(cluster.hosts)]
    return judge(cluster.book, living)


def test_a_join_and_a_message_reach_everybody() -> None:
    cluster = cluster_of({"eu": 2, "us": 1})
    for at in ("eu1", "eu2", "us1"):
        session = cluster.connect(at, "a")
        cluster.request(at, JoinGroup(session, RED))
    cluster.run_for(SECOND_US)
    label = cluster.send("us1", 3, Service.AGREED, "red")
    cluster.run_for(SECOND_US)

    for trace in cluster.book.traces.values():
        assert [one.label for one in trace.events if isinstance(one, Got)] == [label]
        shown = [one.view for one in trace.events if isinstance(one, Shown)]
        assert len(shown[-1].members) == 3
    assert not verdict(cluster)


def test_a_body_goes_only_to_sites_that_want_it() -> None:
    cluster = cluster_of({"eu": 1, "us": 1, "zz": 1})
    for at in ("eu1", "us1"):
        session = cluster.connect(at, "a")
        cluster.request(at, JoinGroup(session, RED))
    cluster.run_for(SECOND_US)

    cluster.send("eu1", 1, Service.AGREED, "red")
    cluster.run_for(10_000)

    view = cluster.members["zz1"].membership.view
    assert [entry.mask for entry in view.order.entries.values() if entry.message is None] == [0b011]
    cluster.run_for(SECOND_US)
    assert not verdict(cluster)


def test_clients_go_on_in_the_view_that_is_named_and_in_no_later_one() -> None:
    cluster = cluster_of({"eu": 1})
    host = cluster.members["eu1"]
    outbox, view = host.membership.traffic.outbox, host.membership.view.id
    outbox.held = True

    host.driver.step(Resume(view._replace(counter=view.counter - 1)))
    assert outbox.held
    host.driver.step(Resume(view))

    assert not outbox.held


def test_own_messages_that_wait_can_be_withdrawn_and_those_of_clients_stay() -> None:
    cluster = cluster_of({"eu": 1})
    host = cluster.members["eu1"]
    outbox = host.membership.traffic.outbox
    outbox.put_back([Message(Service.SAFE, host.me.daemon, session, b"") for session in (CONTROL_SESSION, 1)])
    outbox.held = True

    host.membership.step(Withdraw(), cluster.engine.now_us)

    assert (len(outbox.control), len(outbox.waiting)) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_splits_crashes_and_merges_keep_the_promises(seed: int) -> None:
    rng = Random(seed)
    sites = rng.choice([{"eu": 2, "us": 2}, {"eu": 1, "us": 2, "zz": 1}, {"eu": 4}])
    cluster = cluster_of(sites, seed)
    names = sorted(cluster.numbers)
    for at in names:
        for name in "ab":
            session = cluster.connect(at, name)
            for group in rng.sample(["red", "green", "blue"], 2):
                cluster.request(at, JoinGroup(session, GroupName(group)))
    for _ in range(4):
        _busy(cluster, rng, 30)
        kind = rng.random()
        if kind < 0.6:
            half = set(rng.sample(names, rng.randint(1, len(names) - 1)))
            cluster.network.partition(half, set(names) - half)
        else:
            cluster.crash(rng.choice(sorted(cluster.hosts)))
        _busy(cluster, rng, 60)
        for name in names:
            if name not in cluster.hosts:
                cluster.restart(name)
        cluster.network.heal()
        _busy(cluster, rng, 60)
    settle(cluster)
    cluster.run_for(3 * SECOND_US)

    assert not verdict(cluster)


def _busy(cluster: GroupCluster, rng: Random, rounds: int) -> None:
    for _ in range(rounds):
        cluster.run_for(rng.randint(1, 60_000))
        at = rng.choice(sorted(cluster.hosts))
        host = cluster.members[at]
        here = [
            trace
            for trace in cluster.book.traces.values()
            if trace.member.process == host.me and not trace.ended
        ]
        if len(here) < 2:
            cluster.connect(at, rng.choice("abc"))
            continue
        trace = rng.choice(here)
        session, group = trace.member.session, GroupName(rng.choice(["red", "green", "blue"]))
        chance = rng.random()
        if chance < 0.15 and group not in trace.joined:
            cluster.request(at, JoinGroup(session, group))
        elif chance < 0.25 and group in trace.joined:
            cluster.request(at, LeaveGroup(session, group))
        elif chance < 0.28:
            cluster.request(at, Disconnect(session))
        else:
            cluster.send(
                at, session, rng.choice(SERVICES), *rng.sample(["red", "green", "blue"], rng.choice([1, 2]))
            )
