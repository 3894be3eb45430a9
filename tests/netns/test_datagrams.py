"""Trains and multicast between hosts, over cables that carry single packets."""

import pytest
from tests.netns.namespace_lab import Lab
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.multicast import MulticastGroup
from hopring.daemon.net.udp import Address, UdpEndpoint, UdpOptions, Unsent
from hopring.wire.train import Train

pytestmark = [pytest.mark.netns, pytest.mark.slow]

SITE = {
    "a": ["10.77.0.1/24", "fd77::1/64"],
    "b": ["10.77.0.2/24", "fd77::2/64"],
    "c": ["10.77.0.3/24", "fd77::3/64"],
}


class Inbox:
    """Keeps the datagrams that were received."""

    def __init__(self) -> None:
        self.datagrams: list[bytes] = []

    def __call__(self, buffer: memoryview, segment_bytes: int, _sender: Address) -> None:
        self.datagrams += Train(bytes(buffer), segment_bytes).datagrams()


def site(lab: Lab) -> None:
    lab.host(*SITE)
    lab.switch("sw", SITE)


@pytest.mark.parametrize(("a", "b"), [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")])
@pytest.mark.parametrize("trains", [True, False])
def test_a_train_crosses_a_switch(lab: Lab, loop: Loop, a: str, b: str, trains: bool) -> None:
    site(lab)
    inbox = Inbox()
    with lab.on("a"):
        sender = UdpEndpoint(loop, (a, 0), Inbox(), UdpOptions(trains=trains))
    with lab.on("b"):
        receiver = UdpEndpoint(loop, (b, 0), inbox)
    train = Train(b"".join(bytes([number]) * 1400 for number in range(45)) + b"end", 1400)
    sender.send(train, receiver.address)
    run_until(loop, lambda: len(inbox.datagrams) == 46)

    assert inbox.datagrams == train.datagrams()
    assert sender.traffic.trains_sent == (1 if sender.trains else 46)
    assert sender.traffic.unsent == {}


@pytest.mark.parametrize("host", ["239.192.77.9", "ff02::77:9"])
def test_a_train_to_a_group_reaches_every_host_and_its_sender(lab: Lab, loop: Loop, host: str) -> None:
    site(lab)
    group = MulticastGroup(host, 7777, "eth0")
    inboxes = [Inbox() for _ in SITE]
    endpoints = []
    for name, inbox in zip(SITE, inboxes, strict=True):
        with lab.on(name):
            endpoints.append(UdpEndpoint(loop, group, inbox))
    with lab.on("a"):
        address = group.address
    train = Train(b"".join(bytes([number]) * 1400 for number in range(30)) + b"end", 1400)
    endpoints[0].send(train, address)
    run_until(loop, lambda: all(len(inbox.datagrams) == 31 for inbox in inboxes))

    assert all(inbox.datagrams == train.datagrams() for inbox in inboxes)


def test_datagrams_above_the_mtu_are_sent_without_segmentation_offload_and_arrive(lab: Lab, loop: Loop) -> None:
    lab.host("a", "b")
    lab.cable(("a", "eth0", "10.77.0.1/24"), ("b", "eth0", "10.77.0.2/24"), mtu=1300)
    inbox = Inbox()
    with lab.on("a"):
        sender = UdpEndpoint(loop, ("10.77.0.1", 0), Inbox())
    with lab.on("b"):
        receiver = UdpEndpoint(loop, ("10.77.0.2", 0), inbox)
    train = Train(b"".join(bytes([number]) * 1400 for number in range(10)), 1400)
    for _ in range(2):
        sender.send(train, receiver.address)
    run_until(loop, lambda: len(inbox.datagrams) == 20)

    assert inbox.datagrams == 2 * train.datagrams()
    assert sender.traffic.trains_sent == 20
    assert sender.traffic.unsent == {}


def test_datagrams_for_a_slow_device_wait_up_to_the_limit(lab: Lab, loop: Loop) -> None:
    lab.host("a", "b")
    lab.cable(("a", "eth0", "10.77.0.1/24"), ("b", "eth0", "10.77.0.2/24"))
    lab.limit("a", "eth0", rate_bits_per_second=8_000_000, queue_bytes=1_000_000)
    inbox = Inbox()
    with lab.on("a"):
        options = UdpOptions(buffer_bytes=20_000, queue_bytes_max=40_000)
        sender = UdpEndpoint(loop, ("10.77.0.1", 0), Inbox(), options)
    with lab.on("b"):
        receiver = UdpEndpoint(loop, ("10.77.0.2", 0), inbox)
    datagrams = [bytes([number]) * 1400 for number in range(100)]
    for datagram in datagrams:
        sender.send(Train(datagram, 1400), receiver.address)
    refused = sender.traffic.unsent[Unsent.QUEUE_FULL]
    run_until(loop, lambda: len(inbox.datagrams) + refused == 100)
    sender.send(Train(b"later", 1400), receiver.address)
    run_until(loop, lambda: inbox.datagrams[-1] == b"later")

    assert 20 < refused < 80
    assert inbox.datagrams[:-1] == datagrams[: 100 - refused]
