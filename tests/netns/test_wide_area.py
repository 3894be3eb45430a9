"""Links over an emulated wide-area path."""

import time

import pytest
from tests.netns.namespace_lab import Lab
from tests.unit.daemon.node import Node
from tests.unit.daemon.waiting import run_until

from hopring.config import Config, Daemon, LinkProtocol, Site
from hopring.config.model import LinkConfig
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import UdpEndpoint
from hopring.ids import DaemonId, Generation, Incarnation, SiteMask
from hopring.routing.network import NetworkFailed
from hopring.stack_events import Receive
from hopring.wire.train import Train

pytestmark = [pytest.mark.netns, pytest.mark.slow]

A, B = ("a", "wan0", "10.78.0.1/30"), ("b", "wan0", "10.78.0.2/30")
BUNDLE_BYTES = 300


SITES = (Site("a", (Daemon("a", "10.78.0.1"),)), Site("b", (Daemon("b", "10.78.0.2"),)))
CONFIG = Config("wide", SITES)
TCP_CONFIG = Config("wide", SITES, (LinkConfig(("a", "b"), 1, LinkProtocol.TCP),))


class End:
    """A daemon on a host of the lab, alone in its site."""

    def __init__(self, lab: Lab, loop: Loop, host: str, config: Config = CONFIG) -> None:
        self.received: list[bytes] = []
        self.failures: list[str] = []
        with lab.on(host):
            self.node = Node(loop, config, host, Incarnation(1), self.up)
            self.node.start(Generation(1), {DaemonId(0): None, DaemonId(1): None})

    def up(self, event: Receive | NetworkFailed) -> None:
        if isinstance(event, NetworkFailed):
            self.failures.append(event.reason)
        elif event.bundle is not None:
            self.received.append(bytes(event.bundle))

    def retransmissions(self) -> int:
        assert self.node.stack is not None
        return sum(link.retransmissions for link in self.node.stack.counters().values())


def test_the_emulator_adds_the_requested_delay(lab: Lab, loop: Loop) -> None:
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

    # On a busy machine some are later, but none is sooner.
    assert 0 <= min(late_us) < 5_000


def test_a_hop_link_delivers_5000_bundles_once_with_30_ms_and_1_percent_loss(lab: Lab, loop: Loop) -> None:
    lab.host("a", "b")
    path = Shape(delay_us=30_000, loss=0.01)
    lab.wan(A, B, path, path)
    sender, receiver = End(lab, loop, "a"), End(lab, loop, "b")
    start = time.monotonic()
    for number in range(5_000):
        sender.node.multicast(SiteMask(0b10), number.to_bytes(4, "big") + bytes(BUNDLE_BYTES - 4))
    run_until(loop, lambda: len(receiver.received) >= 5_000, within_us=60_000_000)
    print(f"{time.monotonic() - start:.1f} s, {sender.retransmissions()} retransmissions")

    numbers = [int.from_bytes(bundle[:4], "big") for bundle in receiver.received]
    assert sorted(numbers) == list(range(5_000))
    assert sender.failures == receiver.failures == []
    assert sender.retransmissions() > 0
    sender.node.close()
    receiver.node.close()


@pytest.mark.long
def test_a_tcp_link_on_a_slow_line_with_a_long_queue_does_not_fail(lab: Lab, loop: Loop) -> None:
    """The kernel's TCP: a lost segment is repeated behind a queue of seconds."""
    lab.host("a", "b")
    path = Shape(delay_us=30_000)
    wan = lab.wan(A, B, path, path)
    receiver, sender = End(lab, loop, "b", TCP_CONFIG), End(lab, loop, "a", TCP_CONFIG)
    sender.node.multicast(SiteMask(0b10), bytes(4))
    run_until(loop, lambda: len(receiver.received) == 1, within_us=10_000_000)
    thin = Shape(delay_us=30_000, loss=0.03, rate_bits_per_second=128_000, queue_bytes_max=128 * 1024)
    wan.shape(thin, path)
    for number in range(1, 250):
        sender.node.multicast(SiteMask(0b10), number.to_bytes(4, "big") + bytes(1_020))
    run_until(
        loop,
        lambda: len(receiver.received) == 250 or bool(sender.failures or receiver.failures),
        within_us=60_000_000,
    )

    assert sender.failures == receiver.failures == []
    assert [int.from_bytes(bundle[:4], "big") for bundle in receiver.received] == list(range(250))
    sender.node.close()
    receiver.node.close()
