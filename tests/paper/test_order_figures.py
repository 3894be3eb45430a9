"""The latency of ordered messages on the chain of thesis figure 5.3; the bounds follow its table 5.1."""

from statistics import fmean

import pytest
from tests.paper.paper_networks import config_of

from hopring.check import trace
from hopring.check.judge import check_evs
from hopring.config.model import LinkTuning
from hopring.membership.options import MembershipOptions
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

CHAIN = (("a", "b", 30_000), ("b", "c", 30_000), ("c", "d", 30_000))
DIAMETER_US = 90_000
DELTA_US = 100_000
T1_BYTES_PER_SECOND = 187_500


def chain() -> SimCluster:
    """Four sites of one daemon, 30 ms and 1.5 Mbit/s from one to the next; settled in one view."""
    tuning = LinkTuning(rate_bytes_per_second=T1_BYTES_PER_SECOND, burst_bytes=6_000)
    options = MembershipOptions(update_delta_us=DELTA_US, probe_us=3_600_000_000)
    cluster = SimCluster(config_of(CHAIN, tuning=tuning), 1, Quality(delay_us=1_000_000), options)
    for one, other, delay_us in CHAIN:
        line = {"delay_us": delay_us, "rate_bytes_per_second": T1_BYTES_PER_SECOND, "queue_bytes": 64_000}
        cluster.network.shape_both(f"{one}1", f"{other}1", **line)
    # Sites that are not neighbours reach each other through those that are.
    for one, other in (("a1", "c1"), ("a1", "d1"), ("b1", "d1")):
        cluster.network.cut_both(one, other)
    cluster.start()
    cluster.run_for(5_000_000)
    assert cluster.settled()
    return cluster


def latencies_us(cluster: SimCluster, sender: str, receiver: str, services: set[Service]) -> list[int]:
    """The times from send to delivery."""
    sent = {event.message: event.at_us for event in cluster.history if isinstance(event, trace.MessageSent)}
    return [
        event.at_us - sent[event.message]
        for event in cluster.history
        if isinstance(event, trace.MessageDelivered)
        and event.process.daemon == receiver
        and event.message.daemon == sender
        and event.service in services
    ]


def pings(cluster: SimCluster, service: Service, count: int, every_us: int) -> None:
    for _ in range(count):
        cluster.hosts["a1"].submit(service, 100)
        cluster.run_for(every_us)
    cluster.run_for(1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("service", [Service.RELIABLE, Service.FIFO])
def test_reliable_and_fifo_take_one_diameter(service: Service) -> None:
    cluster = chain()
    pings(cluster, service, count=30, every_us=700_000)

    times_us = latencies_us(cluster, "a1", "d1", {service})
    assert len(times_us) == 30
    assert min(times_us) >= 90_000
    assert max(times_us) <= 97_000


@pytest.mark.slow
def test_an_isolated_agreed_message_takes_one_diameter() -> None:
    """Promises travel beside the message: when it arrives at the far end, so do they."""
    cluster = chain()
    pings(cluster, Service.AGREED, count=30, every_us=700_000)

    times_us = latencies_us(cluster, "a1", "d1", {Service.AGREED})
    assert len(times_us) == 30
    assert max(times_us) <= 1.15 * DIAMETER_US


@pytest.mark.slow
def test_an_isolated_safe_message_takes_three_diameters() -> None:
    cluster = chain()
    pings(cluster, Service.SAFE, count=30, every_us=700_000)

    times_us = latencies_us(cluster, "a1", "d1", {Service.SAFE})
    assert len(times_us) == 30
    assert 255_000 <= fmean(times_us) <= 285_000


@pytest.mark.slow
def test_under_load_the_bounds_of_table_5_1_hold() -> None:
    cluster = chain()
    for number in range(400):
        cluster.hosts["a1"].submit((Service.AGREED, Service.SAFE)[number % 2], 100)
        cluster.run_for(17_000)
    cluster.run_for(2_000_000)

    for name in sorted(cluster.hosts):
        agreed_us = latencies_us(cluster, "a1", name, {Service.AGREED})
        safe_us = latencies_us(cluster, "a1", name, {Service.SAFE})
        assert len(agreed_us) == len(safe_us) == 200
        assert max(safe_us) <= 3 * DIAMETER_US + 2 * DELTA_US
    assert all(check_evs(cluster.history, quiet_end=True))


@pytest.mark.slow
def test_under_agreed_load_every_message_is_within_two_diameters_and_delta() -> None:
    cluster = chain()
    for _ in range(400):
        cluster.hosts["a1"].submit(Service.AGREED, 100)
        cluster.run_for(17_000)
    cluster.run_for(2_000_000)

    for name in sorted(cluster.hosts):
        times_us = latencies_us(cluster, "a1", name, {Service.AGREED})
        assert len(times_us) == 400
        assert max(times_us) <= 2 * DIAMETER_US + DELTA_US


@pytest.mark.slow
def test_when_all_sites_send_agreed_takes_one_diameter() -> None:
    cluster = chain()
    for _ in range(400):
        for name in sorted(cluster.hosts):
            cluster.hosts[name].submit(Service.AGREED, 100)
        cluster.run_for(15_000)
    cluster.run_for(2_000_000)

    assert fmean(latencies_us(cluster, "a1", "d1", {Service.AGREED})) <= 1.15 * DIAMETER_US
