"""Groups on the real membership, order and network, in virtual time."""

from random import Random

import pytest

from hopring.check.judge import check_evs_c
from hopring.check.trace import ClientDelivered, GroupInstalled
from hopring.config.builder import local_config
from hopring.engine import Resume, Withdraw
from hopring.groups.groups import GroupsState
from hopring.ids import GroupName
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage
from hopring.services import Service
from hopring.sim.client_cluster import SimClientCluster
from hopring.sim.path import Quality
from hopring.wire.bundle import BundleKey

SECOND_US = 1_000_000
RED = GroupName("red")
SERVICES = (Service.RELIABLE, Service.FIFO, Service.AGREED, Service.SAFE)


def cluster_of(sites: dict[str, int], seed: int = 1) -> SimClientCluster:
    cluster = SimClientCluster(local_config(sites), seed, quality=Quality(delay_us=500))
    cluster.start()
    settle(cluster)
    return cluster


def settle(cluster: SimClientCluster) -> None:
    for _ in range(30):
        cluster.run_for(SECOND_US)
        states = {cluster.client_host(name).groups.state for name in cluster.hosts}
        if cluster.settled() and states == {GroupsState.GOP}:
            cluster.run_for(SECOND_US)
            return
    raise AssertionError("not settled")


def broken(cluster: SimClientCluster) -> list[str]:
    verdicts = check_evs_c(cluster.history, quiet_end=True, components=[set(cluster.numbers)])
    return [f"{one.property}: {one.witness}" for one in verdicts if not one]


def member(cluster: SimClientCluster, at: str, *groups: str) -> int:
    host = cluster.client_host(at)
    session = host.connect("ann")
    assert session is not None
    for group in groups:
        host.join(session, GroupName(group))
    return session


def send(cluster: SimClientCluster, at: str, session: int, service: Service, *groups: str) -> None:
    host = cluster.client_host(at)
    host.send(BundleKey(host.me.daemon, session, service, tuple([GroupName(name) for name in groups])), (10,))


def test_a_join_and_a_message_reach_everybody() -> None:
    cluster = cluster_of({"eu": 2, "us": 1})
    sessions = {at: member(cluster, at, "red") for at in ("eu1", "eu2", "us1")}
    cluster.run_for(SECOND_US)
    send(cluster, "us1", sessions["us1"], Service.AGREED, "red")
    cluster.run_for(SECOND_US)

    got = [event.process.session for event in cluster.history if isinstance(event, ClientDelivered)]
    shown = [event.members for event in cluster.history if isinstance(event, GroupInstalled)]
    assert sorted(got) == sorted(sessions.values())
    assert [len(members) for members in shown[-3:]] == [3, 3, 3]
    assert not broken(cluster)


def test_a_body_goes_only_to_sites_that_want_it() -> None:
    cluster = cluster_of({"eu": 1, "us": 1, "zz": 1})
    sessions = {at: member(cluster, at, "red") for at in ("eu1", "us1")}
    cluster.run_for(SECOND_US)

    send(cluster, "eu1", sessions["eu1"], Service.AGREED, "red")
    cluster.run_for(1_000)

    view = cluster.client_host("zz1").membership.view
    assert [entry.mask for entry in view.order.entries.values() if entry.message is None] == [0b011]
    assert len(cluster.pruned) == 1
    cluster.run_for(SECOND_US)
    assert not broken(cluster)


def test_clients_continue_in_the_named_view_and_in_no_later_one() -> None:
    cluster = cluster_of({"eu": 1})
    host = cluster.client_host("eu1")
    outbox, view = host.membership.flow.window, host.membership.view.id
    outbox.held = True

    host.driver.step(Resume(view._replace(counter=view.counter - 1)))
    assert outbox.held
    host.driver.step(Resume(view))

    assert not outbox.held


def test_own_messages_that_wait_can_be_withdrawn_and_those_of_clients_stay() -> None:
    cluster = cluster_of({"eu": 1})
    host = cluster.client_host("eu1")
    outbox = host.membership.flow.window
    outbox.put_back(
        [OrderedMessage(Service.SAFE, host.me.daemon, session, b"") for session in (DAEMON_SESSION, 1)]
    )
    outbox.held = True

    host.membership.step(Withdraw(), cluster.engine.now_us)

    assert (len(outbox.own_messages), len(outbox.waiting)) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_splits_crashes_and_merges_keep_every_property(seed: int) -> None:
    rng = Random(seed)
    sites = rng.choice([{"eu": 2, "us": 2}, {"eu": 1, "us": 2, "zz": 1}, {"eu": 4}])
    cluster = cluster_of(sites, seed)
    names = sorted(cluster.numbers)
    for at in names:
        member(cluster, at, *rng.sample(["red", "green", "blue"], 2))
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

    assert not broken(cluster)


def _busy(cluster: SimClientCluster, rng: Random, rounds: int) -> None:
    for _ in range(rounds):
        cluster.run_for(rng.randint(1, 60_000))
        host = cluster.client_host(rng.choice(sorted(cluster.hosts)))
        if len(host.sessions) < 2:
            host.connect(rng.choice(["ann", "bob", "cat"]))
            continue
        session, group = rng.choice(sorted(host.sessions)), GroupName(rng.choice(["red", "green", "blue"]))
        chance = rng.random()
        if chance < 0.15 and group not in host.sessions[session]:
            host.join(session, group)
        elif chance < 0.25 and group in host.sessions[session]:
            host.leave(session, group)
        elif chance < 0.28:
            host.disconnect(session)
        else:
            groups = rng.sample(["red", "green", "blue"], rng.choice([1, 2]))
            send(cluster, host.name, session, rng.choice(SERVICES), *groups)
