import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import PENDING_MAX, PendingStreams
from hopring.daemon.net.tcp import ByteStream, ConnectionEvent, TcpConnection, TcpListener
from hopring.daemon.net.udp import Address
from hopring.errors import Drop
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import StreamClosed, StreamObserved, StreamOpened, StreamReceived, StreamWritten
from hopring.wire.header import Family, Header
from hopring.wire.stream import encode_greeting

GREETING = Header(Family.TCP, 0xC1, DaemonId(2), Incarnation(22), Generation(7))


class End:
    """One end of a connection and its events."""

    def __init__(self, connection: ByteStream) -> None:
        self.connection = connection
        self.log: list[ConnectionEvent] = []
        connection.sink = self.log.append

    @property
    def received(self) -> bytes:
        return b"".join(happening.chunk for happening in self.log if isinstance(happening, StreamReceived))

    @property
    def written_bytes(self) -> int:
        return sum(happening.count_bytes for happening in self.log if isinstance(happening, StreamWritten))

    @property
    def closed(self) -> bool:
        return bool(self.log) and isinstance(self.log[-1], StreamClosed)


@contextmanager
def connected(loop: Loop, host: str = "127.0.0.1") -> Iterator[tuple[End, End]]:
    accepted: list[End] = []
    listener = TcpListener(loop, (host, 0), lambda connection, _address: accepted.append(End(connection)))
    dialled = End(TcpConnection.dial(loop, listener.address))
    run_until(loop, lambda: bool(accepted) and StreamOpened() in dialled.log)
    yield dialled, accepted[0]
    dialled.connection.close()
    accepted[0].connection.close()
    listener.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_go_both_ways(loop: Loop, host: str) -> None:
    with connected(loop, host) as (one, other):
        one.connection.write(b"hello ")
        one.connection.write(b"there")
        other.connection.write(b"hi")
        run_until(loop, lambda: other.received == b"hello there" and one.received == b"hi")

        assert one.log[0] == StreamOpened()
        assert StreamWritten(11) in one.log  # Both writes left in one call.


def test_a_large_write_passes_a_small_pipe_piece_by_piece(loop: Loop) -> None:
    with connected(loop) as (one, other):
        pieces = [bytes([number]) * 100_000 for number in range(200)]
        for piece in pieces:
            one.connection.write(piece)
        run_until(loop, lambda: len(other.received) == 20_000_000)

        assert other.received == b"".join(pieces)
        assert one.written_bytes == 20_000_000
        assert one.connection.out_bytes == 0


def test_the_kernel_tells_how_many_data_segments_came(loop: Loop) -> None:
    with connected(loop) as (one, other):
        for count in (1, 2, 3):
            one.connection.write(b"x")
            run_until(loop, lambda count=count: len(other.received) == count)  # type: ignore[misc]
            other.connection.observe()

        observed = [happening for happening in other.log if isinstance(happening, StreamObserved)]
        assert [one.data_segments for one in observed] == [1, 2, 3]
        assert all(0 < one.round_trip_us < 1_000_000 for one in observed)


def test_a_connection_that_is_paused_or_closed_is_not_observed(loop: Loop) -> None:
    with connected(loop) as (one, other):
        one.connection.pause(True)
        one.connection.observe()
        other.connection.close()
        other.connection.observe()

        assert not [happening for happening in one.log + other.log if isinstance(happening, StreamObserved)]


def test_a_refused_connection_is_closed_with_the_reason(loop: Loop) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        end = End(TcpConnection.dial(loop, bound.getsockname()))
        run_until(loop, lambda: end.closed)

    assert end.log == [StreamClosed("Connection refused")]


def test_an_address_without_a_route_is_closed_not_raised(loop: Loop) -> None:
    end = End(TcpConnection.dial(loop, ("255.255.255.255", 9)))
    assert end.log == []
    run_until(loop, lambda: end.closed)

    assert len(end.log) == 1


def test_connecting_to_a_silent_address_times_out(loop: Loop) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [stack.enter_context(socket.socket()) for _ in range(4)]
        for filler in fillers:  # A full backlog drops further SYNs silently.
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        end = End(TcpConnection.dial(loop, listener.getsockname(), timeout_us=20_000))
        run_until(loop, lambda: end.closed)

    assert end.log == [StreamClosed("no answer in time")]


def test_what_is_written_before_the_connection_stands_is_sent_after(loop: Loop) -> None:
    accepted: list[End] = []
    listener = TcpListener(loop, ("127.0.0.1", 0), lambda connection, _: accepted.append(End(connection)))
    dialled = End(TcpConnection.dial(loop, listener.address))
    dialled.connection.write(b"early")
    run_until(loop, lambda: bool(accepted) and accepted[0].received == b"early")

    for end in (dialled, *accepted):
        end.connection.close()
    listener.close()


def test_the_other_end_learns_of_a_close_once(loop: Loop) -> None:
    with connected(loop) as (one, other):
        one.connection.close()
        run_until(loop, lambda: other.closed)
        other.connection.write(b"into the void")
        fence = loop.alarm(lambda: None)
        fence.set(loop.now_us() + 1_000)
        loop.turn()

        assert other.log == [StreamClosed("closed by the other end")]
        assert not one.closed


def test_a_reset_is_a_close(loop: Loop) -> None:
    accepted: list[End] = []
    listener = TcpListener(loop, ("127.0.0.1", 0), lambda connection, _: accepted.append(End(connection)))
    with socket.create_connection(listener.address[:2]) as rude:
        run_until(loop, lambda: bool(accepted))
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    run_until(loop, lambda: accepted[0].closed)

    assert accepted[0].log == [StreamClosed("Connection reset by peer")]
    listener.close()


class GreetedStreams:
    """A listener with pending streams, and the connections that were admitted."""

    def __init__(self, loop: Loop) -> None:
        self.admitted: list[tuple[Header, End]] = []
        self.pending = PendingStreams(loop, 0xC1, self.admit)
        self.listener = TcpListener(loop, ("127.0.0.1", 0), self.pending.welcome)

    def admit(self, header: Header, connection: ByteStream) -> bool:
        if header.sender != 2:
            return False
        self.admitted.append((header, End(connection)))
        return True

    @property
    def address(self) -> Address:
        return self.listener.address

    def close(self) -> None:
        self.listener.close()
        self.pending.close()
        for _, end in self.admitted:
            end.connection.close()


@pytest.fixture
def greeted(loop: Loop) -> Iterator[GreetedStreams]:
    greeted = GreetedStreams(loop)
    yield greeted
    greeted.close()


def test_a_greeted_connection_is_handed_over_with_all_its_bytes(loop: Loop, greeted: GreetedStreams) -> None:
    hello = encode_greeting(GREETING) + b"and more"
    with socket.create_connection(greeted.address[:2]) as guest:
        guest.sendall(hello[:5])
        fence = loop.alarm(lambda: guest.sendall(hello[5:]))
        fence.set(loop.now_us() + 2_000)
        run_until(loop, lambda: bool(greeted.admitted))

        header, end = greeted.admitted[0]
        assert header == GREETING
        assert end.log[0] == StreamOpened()
        assert end.received == hello


def test_strangers_and_invalid_greetings_are_closed(loop: Loop, greeted: GreetedStreams) -> None:
    stranger = encode_greeting(Header(Family.TCP, 0xC1, DaemonId(9), Incarnation(1), Generation(7)))
    foreigner = encode_greeting(Header(Family.TCP, 0xC2, DaemonId(2), Incarnation(1), Generation(7)))
    guests = [socket.create_connection(greeted.address[:2]) for _ in range(3)]
    for guest, words in zip(
        guests, (stranger, foreigner, b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"), strict=True
    ):
        guest.sendall(words)
    dropped = greeted.pending.traffic.dropped
    run_until(loop, lambda: dropped.total() == 3)

    assert dropped == {Drop.FOREIGN_SENDER: 1, Drop.CLUSTER: 1, Drop.MAGIC: 1}
    assert greeted.admitted == []
    for guest in guests:
        assert guest.recv(1) == b""
        guest.close()


def test_silent_connections_do_not_block_others(loop: Loop, greeted: GreetedStreams) -> None:
    silent = [socket.create_connection(greeted.address[:2]) for _ in range(PENDING_MAX + 3)]
    with socket.create_connection(greeted.address[:2]) as guest:
        guest.sendall(encode_greeting(GREETING))
        run_until(loop, lambda: bool(greeted.admitted))

    assert greeted.pending.traffic.dropped[Drop.LIMIT] >= 3
    for one in silent:
        one.close()
