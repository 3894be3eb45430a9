"""UDP sockets: a train is sent in one system call, and received with one read.

With UDP_SEGMENT the kernel cuts a train into its datagrams, with UDP_GRO it joins those that arrive together.
If it does not support that, or a device refuses, the same datagrams are sent one by one; receivers see no
difference. Constants of the kernel that Python does not name are defined here.
"""

import contextlib
import errno
import socket
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from struct import Struct
from typing import Final

from hopring.daemon.loop.event_loop import BROKEN, READABLE, WRITABLE, Loop
from hopring.daemon.net.multicast import MulticastGroup, enable_sending, join
from hopring.errors import Drop
from hopring.ids import NEVER
from hopring.system.kernel import kernel
from hopring.wire.train import Train

Address = tuple[str, int] | tuple[str, int, int, int]
"""A numeric host and a port; IPv6 may add flow and scope."""

Send = Callable[[Train, Address], None]
"""The `send` of an endpoint, or of a shaper before it."""

_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103
_UDP_GRO: Final = 104
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_SEGMENT_SIZE: Final = Struct("=H")
_GRO_SIZE: Final = Struct("=i")
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_GRO_SIZE.size)
"""The size of the control message that `joined_size` reads."""


def open_unicast(address: Address) -> socket.socket:
    """Opens a socket bound to an address of this host; one for IPv6 receives no IPv4."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = kernel().socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(address)
    return sock


def open_group(group: MulticastGroup) -> socket.socket:
    """Opens a socket that receives the packets of one group, and may send to it."""
    sock = kernel().socket(group.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    # Other daemons, of any cluster, may listen too. Each of them gets a copy of a packet to the group.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(group.address)
    join(sock, group)
    enable_sending(sock, group)
    return sock


def ask_buffers(sock: socket.socket, size: int) -> tuple[int, int]:
    """Asks for send and receive buffers; returns the sizes that the kernel grants, by its own accounting."""
    return (
        _ask(sock, _SO_SNDBUFFORCE, socket.SO_SNDBUF, size),
        _ask(sock, _SO_RCVBUFFORCE, socket.SO_RCVBUF, size),
    )


def _ask(sock: socket.socket, force: int, option: int, size: int) -> int:
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:  # Only root may pass the system's limit.
        sock.setsockopt(socket.SOL_SOCKET, option, size)
    return sock.getsockopt(socket.SOL_SOCKET, option)


def ask_for_trains(sock: socket.socket) -> bool:
    """Enables joined reads (Linux 5.0) if possible; returns whether the kernel cuts trains (4.18)."""
    with contextlib.suppress(OSError):
        sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    try:
        sock.getsockopt(_SOL_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def cut_into(segment_bytes: int) -> list[tuple[int, int, bytes]]:
    """The control message that lets the kernel cut a train."""
    return [(_SOL_UDP, _UDP_SEGMENT, _SEGMENT_SIZE.pack(segment_bytes))]


def joined_size(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The size of the datagrams that the kernel joined, or 0 if it joined none."""
    for level, kind, body in ancillary:
        if level == _SOL_UDP and kind == _UDP_GRO:
            size: int = _GRO_SIZE.unpack_from(body)[0]
            return size
    return 0


class Unsent(StrEnum):
    """Reasons why a datagram was not sent; for the links all of them are loss."""

    QUEUE_FULL = "queue_full"
    UNREACHABLE = "unreachable"
    TOO_LONG = "too_long"
    REFUSED = "refused"


@dataclass(slots=True)
class SocketCounters:
    """Counters since the start. The datagrams of one system call are a train, even if there is only one."""

    trains_sent: int = 0
    datagrams_sent: int = 0
    bytes_sent: int = 0
    trains_received: int = 0
    datagrams_received: int = 0
    bytes_received: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)  # Arrived, and refused.
    unsent: Counter[Unsent] = field(default_factory=Counter)

    def add(self, other: "SocketCounters") -> None:
        """Adds the counters of another endpoint."""
        self.trains_sent += other.trains_sent
        self.datagrams_sent += other.datagrams_sent
        self.bytes_sent += other.bytes_sent
        self.trains_received += other.trains_received
        self.datagrams_received += other.datagrams_received
        self.bytes_received += other.bytes_received
        self.dropped += other.dropped
        self.unsent += other.unsent


Receive = Callable[[memoryview, int, Address], None]
"""Called with a buffer of datagrams, end to end, their size, and their sender; only the last may be shorter.

The buffer is used again as soon as the call returns."""

BUFFER_BYTES: Final = 8 << 20
"""The socket buffer asked for in each direction; the kernel may grant less."""

QUEUE_BYTES_MAX: Final = 4 << 20
"""Limit of the bytes that are queued while the kernel accepts no more."""

READS_MAX: Final = 64
"""Limit of reads in one turn, so that a flood does not starve the other sockets and the alarms."""

SHORT_BYTES: Final = 1024
"""After a shorter datagram no more are read in this turn: a read of an empty socket raises an exception, which
costs more than a read. If there are more, the loop does not sleep before it has read them."""

DRAIN_READS_MAX: Final = 1024
PLAIN_PEERS_MAX: Final = 4096
RETRY_DELAY_US: Final = 1_000

_TRUNCATED: Final = int(socket.MSG_TRUNC)  # An int: the enumeration would make an object for each test.
_CUT_DATAGRAMS_MAX: Final = 64  # The kernel's UDP_MAX_SEGMENTS before 6.9; later ones allow more.
_CUT_BYTES_MAX: Final = 65_000
_DATAGRAM_BYTES_MAX: Final = 1 << 16

# A device without checksum offload, a path of smaller MTU, or a kernel that no longer supports it.
_CUT_REFUSED: Final = frozenset({errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP})
_UNSENT: Final = {
    errno.EMSGSIZE: Unsent.TOO_LONG,
    errno.ENETUNREACH: Unsent.UNREACHABLE,
    errno.EHOSTUNREACH: Unsent.UNREACHABLE,
    errno.ENETDOWN: Unsent.UNREACHABLE,
}


@dataclass(frozen=True, slots=True)
class UdpOptions:
    """Options of an endpoint that a deployment may want to change."""

    trains: bool = True  # False sends and receives datagram by datagram.
    buffer_bytes: int = BUFFER_BYTES
    queue_bytes_max: int = QUEUE_BYTES_MAX


DEFAULTS: Final = UdpOptions()


class UdpEndpoint:
    """A bound socket on a loop, for one address of this host, or for a multicast group that it joins."""

    def __init__(
        self, loop: Loop, at: Address | MulticastGroup, receive: Receive, options: UdpOptions = DEFAULTS
    ) -> None:
        self.traffic = SocketCounters()
        self._loop = loop
        self._receive = receive
        self._options = options
        self._socket = open_group(at) if isinstance(at, MulticastGroup) else open_unicast(at)
        self.send_buffer_bytes, self.receive_buffer_bytes = ask_buffers(self._socket, options.buffer_bytes)
        self.trains = options.trains and ask_for_trains(self._socket)
        """Whether the kernel cuts trains."""
        self._buffer = memoryview(bytearray(_DATAGRAM_BYTES_MAX))
        self._queue: deque[tuple[Train, Address]] = deque()
        self._queued_bytes = 0
        self._plain_peers: set[Address] = set()  # Addresses for which the kernel has refused to cut trains.
        self._retry = loop.alarm(self._flush)
        loop.register(self._socket.fileno(), self._ready)

    @property
    def address(self) -> Address:
        """The address of the socket, with the port that the kernel chose."""
        name: Address = self._socket.getsockname()
        return name

    def send_to_groups(self, group: MulticastGroup) -> None:
        """Lets this socket send to groups too, by the interface and with the TTL of this one."""
        enable_sending(self._socket, group)

    def send(self, train: Train, address: Address) -> None:
        """Sends or queues a train; datagrams for which neither is possible are counted and dropped."""
        if self._queue:
            self._enqueue(train, address)
        else:
            self._send(train, address)

    def drain(self) -> None:
        """Receives all datagrams that have already arrived, before the loop would."""
        self._read(DRAIN_READS_MAX, 0)

    def close(self) -> None:
        """Closes the socket; the queue is lost, as datagrams may be."""
        self._loop.unregister(self._socket.fileno())
        self._socket.close()
        self._queue.clear()
        self._retry.set(NEVER)

    def _ready(self, events: int) -> None:
        if events & WRITABLE:
            self._flush()
        if events & (READABLE | BROKEN):
            # After a pause of this host, a neighbour whose datagram waits here must not time out.
            self._read(READS_MAX, 0 if self._loop.alarm_due else SHORT_BYTES)

    def _read(self, reads_max: int, short_bytes: int) -> None:
        """Reads at most `reads_max` times, or until a datagram is shorter than `short_bytes`."""
        for _ in range(reads_max):
            try:
                size, ancillary, flags, address = self._socket.recvmsg_into([self._buffer], ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # An ICMP answer to a datagram from here. The read has cleared it, and links have time-outs.
                self.traffic.unsent[Unsent.REFUSED] += 1
                continue
            if size == 0 or flags & _TRUNCATED:
                self.traffic.dropped[Drop.TRUNCATED] += 1
                continue
            segment_bytes = joined_size(ancillary) or size
            traffic = self.traffic
            traffic.trains_received += 1
            traffic.datagrams_received += -(-size // segment_bytes)
            traffic.bytes_received += size
            self._loop.later()
            self._receive(self._buffer[:size], segment_bytes, address)
            if size < short_bytes or self._socket.fileno() < 0:  # Below 0: the receiver has closed this socket.
                return

    def _send(self, train: Train, address: Address) -> bool:
        """Sends a train; False if the kernel did not accept all of it and the rest is queued."""
        size = train.segment_bytes
        pays = size < len(train.buffer) and 2 * size <= _CUT_BYTES_MAX
        if self.trains and pays and address not in self._plain_peers:
            return self._send_whole(train, address)
        return self._send_plain(train, address)

    def _send_whole(self, train: Train, address: Address) -> bool:
        size = train.segment_bytes
        view = memoryview(train.buffer)
        limit = min(_CUT_DATAGRAMS_MAX, _CUT_BYTES_MAX // size) * size
        if len(view) <= min(_CUT_DATAGRAMS_MAX * size, _CUT_BYTES_MAX):
            limit = len(view)  # The last datagram may be shorter, and fit in where a full one would not.
        segment = cut_into(size)
        for at in range(0, len(view), limit):
            piece = view[at : at + limit]
            try:
                self._socket.sendmsg([piece], segment, 0, address)
            except OSError as error:
                rest = Train(train.buffer[at:], size)
                if error.errno not in _CUT_REFUSED:
                    return self._failed(error, rest, address, -(-len(rest.buffer) // size))
                if len(self._plain_peers) < PLAIN_PEERS_MAX:
                    self._plain_peers.add(address)
                return self._send_plain(rest, address)
            self._count(len(piece), -(-len(piece) // size))
        return True

    def _send_plain(self, train: Train, address: Address) -> bool:
        size = train.segment_bytes
        if len(train.buffer) <= size:
            return self._send_one(train.buffer, train, 0, address)
        view = memoryview(train.buffer)
        starts = range(0, len(view), size)
        return all(self._send_one(view[at : at + size], train, at, address) for at in starts)

    def _send_one(self, datagram: bytes | memoryview, train: Train, at: int, address: Address) -> bool:
        """Sends the datagram that begins there in a train."""
        try:
            self._socket.sendto(datagram, address)
        except OSError as error:
            return self._failed(error, Train(train.buffer[at:], train.segment_bytes), address, 1)
        self._count(len(datagram), 1)
        return True

    def _count(self, size: int, datagrams: int) -> None:
        traffic = self.traffic
        traffic.trains_sent += 1
        traffic.datagrams_sent += datagrams
        traffic.bytes_sent += size

    def _failed(self, error: OSError, rest: Train, address: Address, datagrams: int) -> bool:
        """Queues the rest if the kernel has no room, and returns False; else counts `datagrams` as unsent."""
        if error.errno in (errno.EAGAIN, errno.ENOBUFS):
            self._enqueue(rest, address, first=True)
            full_device = error.errno == errno.ENOBUFS  # Epoll does not report when a device has room again.
            self._loop.modify(self._socket.fileno(), READABLE if full_device else READABLE | WRITABLE)
            if full_device:
                self._retry.set(self._loop.now_us() + RETRY_DELAY_US)
            return False
        self.traffic.unsent[_UNSENT.get(error.errno or 0, Unsent.REFUSED)] += datagrams
        return True

    def _enqueue(self, train: Train, address: Address, first: bool = False) -> None:
        size = len(train.buffer)
        if self._queued_bytes + size > self._options.queue_bytes_max:
            self.traffic.unsent[Unsent.QUEUE_FULL] += -(-size // train.segment_bytes)
            return
        self._queued_bytes += size
        if first:
            self._queue.appendleft((train, address))
        else:
            self._queue.append((train, address))

    def _flush(self) -> None:
        while self._queue:
            train, address = self._queue.popleft()
            self._queued_bytes -= len(train.buffer)
            if not self._send(train, address):
                return
        self._loop.modify(self._socket.fileno(), READABLE)
