import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.multicast import MulticastGroup
from hopring.daemon.net.udp import Address, UdpEndpoint, UdpOptions, Unsent, open_group
from hopring.errors import Drop
from hopring.wire.train import Train

LOOPBACKS = ["127.0.0.1", "::1"]


class Inbox:
    """Keeps received datagrams and the number of reads."""

    def __init__(self) -> None:
        self.datagrams: list[bytes] = []
        self.reads = 0
        self.sender: Address = ("", 0)

    def __call__(self, buffer: memoryview, segment_bytes: int, sender: Address) -> None:
        self.datagrams += Train(bytes(buffer), segment_bytes).datagrams()
        self.reads += 1
        self.sender = sender


@contextmanager
def endpoint(
    loop: Loop,
    at: Address | MulticastGroup,
    receive: Callable[[memoryview, int, Address], None],
    trains: bool = True,
) -> Iterator[UdpEndpoint]:
    opened = UdpEndpoint(loop, at, receive, UdpOptions(trains=trains))
    yield opened
    opened.close()


def train_of(count: int, size: int, last: int) -> Train:
    full = [bytes([index]) * size for index in range(count - 1)]
    return Train(b"".join(full) + b"!" * last, size)


@pytest.mark.parametrize("host", LOOPBACKS)
@pytest.mark.parametrize("trains", [True, False])
def test_a_train_arrives_as_its_datagrams(loop: Loop, host: str, trains: bool) -> None:
    inbox = Inbox()
    train = train_of(count=40, size=1400, last=77)
    with endpoint(loop, (host, 0), inbox) as receiver, endpoint(loop, (host, 0), inbox, trains) as sender:
        sender.send(train, receiver.address)
        run_until(loop, lambda: len(inbox.datagrams) == 40)

        assert inbox.datagrams == train.datagrams()
        assert inbox.sender == sender.address
        assert sender.traffic.datagrams_sent == receiver.traffic.datagrams_received == 40
        assert sender.traffic.bytes_sent == receiver.traffic.bytes_received == 39 * 1400 + 77
        assert sender.traffic.trains_sent == (1 if sender.trains else 40)


def test_a_train_crosses_in_one_read_where_the_kernel_joins(loop: Loop) -> None:
    inbox = Inbox()
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver:
        if not receiver.trains:
            pytest.skip("this kernel has no UDP_SEGMENT")
        receiver.send(train_of(count=40, size=1400, last=1400), receiver.address)
        run_until(loop, lambda: bool(inbox.datagrams))

    assert inbox.reads == 1


def test_more_datagrams_than_the_kernel_cuts_at_once_all_arrive_in_order(loop: Loop) -> None:
    inbox = Inbox()
    train = train_of(count=200, size=100, last=9)
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver:
        receiver.send(train, receiver.address)
        run_until(loop, lambda: len(inbox.datagrams) == 200)

    assert inbox.datagrams == train.datagrams()


def test_a_datagram_too_long_for_any_network_is_counted_and_the_next_one_goes(loop: Loop) -> None:
    inbox = Inbox()
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver:
        receiver.send(Train(bytes(70_000), 70_000), receiver.address)
        receiver.send(Train(b"next", 1400), receiver.address)
        run_until(loop, lambda: bool(inbox.datagrams))

        assert inbox.datagrams == [b"next"]
        assert receiver.traffic.unsent == {Unsent.TOO_LONG: 1}


def test_datagrams_too_large_to_travel_together_go_one_by_one(loop: Loop) -> None:
    inbox = Inbox()
    size = 65_000
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver:
        receiver.send(Train(bytes(size) + b"tail", size), receiver.address)
        run_until(loop, lambda: len(inbox.datagrams) == 2)

    assert [len(datagram) for datagram in inbox.datagrams] == [size, 4]


def test_an_unreachable_address_is_counted(loop: Loop) -> None:
    with endpoint(loop, ("127.0.0.1", 0), Inbox()) as sender:
        sender.send(train_of(count=3, size=1000, last=10), ("192.0.2.1", 9))

        assert sender.traffic.unsent.total() == 3


def test_empty_datagrams_are_dropped_and_counted(loop: Loop) -> None:
    inbox = Inbox()
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver, socket.socket(type=socket.SOCK_DGRAM) as plain:
        plain.sendto(b"", receiver.address)
        plain.sendto(b"full", receiver.address)
        run_until(loop, lambda: bool(inbox.datagrams))

        assert inbox.datagrams == [b"full"]
        assert receiver.traffic.dropped == {Drop.TRUNCATED: 1}


def test_the_granted_buffer_sizes_are_reported(loop: Loop) -> None:
    with endpoint(loop, ("127.0.0.1", 0), Inbox()) as opened:
        assert opened.receive_buffer_bytes >= 200_000
        assert opened.send_buffer_bytes >= 200_000


def test_every_listener_of_a_group_gets_its_copy_of_a_train(loop: Loop) -> None:
    group = MulticastGroup("239.192.77.1", port_of(loop), "lo")
    mine, other = Inbox(), Inbox()
    train = train_of(count=20, size=1400, last=300)
    with endpoint(loop, group, mine) as sender, endpoint(loop, group, other):
        sender.send(train, group.address)
        run_until(loop, lambda: len(mine.datagrams) == len(other.datagrams) == 20)

    assert mine.datagrams == other.datagrams == train.datagrams()


def test_a_listener_hears_its_own_group_only(loop: Loop) -> None:
    port = port_of(loop)
    here, there = MulticastGroup("239.192.77.2", port, "lo"), MulticastGroup("239.192.77.3", port, "lo")
    inbox, noise = Inbox(), Inbox()
    with endpoint(loop, here, inbox) as listener, endpoint(loop, there, noise) as other:
        other.send(Train(b"noise", 1400), there.address)
        listener.send(Train(b"mine", 1400), here.address)
        run_until(loop, lambda: bool(inbox.datagrams and noise.datagrams))

    assert inbox.datagrams == [b"mine"]


def port_of(loop: Loop) -> int:
    """A port that is not in use now."""
    with endpoint(loop, ("127.0.0.1", 0), Inbox()) as opened:
        return opened.address[1]


def test_received_datagrams_are_read_before_a_due_alarm_fires(loop: Loop) -> None:
    inbox, read_before = Inbox(), list[int]()
    alarm = loop.alarm(lambda: read_before.append(inbox.reads))
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver, endpoint(loop, ("127.0.0.1", 0), inbox) as sender:
        for word in (b"one", b"two", b"three"):
            sender.send(Train(word, 1400), receiver.address)
        alarm.set(loop.now_us() - 1)  # As after a pause of this host.
        run_until(loop, lambda: bool(read_before))

    assert read_before == [3]


def test_a_short_datagram_ends_the_reading_of_a_turn(loop: Loop) -> None:
    inbox = Inbox()
    with endpoint(loop, ("127.0.0.1", 0), inbox) as receiver, endpoint(loop, ("127.0.0.1", 0), inbox) as sender:
        for word in (b"one", b"two"):
            sender.send(Train(word, 1400), receiver.address)
        loop.turn()
        assert inbox.datagrams == [b"one"]
        run_until(loop, lambda: inbox.reads == 2)


@pytest.mark.parametrize(
    ("host", "level", "option"),
    [
        ("239.255.77.3", socket.IPPROTO_IP, socket.IP_MULTICAST_TTL),
        ("ff15::77:3", socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS),
    ],
)
def test_a_group_has_the_ttl_that_is_asked_for(host: str, level: int, option: int) -> None:
    for ttl in (1, 7):
        with open_group(MulticastGroup(host, free_base_port(1), "lo", ttl)) as sock:
            assert sock.getsockopt(level, option) == ttl
