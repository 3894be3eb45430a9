"""Whole nodes on real loopback sockets, in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.membership_hosts import PATIENT_RING, patient
from tests.unit.daemon.node import Node
from tests.unit.daemon.waiting import run_until

from hopring.config import (
    Config,
    LinkProtocol,
    LinkTuning,
    MulticastConfig,
    RingTuning,
    cluster_hash,
    local_config,
)
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import Shape
from hopring.errors import Drop
from hopring.ids import DaemonId, Generation, Incarnation, SiteMask
from hopring.routing.network import NetworkFailed
from hopring.stack_events import Receive
from hopring.wire.data import Data
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.ring import Hurry
from hopring.wire.train import Frame, Train, encode

EVERYWHERE = SiteMask(0b11)


class Cluster:
    """All nodes of a configuration on one loop."""

    def __init__(self, config: Config) -> None:
        self.loop = Loop()
        self.received: list[tuple[str, bytes | None]] = []
        self.failed: dict[str, str] = {}
        names = [daemon.name for daemon in config.daemons]
        self.nodes = {name: self._node(config, name, 1000 + at) for at, name in enumerate(names)}

    def _node(self, config: Config, name: str, nonce: int) -> Node:
        def up(event: Receive | NetworkFailed) -> None:
            if isinstance(event, Receive):
                self.received.append((name, None if event.bundle is None else bytes(event.bundle)))
            else:
                self.failed[name] = event.reason

        return Node(self.loop, config, name, Incarnation(nonce), up)

    def start(self, generation: int) -> None:
        members: dict[DaemonId, Incarnation | None] = {node.me: None for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(Generation(generation), members)

    def turn_until(self, count: int, seconds: float = 10.0) -> None:
        """Runs until this many bundles have been received, or the time is up."""
        deadline_us = self.loop.now_us() + int(seconds * 1_000_000)
        awake = self.loop.alarm(lambda: None)
        while len(self.received) < count and self.loop.now_us() < deadline_us:
            awake.set(self.loop.now_us() + 5_000)
            self.loop.turn()

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()
        self.loop.close()


@contextmanager
def cluster_of(config: Config) -> Iterator[Cluster]:
    cluster = Cluster(config)
    try:
        yield cluster
    finally:
        cluster.close()


def two_sites(protocol: LinkProtocol, multicast: bool) -> Config:
    port = free_base_port(12)
    config = local_config({"eu": 2, "us": 2}, {("eu", "us"): "40ms"}, base_port=port, protocol=protocol)
    if not multicast:
        return patient(config)
    groups = [MulticastConfig("239.255.77.9", port + 10), MulticastConfig("239.255.77.9", port + 11)]
    sites = [replace(site, multicast=group) for site, group in zip(config.sites, groups, strict=True)]
    return patient(replace(config, sites=tuple(sites)))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", list(LinkProtocol))
@pytest.mark.parametrize("multicast", [False, True])
def test_every_bundle_reaches_every_daemon_once_over_real_sockets(
    protocol: LinkProtocol, multicast: bool
) -> None:
    with cluster_of(two_sites(protocol, multicast)) as cluster:
        for name, node in cluster.nodes.items():
            for other in cluster.nodes:
                if protocol is LinkProtocol.HOP and name[:2] != other[:2]:
                    node.sockets.shape(other, Shape(delay_us=5_000, loss=0.05))
        cluster.start(generation=1)
        bundles = [b"%06d" % number * size for number, size in enumerate([1, 100, 20_000] * 20)]
        for number, bundle in enumerate(bundles):
            sorted(cluster.nodes.items())[number % 4][1].multicast(EVERYWHERE, bundle)
        cluster.turn_until(4 * len(bundles))

        for name in cluster.nodes:
            assert sorted(body for who, body in cluster.received if who == name and body) == sorted(bundles)
        assert cluster.failed == {}


@pytest.mark.slow
@pytest.mark.parametrize("ring", [RingTuning(segment_bytes=500), RingTuning(personal_window_segments=1)])
def test_a_bundle_crosses_to_a_site_with_smaller_packets(ring: RingTuning) -> None:
    config = two_sites(LinkProtocol.HOP, multicast=False)
    small = replace(ring, token_loss_us=PATIENT_RING.token_loss_us)
    config = replace(config, sites=(config.sites[0], replace(config.sites[1], ring=small)))
    with cluster_of(config) as cluster:
        cluster.start(generation=1)
        bundles = [b"%06d" % number * 15_000 for number in range(4)]
        for node, bundle in zip(cluster.nodes.values(), bundles, strict=True):
            node.multicast(EVERYWHERE, bundle)
        cluster.turn_until(16)

        assert sorted(cluster.received) == sorted((name, one) for name in cluster.nodes for one in bundles)
        assert cluster.failed == {}


def test_a_new_generation_starts_empty_and_packets_of_the_old_one_are_stale() -> None:
    with cluster_of(two_sites(LinkProtocol.HOP, multicast=False)) as cluster:
        cluster.start(generation=1)
        cluster.nodes["eu1"].multicast(EVERYWHERE, b"first")
        cluster.turn_until(4)
        cluster.start(generation=2)
        cluster.nodes["eu1"].multicast(EVERYWHERE, b"second")
        cluster.turn_until(8)

        assert sorted(cluster.received) == sorted(
            [(name, body) for name in cluster.nodes for body in (b"first", b"second")]
        )


def from_us1(
    generation: int = 1, incarnation: int = 1_002, sender: int = 2, family: Family = Family.HOP
) -> Header:
    """A header as us1's packets have it: its number is 2, and the nonces of the nodes here begin at 1000."""
    return Header(family, 0, DaemonId(sender), Incarnation(incarnation), Generation(generation))


@pytest.mark.parametrize(
    ("header", "frame", "reason"),
    [
        (from_us1(sender=77), Data(1, b"no"), Drop.FOREIGN_SENDER),
        (from_us1(generation=6), Data(1, b"no"), Drop.STALE_GENERATION),
        (from_us1(incarnation=1), Data(1, b"no"), Drop.STALE_INCARNATION),
        (from_us1(family=Family.RING), Data(1, b"no"), Drop.FOREIGN_SENDER),
        (from_us1(), Hurry(), Drop.UNKNOWN_TYPE),
        (from_us1(), Data(2**40, b"far"), Drop.OUT_OF_WINDOW),
    ],
)
def test_packets_that_are_not_for_the_network_are_counted_by_reason(
    header: Header, frame: Frame, reason: Drop
) -> None:
    config = two_sites(LinkProtocol.HOP, multicast=False)
    with cluster_of(config) as cluster:
        cluster.start(generation=1)
        cluster.nodes["eu2"].multicast(EVERYWHERE, b"all are up")
        cluster.turn_until(4)
        eu1 = cluster.nodes["eu1"]
        stack = eu1.stack
        assert stack is not None
        assert not stack.drops
        forged = header.replace(cluster=cluster_hash(config))
        (train,) = encode(encode_header(forged), (frame,), 1400)
        cluster.nodes["us2"].sockets.datagrams.endpoint.send(train, eu1.sockets.datagrams.endpoint.address)
        run_until(cluster.loop, lambda: bool(stack.drops))

        assert stack.drops == {reason: 1}
        assert len(cluster.received) == 4
        assert not cluster.failed


def test_random_datagrams_never_end_the_loop() -> None:
    config = two_sites(LinkProtocol.HOP, multicast=False)
    with cluster_of(config) as cluster:
        cluster.start(generation=1)
        there = cluster.nodes["us2"].sockets.datagrams.endpoint
        here = cluster.nodes["eu1"].sockets.datagrams.endpoint.address
        random = Random(4711)
        header = from_us1().replace(cluster=cluster_hash(config))
        good = encode(encode_header(header), (Data(1, b"x" * 50),), 1400)[0].buffer
        for _ in range(500):
            bent = bytearray(good)
            bent[random.randrange(len(bent))] ^= 1 << random.randrange(8)
            there.send(Train(bytes(bent[: random.randrange(1, len(bent))]), 1400), here)
            there.send(Train(random.randbytes(random.randrange(1, 3_000)), 1400), here)
        cluster.nodes["us1"].multicast(EVERYWHERE, b"still here")
        cluster.turn_until(4)

        assert sorted(cluster.received) == [(name, b"still here") for name in sorted(cluster.nodes)]
        assert cluster.nodes["eu1"].sockets.datagrams.traffic.dropped.total() >= 900


def test_a_silent_neighbour_ends_the_network() -> None:
    config = two_sites(LinkProtocol.HOP, multicast=False)
    quick = LinkTuning(heartbeat_us=10_000, silence_us=50_000, initial_round_trip_us=1_000)
    config = replace(config, links=tuple(replace(link, tuning=quick) for link in config.links))
    with cluster_of(config) as cluster:
        members: dict[DaemonId, Incarnation | None] = {node.me: None for node in cluster.nodes.values()}
        cluster.nodes["eu1"].start(Generation(1), members)
        run_until(cluster.loop, lambda: "eu1" in cluster.failed)


def test_two_clusters_on_one_multicast_address_do_not_disturb_each_other() -> None:
    port = free_base_port(12)
    group = MulticastConfig("239.255.77.10", port + 11)
    ours = local_config({"eu": 2}, base_port=port, cluster="ours")
    theirs = local_config({"eu": 2}, base_port=port + 4, cluster="theirs")
    shared = [replace(one, sites=(replace(one.sites[0], multicast=group),)) for one in (ours, theirs)]
    configs = [patient(one) for one in shared]
    names, numbers = ("eu1", "eu2"), range(50)
    with cluster_of(configs[0]) as first, cluster_of(configs[1]) as second:
        for cluster in (first, second):
            cluster.start(generation=1)
        for number in numbers:
            first.nodes["eu1"].multicast(EVERYWHERE, b"ours %02d" % number)
            second.nodes["eu2"].multicast(EVERYWHERE, b"theirs %02d" % number)
            first.turn_until(len(first.received) + 1, seconds=0.02)
            second.turn_until(len(second.received) + 1, seconds=0.02)
        first.turn_until(100)
        second.turn_until(100)

        assert sorted(first.received) == [(name, b"ours %02d" % n) for name in names for n in numbers]
        assert sorted(second.received) == [(name, b"theirs %02d" % n) for name in names for n in numbers]
        assert not first.failed
        assert not second.failed
        foreign = sum(node.sockets.datagrams.traffic.dropped[Drop.CLUSTER] for node in first.nodes.values())
        assert foreign > 0
