"""Rings of daemons on several hosts of the lab."""

import pytest
from tests.netns.namespace_lab import Lab
from tests.unit.daemon.node import Node, Up
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, Daemon, MulticastConfig, RingTuning, Site
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import Drop
from hopring.ids import DaemonId, Generation, Incarnation, SiteMask
from hopring.routing.network import NetworkFailed
from hopring.stack_events import Receive

pytestmark = [pytest.mark.netns, pytest.mark.slow]

HOSTS = {"a": "10.77.0.1", "b": "10.77.0.2", "c": "10.77.0.3"}
GROUP = MulticastConfig("239.192.77.6", 7777)
PATIENT = RingTuning(token_loss_us=5_000_000)


class Ring:
    """A cluster of one site, with a daemon on each host."""

    def __init__(self, lab: Lab, loop: Loop, name: str, port: int) -> None:
        daemons = tuple(Daemon(host, address, port) for host, address in HOSTS.items())
        config = Config(name, (Site("here", daemons, GROUP, PATIENT),))
        self.name = name
        self.delivered: dict[str, list[bytes]] = {host: [] for host in HOSTS}
        self.failures: list[str] = []
        self.nodes: dict[str, Node] = {}
        for host in HOSTS:
            with lab.on(host):
                self.nodes[host] = Node(loop, config, host, Incarnation(1), self._up_of(host))
        members: dict[DaemonId, Incarnation | None] = {node.me: None for node in self.nodes.values()}
        for node in self.nodes.values():
            node.start(Generation(1), members)

    def _up_of(self, host: str) -> Up:
        def up(event: Receive | NetworkFailed) -> None:
            if isinstance(event, NetworkFailed):
                self.failures.append(event.reason)
            elif event.bundle is not None:
                self.delivered[host].append(bytes(event.bundle))

        return up

    def send_round(self) -> None:
        for host, node in self.nodes.items():
            for number in range(100):
                node.multicast(SiteMask(1), f"{self.name} {host} {number:02d}".encode())

    def wanted(self) -> list[bytes]:
        return sorted(f"{self.name} {host} {number:02d}".encode() for host in HOSTS for number in range(100))

    def complete(self) -> bool:
        return all(len(bundles) >= 300 for bundles in self.delivered.values())


def test_two_clusters_on_one_multicast_address_do_not_disturb_each_other(lab: Lab, loop: Loop) -> None:
    lab.host(*HOSTS)
    lab.switch("sw", {host: [f"{address}/24"] for host, address in HOSTS.items()})
    for host in HOSTS:
        lab.ip(host, "link", "set", "eth0", "up")
    one, other = Ring(lab, loop, "one", 7001), Ring(lab, loop, "other", 7002)
    one.send_round()
    other.send_round()
    run_until(loop, lambda: one.complete() and other.complete())

    for ring in (one, other):
        for host, node in ring.nodes.items():
            assert sorted(ring.delivered[host]) == ring.wanted()
            assert set(node.sockets.datagrams.traffic.dropped) == {Drop.CLUSTER}
            node.close()
        assert ring.failures == []
