"""Rings of daemons on several hosts."""

import pytest
from tests.netns.lab import Lab
from tests.unit.daemon.ring_site import Member, everything_arrived, open_all, send_round
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop import Loop
from hopring.daemon.multicast import Group
from hopring.errors import Drop

pytestmark = [pytest.mark.netns, pytest.mark.slow]

HOSTS = {"a": "10.77.0.1", "b": "10.77.0.2", "c": "10.77.0.3"}


def test_two_clusters_on_one_multicast_address_do_not_disturb_each_other(lab: Lab, loop: Loop) -> None:
    lab.host(*HOSTS)
    lab.switch("sw", {host: [f"{address}/24"] for host, address in HOSTS.items()})
    group = Group("239.192.77.6", 7777, "eth0")
    one: list[Member] = []
    other: list[Member] = []
    for me, (host, address) in enumerate(HOSTS.items()):
        with lab.on(host):
            one.append(Member(loop, me, 0xC1, group, address))
            other.append(Member(loop, me, 0xC2, group, address))
    open_all(one)
    open_all(other)
    send_round(one, "one")
    send_round(other, "other")
    run_until(loop, lambda: everything_arrived(one) and everything_arrived(other))

    for members, foreign in ((one, b"other"), (other, b"one")):
        for member in members:
            assert foreign not in b"".join(member.delivered)
            assert set(member.exchange.traffic.dropped) == {Drop.CLUSTER}
            assert member.failures == []
