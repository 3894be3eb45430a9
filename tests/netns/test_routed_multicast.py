"""One site in two networks, with a router between them that forwards multicast."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct

import pytest
from tests.netns.namespace_lab import Lab
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, Daemon, MulticastConfig, RingTuning, Site
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.loop.event_loop import Loop
from hopring.engine import Delivered, EngineOutput, Installed
from hopring.ids import Incarnation, Process
from hopring.services import Service

pytestmark = [pytest.mark.netns, pytest.mark.slow]

GROUP = "239.192.77.9"
NETS = {"a": ("10.78.1.2", "10.78.1.1"), "b": ("10.78.2.2", "10.78.2.1")}  # A host, and its router.
SHORT = RingTuning(token_loss_us=300_000)

# From linux/mroute.h: a virtual interface, and an entry of the forwarding cache.
MRT_INIT, MRT_ADD_VIF, MRT_ADD_MFC = 200, 202, 204
VIF = Struct("@HBBI4s4s")  # Number, flags, least TTL, rate, address, the far end of a tunnel.
# Source, group, incoming interface, least TTL to each of 32 interfaces, three counters, expiry.
MFC = Struct("@4s4sH32sIIIi")


@contextmanager
def multicast_router(lab: Lab, host: str) -> Iterator[None]:
    """Adds static multicast routes to the kernel, from each of the two networks to the other."""
    addresses = list(NETS.values())
    with lab.on(host):
        kernel = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
    with kernel:
        kernel.setsockopt(socket.IPPROTO_IP, MRT_INIT, 1)
        for number, (_, router) in enumerate(addresses):
            vif = VIF.pack(number, 0, 1, 0, socket.inet_aton(router), bytes(4))
            kernel.setsockopt(socket.IPPROTO_IP, MRT_ADD_VIF, vif)
        for number, (source, _) in enumerate(addresses):
            ttls = bytearray(32)  # 0: not by this interface.
            ttls[1 - number] = 1
            there = (socket.inet_aton(source), socket.inet_aton(GROUP))
            route = MFC.pack(*there, number, bytes(ttls), 0, 0, 0, 0)
            kernel.setsockopt(socket.IPPROTO_IP, MRT_ADD_MFC, route)
        yield


class Routed:
    """A daemon on each of the hosts."""

    def __init__(self, lab: Lab, loop: Loop, ttl: int) -> None:
        daemons = tuple(Daemon(host, address, 7801) for host, (address, _) in NETS.items())
        config = Config("routed", (Site("here", daemons, MulticastConfig(GROUP, 7800, ttl), SHORT),))
        self.seen: dict[str, list[EngineOutput]] = {host: [] for host in NETS}
        self.members: dict[str, MembershipHost] = {}
        for host in NETS:
            me = Process(config.daemon_id(host), Incarnation(1_000 + config.daemon_id(host)))
            with lab.on(host):
                take: Callable[[Sequence[EngineOutput]], None] = self.seen[host].extend
                self.members[host] = MembershipHost(loop, config, me, take)

    def largest(self, host: str) -> int:
        return max([len(event.members) for event in self.seen[host] if isinstance(event, Installed)], default=0)

    def payloads(self, host: str) -> list[bytes]:
        return [bytes(event.message.payload) for event in self.seen[host] if isinstance(event, Delivered)]

    def settled_alone(self) -> bool:
        """Whether each daemon has installed another view after its first one."""
        return all(sum(isinstance(one, Installed) for one in seen) >= 2 for seen in self.seen.values())

    def close(self) -> None:
        for member in self.members.values():
            member.close()


@pytest.fixture
def routed(lab: Lab) -> Iterator[Lab]:
    lab.host(*NETS)
    lab.host("r", forwarding=True)
    for number, (host, (address, router)) in enumerate(NETS.items()):
        lab.cable((host, "eth0", f"{address}/24"), ("r", f"eth{number}", f"{router}/24"))
        lab.ip(host, "route", "add", "default", "via", router)
    with multicast_router(lab, "r"):
        yield lab


def test_with_a_ttl_of_two_a_site_spans_a_router(routed: Lab, loop: Loop) -> None:
    site = Routed(routed, loop, ttl=2)
    try:
        run_until(loop, lambda: all(site.largest(host) == 2 for host in NETS))
        for host, member in site.members.items():
            member.submit(Service.SAFE, f"from {host}".encode())
        run_until(loop, lambda: all(len(site.payloads(host)) == 2 for host in NETS))

        assert site.payloads("a") == site.payloads("b")
        assert sorted(site.payloads("a")) == [b"from a", b"from b"]
    finally:
        site.close()


def test_with_a_ttl_of_one_it_does_not(routed: Lab, loop: Loop) -> None:
    """They receive each other's searches, but not the multicast packets on the ring of an attempt."""
    site = Routed(routed, loop, ttl=1)
    try:
        run_until(loop, site.settled_alone)

        assert [site.largest(host) for host in NETS] == [1, 1]
    finally:
        site.close()
