"""Links over an emulated wide-area path."""

import time

import pytest
from tests.netns.lab import Lab
from tests.unit.daemon.waiting import run_until

from hopring.daemon.exchange import Exchange
from hopring.daemon.loop import Loop
from hopring.daemon.ports import HopPort, Outlet
from hopring.daemon.shaper import Shape
from hopring.daemon.udp import UdpEndpoint
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed, Submit
from hopring.links.hop import Hop
from hopring.wire.header import Family, Header
from hopring.wire.train import Train

pytestmark = [pytest.mark.netns, pytest.mark.slow]

A, B = ("a", "wan0", "10.78.0.1/30"), ("b", "wan0", "10.78.0.2/30")
OBJECT_BYTES = 300


class End:
    """One end of a Hop link on a host of the lab."""

    def __init__(self, lab: Lab, loop: Loop, host: str, address: str, me: int, peer: int) -> None:
        self.delivered: list[bytes] = []
        self.failures: list[str] = []
        self.link = Hop()
        self.exchange = Exchange(DaemonId(me), 0xC1)
        with lab.on(host):
            self.endpoint = UdpEndpoint(loop, (address, 7777), self.exchange.receive)
        own = Header(Family.HOP, 0xC1, DaemonId(me), Incarnation(me), Generation(1))
        peer_address = ("10.78.0.1" if peer == 1 else "10.78.0.2", 7777)
        self.port = HopPort(loop, self.link, own, Outlet(self.endpoint.send, peer_address), self.up)
        self.exchange.attach(self.port, Family.HOP, Generation(1), {DaemonId(peer): Incarnation(peer)})

    def up(self, effect: Deliver | LinkFailed) -> None:
        if isinstance(effect, Deliver):
            self.delivered.append(effect.payload)
        else:
            self.failures.append(effect.reason)


def test_the_emulator_delays_by_what_it_was_told(lab: Lab, loop: Loop) -> None:
    lab.host("a", "b")
    lab.wan(A, B, Shape(delay_us=30_000), Shape(delay_us=10_000))
    arrived_us: list[int] = []
    with lab.on("b"):
        echo = UdpEndpoint(loop, ("10.78.0.2", 7), lambda *_: arrived_us.append(loop.now_us()))
    with lab.on("a"):
        caller = UdpEndpoint(loop, ("10.78.0.1", 0), lambda *_: None)
    late_us: list[int] = []
    for number in range(20):
        start_us = loop.now_us()
        caller.send(Train(b"x", 1400), echo.address)
        run_until(loop, lambda number=number: len(arrived_us) > number)  # type: ignore[misc]
        late_us.append(arrived_us[-1] - start_us - 30_000)

    assert min(late_us) >= 0
    assert sorted(late_us)[10] < 5_000


def test_a_hop_link_delivers_5000_objects_once_with_30_ms_and_1_percent_loss(lab: Lab, loop: Loop) -> None:
    lab.host("a", "b")
    path = Shape(delay_us=30_000, loss=0.01)
    lab.wan(A, B, path, path)
    sender = End(lab, loop, "a", "10.78.0.1", 1, 2)
    receiver = End(lab, loop, "b", "10.78.0.2", 2, 1)
    start = time.monotonic()
    for number in range(5_000):
        sender.port.give(Submit(number.to_bytes(4, "big") + bytes(OBJECT_BYTES - 4)))
    wanted = 5_000 * OBJECT_BYTES
    run_until(loop, lambda: sum(map(len, receiver.delivered)) >= wanted, within_us=60_000_000)
    print(f"{time.monotonic() - start:.1f} s, {sender.link.counters}")

    joined = b"".join(receiver.delivered)
    numbers = [int.from_bytes(joined[at : at + 4], "big") for at in range(0, len(joined), OBJECT_BYTES)]
    assert sorted(numbers) == list(range(5_000))
    assert sender.failures == receiver.failures == []
    assert sender.link.counters.retransmissions > 0
