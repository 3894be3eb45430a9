from collections.abc import Iterator, Sequence
from random import Random

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.engines.host import LayerDriver
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import PendingStreams
from hopring.daemon.net.shaper import Shape, StreamShaper
from hopring.daemon.net.tcp import ByteStream, TcpConnection, TcpListener
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed, StreamWrite, Submit
from hopring.links.events import LinkInput as Input
from hopring.links.events import LinkOutput as Output
from hopring.links.tcp import Tcp
from hopring.wire.header import Family, Header


class End:
    """One end of a TCP link and the events of its layer above."""

    def __init__(self, loop: Loop, me: int, peer: int) -> None:
        self.loop = loop
        own = Header(Family.TCP, 0xC1, DaemonId(me), Incarnation(me), Generation(7))
        self.link = Tcp(own, DaemonId(peer))
        self.received = b""
        self.failures: list[str] = []

    def use(self, connection: ByteStream, shape: Shape | None = None) -> None:
        shaper = StreamShaper(self.loop, connection.write, shape, Random(1)) if shape else None
        self.connection = connection
        self.write = shaper.write if shaper else connection.write
        self.port: LayerDriver[Input, Output] = LayerDriver(self.loop, self.link, self.carry_out)
        connection.sink = self.port.give

    def carry_out(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case StreamWrite(data=data):
                    self.write(data)
                case Deliver(payload=payload):
                    self.received += payload
                case LinkFailed(reason=reason):
                    self.connection.close()
                    self.failures.append(reason)


class Pair:
    """A daemon that connects to another one, which has pending streams."""

    def __init__(self, loop: Loop) -> None:
        self.dialler = End(loop, 1, 2)
        self.acceptor = End(loop, 2, 1)
        self.pending = PendingStreams(loop, 0xC1, self.admit)
        self.listener = TcpListener(loop, ("127.0.0.1", 0), self.pending.welcome)

    def admit(self, header: Header, connection: ByteStream) -> bool:
        assert header.sender == 1
        self.acceptor.use(connection)
        return True


@pytest.fixture
def pair(loop: Loop) -> Iterator[Pair]:
    pair = Pair(loop)
    yield pair
    for end in (pair.dialler, pair.acceptor):
        if hasattr(end, "connection"):
            end.connection.close()
    pair.listener.close()


@pytest.mark.parametrize("shape", [None, Shape(delay_us=3_000, jitter_us=1_000)])
def test_a_tcp_link_carries_objects_both_ways(loop: Loop, pair: Pair, shape: Shape | None) -> None:
    one, other = pair.dialler, pair.acceptor
    one.use(TcpConnection.dial(loop, pair.listener.address), shape)
    objects = [bytes([number]) * 50_000 for number in range(100)]
    for payload in objects:
        one.port.give(Submit(payload))
    run_until(loop, lambda: len(other.received) == 5_000_000)
    other.port.give(Submit(b"thanks"))
    run_until(loop, lambda: one.received == b"thanks")

    assert other.received == b"".join(objects)
    assert one.link.backlog_bytes == 0
    assert one.failures == other.failures == []


def test_a_connection_that_ends_fails_both_links_once(loop: Loop, pair: Pair) -> None:
    one, other = pair.dialler, pair.acceptor
    one.use(TcpConnection.dial(loop, pair.listener.address))
    one.port.give(Submit(b"hello"))
    run_until(loop, lambda: other.received == b"hello")
    other.connection.close()
    run_until(loop, lambda: bool(one.failures))

    assert one.failures == ["closed by the other end"]


def test_a_refused_connection_fails_the_link(loop: Loop, pair: Pair) -> None:
    address = pair.listener.address
    pair.listener.close()
    one = pair.dialler
    one.use(TcpConnection.dial(loop, address))
    run_until(loop, lambda: bool(one.failures))

    assert one.failures == ["Connection refused"]
    pair.listener = TcpListener(loop, ("127.0.0.1", 0), pair.pending.welcome)
