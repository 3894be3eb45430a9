"""Sequences, stamps and counters just below 2**32, 2**63 and the last number there is, in whole clusters."""

import pytest

from hopring.check import trace
from hopring.check.judge import check_evs
from hopring.config.builder import local_config
from hopring.config.model import Config
from hopring.ids import NUMBER_MAX, DaemonId, SiteId, SiteMask
from hopring.links.ring.state import Phase as RingPhase
from hopring.membership.snapshot import MembershipPhase
from hopring.services import Service
from hopring.sim.cluster import CLUSTER, SimCluster
from hopring.sim.path import Quality
from hopring.stack_events import PacketReceived, StackOptions
from hopring.wire.data import Data
from hopring.wire.header import Family, Header
from hopring.wire.routed import Routed, encode_routed
from hopring.wire.train import Packet

pytestmark = pytest.mark.slow

BELOW = [pytest.param(2**32 - 8, id="2**32"), pytest.param(2**63 - 8, id="2**63")]
SERVICES = (Service.AGREED, Service.SAFE, Service.FIFO, Service.RELIABLE)


def cluster_of(stack: StackOptions | None = None, **counts: int) -> SimCluster:
    base = local_config(counts or {"a": 2, "b": 1})
    config = Config(base.cluster, base.sites)
    return SimCluster(config, 1, Quality(delay_us=1_000), stack_options=stack or StackOptions())


def settle(cluster: SimCluster) -> None:
    cluster.run_for(3_000_000)
    assert cluster.settled()


def load(cluster: SimCluster, rounds: int = 12) -> None:
    for number in range(rounds):
        for _, host in sorted(cluster.hosts.items()):
            host.submit(SERVICES[number % 4], 100)
        cluster.run_for(20_000)
    cluster.run_for(1_000_000)


def live(cluster: SimCluster, clock: int = 0) -> None:
    """Load, a crash under load, and a restart, with the present numbers.

    If a clock is given, the restarted daemon begins with it: from 0 it would refuse a leap.
    """
    load(cluster)
    for _, host in sorted(cluster.hosts.items()):
        host.submit(Service.SAFE, 100)
    cluster.crash("a1")
    settle(cluster)
    load(cluster)
    cluster.restart("a1")
    cluster.hosts["a1"].membership.view.order.clock = clock
    settle(cluster)
    load(cluster)


def judge(cluster: SimCluster, quiet_end: bool = True) -> None:
    together = [sorted(cluster.hosts)] if quiet_end else None
    verdicts = check_evs(cluster.history, quiet_end, together)
    assert [verdict for verdict in verdicts if not verdict] == []


def stamps(cluster: SimCluster) -> list[int]:
    return [event.ord.lts for event in cluster.history if isinstance(event, trace.MessageDelivered)]


def causes(cluster: SimCluster) -> list[str]:
    return [event.cause for event in cluster.history if isinstance(event, trace.ViewInstalled)]


def set_clocks(cluster: SimCluster, clock: int) -> None:
    for host in cluster.hosts.values():
        host.membership.view.order.clock = clock


@pytest.mark.parametrize("start", BELOW)
def test_packet_numbers_continue_past_powers_of_two(start: int) -> None:
    cluster = cluster_of(StackOptions(initial_seq=start))
    cluster.start()
    settle(cluster)

    live(cluster)

    stack = cluster.hosts["a1"].membership.stack
    assert stack is not None
    assert stack.ring.state.token.link_seq > start + 8
    judge(cluster)


@pytest.mark.parametrize("start", BELOW)
def test_view_counters_continue_past_powers_of_two(start: int) -> None:
    cluster = cluster_of()
    cluster.counters = dict.fromkeys(cluster.counters, start)
    cluster.start()
    settle(cluster)

    for _ in range(4):
        live(cluster)

    assert cluster.hosts["a1"].membership.view.id.counter > start + 8
    judge(cluster)


@pytest.mark.parametrize("start", BELOW)
def test_stamps_continue_past_powers_of_two(start: int) -> None:
    cluster = cluster_of()
    cluster.start()
    set_clocks(cluster, start)
    settle(cluster)

    live(cluster, clock=start)

    assert start < min(stamps(cluster)) < start + 8 < max(stamps(cluster))
    judge(cluster)


def set_site_sequence(cluster: SimCluster, site: int, seq: int) -> None:
    """Sets the sequence as if the site had sent that many bundles in this view.

    The token must rest at its first daemon.
    """
    for host in cluster.hosts.values():
        membership = host.membership
        line = membership.view.order.lines[SiteId(site)]
        line.cseq = line.highest = seq
        stack = membership.stack
        assert stack is not None
        if membership.site == site:
            stack.stamps.site_seq = seq
            ring = stack.ring.state
            ring.token = ring.token.replace(site_seq=seq)
            ring.passed = ring.passed.replace(site_seq=seq)


def rest(cluster: SimCluster, name: str) -> None:
    """Runs until the token rests at this daemon."""
    for _ in range(10_000):
        stack = cluster.hosts[name].membership.stack
        assert stack is not None
        if stack.ring.state.phase is RingPhase.HELD:
            return
        cluster.run_for(500)
    raise AssertionError("the token never rests")


@pytest.mark.parametrize("start", BELOW)
def test_site_sequences_continue_past_powers_of_two(start: int) -> None:
    cluster = cluster_of()
    cluster.start()
    settle(cluster)
    rest(cluster, "a1")
    set_site_sequence(cluster, 0, start)

    load(cluster)
    assert cluster.hosts["b1"].membership.view.order.lines[SiteId(0)].cseq == start + 24
    live(cluster)

    judge(cluster)


# The end of the numbers.


@pytest.mark.parametrize(
    "counts", [pytest.param({"a": 2}, id="ring"), pytest.param({"a": 1, "b": 1}, id="hop")]
)
def test_a_link_without_packet_numbers_ends_its_network_and_the_next_one_goes_on(
    counts: dict[str, int],
) -> None:
    cluster = cluster_of(StackOptions(initial_seq=NUMBER_MAX - 30), **counts)
    cluster.start()
    settle(cluster)

    load(cluster, rounds=60)
    cluster.run_for(3_000_000)

    assert any("no packet numbers are left" in cause for cause in causes(cluster))
    # A link that fails as soon as it is used is left out for a while, so the end need not be quiet.
    judge(cluster, quiet_end=False)


def test_a_cluster_that_runs_out_of_stamps_reports_it() -> None:
    cluster = cluster_of()
    cluster.start()
    set_clocks(cluster, NUMBER_MAX - 20)
    settle(cluster)

    load(cluster)

    assert NUMBER_MAX - 20 < max(stamps(cluster)) <= NUMBER_MAX
    reasons = {host.membership.reasons.text for host in cluster.hosts.values()}
    assert any("beyond NUMBER_MAX" in reason for reason in [*causes(cluster), *reasons])


@pytest.mark.parametrize("lts", [NUMBER_MAX + 1, 2**64 - 1])
@pytest.mark.parametrize("seq", [1, 2**64 - 1])
def test_a_bundle_beyond_the_last_number_ends_the_network(lts: int, seq: int) -> None:
    cluster = cluster_of()
    cluster.start()
    settle(cluster)
    host, other = cluster.hosts["a1"], cluster.hosts["a2"]
    stack = host.membership.stack
    assert stack is not None
    header = Header(Family.RING, CLUSTER, other.me.daemon, other.me.incarnation, stack.own.generation)
    bundle = encode_routed(Routed(SiteId(0), seq, lts, SiteMask(3), 0, 1, b"x" * 20))

    host.submit(Service.AGREED, 10)
    host.driver.step(PacketReceived(Packet(header, (Data(stack.ring.state.store.aru + 1, bundle),))))

    assert host.membership.phase is MembershipPhase.SEARCH
    assert "breaks the protocol" in host.membership.reasons.text
    settle(cluster)
    load(cluster)
    assert max(stamps(cluster)) < 2**20


def test_a_bundle_beyond_the_last_number_does_not_raise_the_stamps_of_the_token_behind_it() -> None:
    cluster = cluster_of()
    cluster.start()
    settle(cluster)
    host, other = cluster.hosts["a1"], cluster.hosts["a2"]
    stack = host.membership.stack
    assert stack is not None
    ring = stack.ring.state
    while ring.phase is not RingPhase.AWAY:
        cluster.run_for(100)
    header = Header(Family.RING, CLUSTER, other.me.daemon, other.me.incarnation, stack.own.generation)
    seq = ring.store.aru + 1
    bundle = encode_routed(Routed(SiteId(0), ring.passed.site_seq + 1, 2**64 - 1, SiteMask(3), 0, 1, b"x" * 20))
    token = ring.passed.replace(number=ring.expected, link_seq=seq)
    host.submit(Service.AGREED, 10)

    host.driver.step(PacketReceived(Packet(header, (Data(seq, bundle), token))))

    assert "breaks the protocol" in host.membership.reasons.text


def test_a_view_counter_beyond_the_last_number_is_refused() -> None:
    cluster = cluster_of()
    cluster.counters = dict.fromkeys(cluster.counters, NUMBER_MAX - 2**32)
    cluster.counters["b1"] = NUMBER_MAX + 1
    cluster.start()
    cluster.run_for(2_000_000)

    assert cluster.hosts["a1"].membership.view.id.counter < NUMBER_MAX - 2**32 + 100
    assert DaemonId(2) not in cluster.hosts["a1"].membership.view.processes
    assert sum(cluster.hosts["a1"].membership.drops.values()) > 0


@pytest.mark.parametrize("seq", [0, -1, NUMBER_MAX + 1, 2**64])
def test_packets_are_not_numbered_from_anywhere(seq: int) -> None:
    with pytest.raises(AssertionError, match="packet numbers are between 1 and NUMBER_MAX"):
        StackOptions(initial_seq=seq)
