from functools import partial

import pytest

from hopring.check.trace import MessageDelivered
from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkProtocol
from hopring.errors import HopError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import StreamClosed, StreamEvent, StreamOpened, StreamReceived
from hopring.membership.snapshot import MembershipPhase
from hopring.services import Service
from hopring.sim.cluster import CLUSTER, SimCluster
from hopring.sim.engine import SimEngine
from hopring.sim.network import SimNetwork
from hopring.sim.path import Quality
from hopring.sim.tcp.links import PENDING_MAX, PENDING_US_MAX, SimTcpLinks
from hopring.stack_events import Identity, StreamChanged
from hopring.testing.scenario.daemon_commands import parse_cluster
from hopring.wire.header import Family
from hopring.wire.stream import encode_greeting

A, B = DaemonId(0), DaemonId(1)
NAMES = {A: "a", B: "b"}
Told = tuple[Generation, DaemonId, StreamEvent]


class Pair:
    """The connections of two daemons on one network."""

    def __init__(self) -> None:
        self.engine = SimEngine()
        self.network = SimNetwork(self.engine, 1, Quality(delay_us=1_000))
        self.told: dict[DaemonId, list[Told]] = {A: [], B: []}
        self.ends = {one: self._start(one) for one in NAMES}

    def _start(self, one: DaemonId) -> SimTcpLinks:
        return SimTcpLinks(self.network, one, CLUSTER, NAMES, partial(self._hear, one))

    def restart(self, one: DaemonId) -> None:
        self.network.crash(NAMES[one])
        self.network.restart(NAMES[one])
        self.ends[one] = self._start(one)

    def _hear(self, one: DaemonId, generation: Generation, neighbour: DaemonId, event: StreamEvent) -> None:
        self.told[one].append((generation, neighbour, event))

    def begin(self, one: DaemonId, generation: int) -> Identity:
        own = Identity(one, Incarnation(7), CLUSTER, Generation(generation))
        self.ends[one].begin(own, (B if one == A else A,))
        return own

    def greet(self, own: Identity, to: DaemonId) -> None:
        self.ends[own.me].write(own.generation, to, encode_greeting(own.header(Family.TCP)))

    def run(self) -> None:
        self.engine.run_for(100_000)


def test_a_connection_that_comes_before_its_network_waits_for_it() -> None:
    pair = Pair()
    own = pair.begin(A, 5)
    pair.run()
    pair.greet(own, B)
    pair.run()
    assert pair.told[B] == []

    pair.begin(B, 5)

    greeting = encode_greeting(own.header(Family.TCP))
    assert pair.told[B] == [(5, A, StreamOpened()), (5, A, StreamReceived(greeting))]


def test_a_connection_of_an_earlier_network_is_not_mistaken_for_the_present_ones() -> None:
    pair = Pair()
    own = pair.begin(A, 5)
    pair.run()
    pair.greet(own, B)
    pair.begin(B, 6)
    pair.run()

    assert pair.told[B] == []

    later = pair.begin(A, 6)
    pair.run()
    pair.greet(later, B)
    pair.run()
    assert [event for event in pair.told[B] if event[0] == 5] == []
    assert pair.told[B][0][2] == StreamOpened()


def test_a_network_that_begins_ends_the_connections_of_the_one_before_in_silence() -> None:
    pair = Pair()
    own = pair.begin(A, 5)
    pair.begin(B, 5)
    pair.run()
    pair.greet(own, B)
    pair.run()

    pair.begin(A, 6)
    heard = len(pair.told[A])
    pair.run()

    assert (5, A, StreamClosed("reset")) in pair.told[B]
    assert all(generation == 6 for generation, *_ in pair.told[A][heard:])


def test_writes_of_an_earlier_network_are_ignored() -> None:
    pair = Pair()
    old = pair.begin(A, 5)
    pair.begin(A, 6)
    pair.begin(B, 6)
    pair.run()

    pair.greet(old, B)
    pair.run()

    assert pair.told[B] == []


def test_the_number_of_pending_connections_is_limited() -> None:
    pair = Pair()
    for generation in range(1, PENDING_MAX + 4):
        pair.begin(A, generation)
        pair.run()
        pair.restart(A)

    assert pair.ends[B].pending == PENDING_MAX


def test_a_pending_connection_waits_for_a_limited_time() -> None:
    pair = Pair()
    own = pair.begin(A, 5)
    pair.run()
    pair.greet(own, B)
    pair.run()
    assert pair.ends[B].pending == 1

    pair.engine.run_for(PENDING_US_MAX)

    assert pair.ends[B].pending == 0


def test_a_later_connection_of_a_neighbour_replaces_the_pending_one() -> None:
    pair = Pair()
    for _ in range(3):
        pair.restart(A)  # B does not notice the end of the connection before.
        own = pair.begin(A, 5)
        pair.run()
        pair.greet(own, B)
        pair.run()

    assert pair.ends[B].pending == 1

    pair.begin(B, 5)
    assert pair.told[B][0] == (5, A, StreamOpened())


def tcp_cluster(loss: float = 0.0, **counts: int) -> SimCluster:
    base = local_config(counts)
    names = sorted(counts)
    pairs = [(one, other) for one in names for other in names if one < other]
    links = tuple(LinkConfig(ends, 20_000, LinkProtocol.TCP) for ends in pairs)
    return SimCluster(Config(base.cluster, base.sites, links), 1, Quality(delay_us=5_000, loss=loss))


def settled(cluster: SimCluster) -> SimCluster:
    cluster.start()
    cluster.run_for(2_000_000)
    assert cluster.settled()
    return cluster


def test_a_late_event_of_an_earlier_networks_stream_does_not_hurt_the_present_one() -> None:
    cluster = settled(tcp_cluster(a=1, b=1))
    host = cluster.hosts["a1"]
    view = host.membership.view.id

    host.driver.step(StreamChanged(Generation(1), B, StreamClosed("reset")))

    assert (host.membership.phase, host.membership.view.id) == (MembershipPhase.OP, view)


def test_the_end_of_the_present_networks_stream_is_the_end_of_the_view() -> None:
    cluster = settled(tcp_cluster(a=1, b=1))
    host = cluster.hosts["a1"]
    stack = host.membership.stack
    assert stack is not None

    host.driver.step(StreamChanged(stack.own.generation, B, StreamClosed("reset")))

    assert host.membership.phase is MembershipPhase.SEARCH
    cluster.run_for(3_000_000)
    assert cluster.settled()


@pytest.mark.slow
@pytest.mark.parametrize("counts", [{"a": 2, "b": 1}, {"a": 2, "b": 2, "c": 1}])
def test_sites_over_tcp_share_views_and_messages(counts: dict[str, int]) -> None:
    cluster = settled(tcp_cluster(0.01, **counts))

    for _ in range(20):
        cluster.hosts["a2"].submit(Service.SAFE, 3_000)
        cluster.run_for(20_000)
    cluster.run_for(3_000_000)

    delivered = dict.fromkeys(cluster.numbers, 0)
    for event in cluster.history:
        delivered[event.process.daemon] += isinstance(event, MessageDelivered)
    assert set(delivered.values()) == {20}


def test_a_story_names_the_pairs_of_sites_that_talk_over_tcp() -> None:
    links = parse_cluster(["eu=1", "us=1", "ap=1", "tcp=eu-us"]).config.links

    assert {link.sites for link in links if link.protocol is LinkProtocol.TCP} == {("eu", "us")}
    with pytest.raises(HopError, match="eu-mars"):
        parse_cluster(["eu=1", "us=1", "tcp=eu-mars"])
