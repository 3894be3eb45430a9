"""Frames for the site and for one of its members share datagrams, and all of them arrive in order."""

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, cluster_hash, local_config
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.datagrams import Datagrams
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.links.ring.options import RingOptions
from hopring.links.ring.token import first_token
from hopring.stack_events import Identity, SendSite, SendTo
from hopring.wire.data import Data
from hopring.wire.header import Family
from hopring.wire.ring import Hurry
from hopring.wire.train import Frame, Packet

ONE, TWO, THREE = DaemonId(0), DaemonId(1), DaemonId(2)
TOKEN = first_token(0)


class Site:
    """Three daemons of one site, of which the first sends."""

    def __init__(self, loop: Loop) -> None:
        config = local_config({"eu": 3}, base_port=free_base_port(9))
        self.loop = loop
        self.heard: dict[DaemonId, list[tuple[Frame, ...]]] = {TWO: [], THREE: []}
        self.one = self._open(config, ONE, [])
        self.others = [self._open(config, me, self.heard[me]) for me in (TWO, THREE)]
        own = Identity(ONE, Incarnation(1), cluster_hash(config), Generation(5))
        self.one.begin(own, (ONE, TWO, THREE))

    def _open(self, config: Config, me: DaemonId, heard: list[tuple[Frame, ...]]) -> Datagrams:
        def take(packet: Packet) -> None:
            heard.append(packet.frames)

        size = RingOptions().segment_bytes
        return Datagrams(self.loop, config, Process(me, Incarnation(1)), size, take)

    def frames(self, me: DaemonId) -> list[Frame]:
        return [frame for frames in self.heard[me] for frame in frames]

    def close(self) -> None:
        for one in (self.one, *self.others):
            one.close()


def to(member: DaemonId, *frames: Frame, family: Family = Family.RING) -> SendTo:
    return SendTo(member, family, frames)


def test_the_token_goes_in_the_datagram_of_the_packet_before_it(loop: Loop) -> None:
    site = Site(loop)
    site.one.send([SendSite((Data(1, b"one"),)), to(TWO, TOKEN)])
    run_until(loop, lambda: bool(site.heard[TWO] and site.heard[THREE]))
    site.close()

    assert site.heard[TWO] == [(Data(1, b"one"),), (TOKEN,)], "the token came before the packet"
    assert site.heard[THREE] == [(Data(1, b"one"),)]
    assert site.one.endpoint.traffic.datagrams_sent == 2


@pytest.mark.parametrize("size", [1_300, 1_400, 20_000])
def test_the_token_has_its_own_datagram_after_a_packet_that_leaves_no_space(loop: Loop, size: int) -> None:
    site = Site(loop)
    packet = Data(1, bytes(size))
    site.one.send([SendSite((packet,)), to(THREE, TOKEN)])
    run_until(loop, lambda: TOKEN in site.frames(THREE) and len(site.heard[TWO]) >= 1)
    site.close()

    assert site.frames(THREE) == [packet, TOKEN]
    assert site.frames(TWO) == [packet]


def test_frames_arrive_in_order_in_any_sequence(loop: Loop) -> None:
    site = Site(loop)
    first, second, third = (Data(seq, b"%d" % seq) for seq in (1, 2, 3))
    site.one.send([to(TWO, Hurry()), SendSite((first,)), SendSite((second,)), to(TWO, TOKEN)])
    site.one.send([to(THREE, Hurry()), SendSite((third,))])
    run_until(loop, lambda: third in site.frames(TWO) and third in site.frames(THREE))
    site.close()

    assert site.frames(TWO) == [Hurry(), first, second, TOKEN, third]
    assert site.frames(THREE) == [first, second, Hurry(), third]


def test_a_cut_off_daemon_gets_neither(loop: Loop) -> None:
    site = Site(loop)
    site.one.cut([TWO])
    site.one.send([SendSite((Data(1, b"one"),)), to(TWO, TOKEN)])
    run_until(loop, lambda: bool(site.heard[THREE]))
    site.close()

    assert site.heard[TWO] == []
