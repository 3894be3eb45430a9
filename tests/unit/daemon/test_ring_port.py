from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.daemon.ring_site import Member, everything_arrived, open_all, send_round
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop import Loop
from hopring.daemon.multicast import Group
from hopring.daemon.udp import UdpEndpoint
from hopring.errors import Drop


@contextmanager
def site(loop: Loop, cluster: int, group: Group | None) -> Iterator[list[Member]]:
    members = [Member(loop, me, cluster, group) for me in (1, 2, 3)]
    open_all(members)
    yield members
    for member in members:
        member.close()


@pytest.mark.parametrize("multicast", [True, False])
def test_a_ring_carries_objects_to_all_members(loop: Loop, multicast: bool) -> None:
    group = Group("239.192.77.4", free_port(loop), "lo") if multicast else None
    with site(loop, 0xC1, group) as members:
        send_round(members, "hello")
        run_until(loop, lambda: everything_arrived(members))

        for member in members:
            words = b"".join(member.delivered).split(b";")[:-1]
            others = [other for other in members if other is not member]
            wanted = [f"hello {other.me} {number:02d}".encode() for other in others for number in range(100)]
            assert sorted(words) == sorted(wanted)
            assert member.exchange.traffic.dropped == {}


def test_two_clusters_on_one_multicast_address_do_not_disturb_each_other(loop: Loop) -> None:
    group = Group("239.192.77.5", free_port(loop), "lo")
    with site(loop, 0xC1, group) as one, site(loop, 0xC2, group) as other:
        send_round(one, "one")
        send_round(other, "other")
        run_until(loop, lambda: everything_arrived(one) and everything_arrived(other))

        for members, foreign in ((one, b"other"), (other, b"one")):
            for member in members:
                assert foreign not in b"".join(member.delivered)
                assert set(member.exchange.traffic.dropped) == {Drop.CLUSTER}
                assert member.failures == []


def free_port(loop: Loop) -> int:
    endpoint = UdpEndpoint(loop, ("127.0.0.1", 0), lambda *_: None)
    port = endpoint.address[1]
    endpoint.close()
    return port
