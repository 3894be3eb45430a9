"""Members on real loopback sockets, all on one loop."""

import os

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.membership_hosts import members_of, two_sites
from tests.unit.daemon.waiting import run_until

from hopring.config import LinkProtocol, cluster_hash, local_config
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import CLEAR, CUT
from hopring.daemon.process.health_log import HealthLog
from hopring.errors import Drop
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.services import Service
from hopring.wire.data import Data
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.train import Frame, MembershipFrame, Train, encode

ORDERED = [service for service in Service if service is not Service.UNRELIABLE]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_members_find_each_other_and_deliver_the_same_in_the_same_order(
    loop: Loop, protocol: LinkProtocol
) -> None:
    with members_of(loop, two_sites(protocol)) as members:
        run_until(loop, lambda: all(one.size() == 4 for one in members.values()))
        for number in range(30):
            for name, one in members.items():
                body = b"%s %02d " % (name.encode(), number) * (number * 50)
                one.member.submit(Service.AGREED, body)
        run_until(loop, lambda: all(len(one.payloads()) == 120 for one in members.values()))

        first, *others = members.values()
        assert all(one.payloads() == first.payloads() for one in others)
        assert all(one.counters and one.counters[-1] > 5 for one in members.values())
        assert all(event.view.counter > 5 for event in first.got)


@pytest.mark.slow
def test_with_a_one_way_path_in_a_site_the_view_has_daemons_that_hear_each_other(loop: Loop) -> None:
    config = local_config({"eu": 3}, base_port=free_base_port(6))
    with members_of(loop, config) as members:
        run_until(loop, lambda: all(one.size() == 3 for one in members.values()))
        members["eu2"].member.sockets.shape("eu3", CUT)
        run_until(loop, lambda: [one.size() for one in members.values()] == [2, 2, 1])
        views = {name: one.installed() for name, one in members.items()}
        members["eu2"].member.sockets.shape("eu3", CLEAR)
        run_until(loop, lambda: all(one.size() == 3 for one in members.values()))

        assert all(one.installed() > views[name] for name, one in members.items())
        for one in members.values():
            one.member.submit(Service.SAFE, b"together")
        run_until(loop, lambda: all(len(one.payloads()) == 3 for one in members.values()))


@pytest.mark.slow
def test_the_layer_above_may_submit_inside_its_callback(loop: Loop) -> None:
    config = two_sites()
    with members_of(loop, config) as members:
        members["eu1"].answering = True
        run_until(loop, lambda: all(one.size() == 4 for one in members.values()))
        for number, service in enumerate(ORDERED * 5):
            members["us2"].member.submit(service, b"ping %02d" % number)
        run_until(loop, lambda: all(len(one.payloads()) == 50 for one in members.values()))


@pytest.mark.slow
def test_invalid_membership_messages_are_counted_and_reported_with_a_remedy(loop: Loop) -> None:
    config = two_sites()
    reading, writing = os.pipe()
    names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
    with members_of(loop, config) as members:
        eu1 = members["eu1"].member
        report = HealthLog(loop, DaemonLog("eu1", writing), names)
        report.watch(eu1)
        run_until(loop, lambda: all(one.size() == 4 for one in members.values()))
        send = members["us2"].member.sockets.datagrams.endpoint.send

        def say(cluster: int, family: Family, frame: Frame) -> None:
            head = encode_header(Header(family, cluster, DaemonId(3), Incarnation(1_003), Generation(0)))
            (train,) = encode(head, (frame,), 1400)
            send(Train(train.buffer, 1400), eu1.sockets.datagrams.endpoint.address)

        ours = cluster_hash(config)
        say(ours, Family.MEMBERSHIP, MembershipFrame(b"\xc1 no word"))
        say(ours ^ 1, Family.MEMBERSHIP, MembershipFrame(b"\xc1"))
        say(ours, Family.MEMBERSHIP, Data(1, b"not here"))
        dropped = eu1.sockets.datagrams.traffic.dropped
        run_until(loop, lambda: eu1.membership.drops[Drop.INCONSISTENT] == 1 and dropped[Drop.CLUSTER] == 1)
        report.check_counters()
        report.check_counters()

    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    assert len([line for line in lines if "dropped reason=cluster count=1 remedy=" in line]) == 1
    assert len([line for line in lines if "dropped reason=inconsistent count=1" in line]) == 1
