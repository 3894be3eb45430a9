"""TCP connections and listeners; they report everything as events of the TCP link.

A connection collects all writes of a turn and sends them at its end in one gathering call. It reports `Opened`
at most once, then `Received`, `Written` and, on request, `Observed`; `Closed` at most once, as its last event.
A connection that its owner closes reports nothing more.
"""

import errno
import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final

from hopring.daemon.loop.event_loop import BROKEN, READABLE, WRITABLE, Loop
from hopring.daemon.net.udp import Address
from hopring.ids import NEVER
from hopring.links.events import StreamClosed, StreamObserved, StreamOpened, StreamReceived, StreamWritten
from hopring.system.kernel import kernel

ConnectionEvent = StreamOpened | StreamReceived | StreamWritten | StreamObserved | StreamClosed
Sink = Callable[[ConnectionEvent], None]

CONNECT_TIMEOUT_US: Final = 3_000_000
OUT_BYTES_MAX: Final = 64 << 20
"""Limit of bytes that wait for the kernel. Links stop far below it; more closes the connection."""

READ_BYTES: Final = 1 << 18
READS_MAX: Final = 8
"""Most reads of one connection in one turn."""

ACCEPTS_MAX: Final = 64
BACKLOG: Final = 128
NO_DESCRIPTORS_DELAY_US: Final = 100_000
_GATHER_MAX: Final = 512  # Well below IOV_MAX.
_TCP_INFO_ROUND_TRIP: Final = 68  # Offsets in struct tcp_info of linux/tcp.h.
_TCP_INFO_DATA_SEGMENTS_IN: Final = 152
_TCP_INFO_BYTES: Final = 156
_UNSIGNED: Final = Struct("I")


def _nobody(_happening: ConnectionEvent) -> None:
    raise AssertionError("a connection needs a sink from its first turn on")


def ignore_event(_happening: ConnectionEvent) -> None:
    """The sink of a closed connection.

    A closed connection refers to nobody. Otherwise it and its buffer would be kept by a cycle until the garbage
    collector finds it, which in a daemon takes millions of objects.
    """


_CLOSED: Final = memoryview(b"")


class ByteStream(ABC):
    """A connection as its user sees it. Set `sink` before the turn ends in which it was made."""

    def __init__(self) -> None:
        self.sink: Sink = _nobody

    @property
    @abstractmethod
    def authenticated(self) -> bool:
        """Whether the other end has proved who it is."""

    @property
    @abstractmethod
    def out_bytes(self) -> int:
        """Bytes that were written and that the kernel has not accepted."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Sends at the end of the turn, behind all earlier writes; after the end it does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection without an event to the sink; unsent bytes are lost."""

    @abstractmethod
    def pause(self, paused: bool) -> None:
        """Stops or resumes reading, writing and noticing an end; for cuts by the admin channel."""

    @abstractmethod
    def observe(self) -> None:
        """Reports the kernel's measurements of the connection; nothing while it is paused or opening."""


class TcpConnection(ByteStream):
    """One connection without encryption, ours or accepted."""

    def __init__(self, loop: Loop, sock: socket.socket) -> None:
        """Takes over an open, non-blocking socket."""
        super().__init__()
        self._loop = loop
        self._socket = sock
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._out: deque[memoryview] = deque()
        self._out_bytes = 0
        self._opened = True
        self._dial_failure = 0
        self._gone = False
        self._flush_due = False  # At the end of this turn.
        self._full = False  # The kernel takes no more until the socket is writable.
        self._paused = False
        self._too_late = loop.alarm(lambda: self._close("no answer in time"))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.register(sock.fileno(), self._ready)

    @classmethod
    def dial(cls, loop: Loop, address: Address, timeout_us: int = CONNECT_TIMEOUT_US) -> "TcpConnection":
        """Starts to connect; the outcome is reported to the sink."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        connection = cls(loop, kernel().socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        connection._dial(address, timeout_us)
        return connection

    def _dial(self, address: Address, timeout_us: int) -> None:
        self._opened = False
        self._loop.modify(self._socket.fileno(), WRITABLE)
        self._too_late.set(self._loop.now_us() + timeout_us)
        failure = self._socket.connect_ex(address)
        if failure not in (0, errno.EINPROGRESS):
            self._dial_failure = failure
            self._loop.call_soon(self._finish_dialling)

    @property
    def authenticated(self) -> bool:
        """Nobody proves who it is without TLS."""
        return False

    @property
    def out_bytes(self) -> int:
        """Bytes that were written and that the kernel has not accepted."""
        return self._out_bytes

    def write(self, data: bytes) -> None:
        """Sends at the end of the turn, behind all earlier writes; after the end it does nothing."""
        if self._gone:
            return
        self._out.append(memoryview(data))
        self._out_bytes += len(data)
        self._flush_soon()

    def close(self) -> None:
        """Closes the connection without an event to the sink; unsent bytes are lost."""
        if not self._gone:
            self._gone = True
            self._too_late.drop()
            if not self._paused:
                self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._out.clear()
            self._buffer = _CLOSED
            self.sink = ignore_event

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading, writing and noticing an end; for cuts by the admin channel."""
        if self._gone or paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._loop.unregister(self._socket.fileno())
        else:
            wanted = READABLE if self._opened and not self._full else READABLE | WRITABLE
            self._loop.register(self._socket.fileno(), self._ready, wanted)
            self._flush_soon()

    def observe(self) -> None:
        """Reports the kernel's measurements of the connection; nothing while it is paused or opening."""
        if self._gone or self._paused or not self._opened:
            return
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        if len(info) == _TCP_INFO_BYTES:
            (round_trip_us,) = _UNSIGNED.unpack_from(info, _TCP_INFO_ROUND_TRIP)
            (data_segments,) = _UNSIGNED.unpack_from(info, _TCP_INFO_DATA_SEGMENTS_IN)
            self.sink(StreamObserved(data_segments, round_trip_us))

    def _close(self, reason: str) -> None:
        if not self._gone:
            sink = self.sink
            self.close()
            sink(StreamClosed(reason))

    def _ready(self, events: int) -> None:
        if not self._opened:
            self._finish_dialling()
            return
        if events & WRITABLE:
            self._flush()
        if events & (READABLE | BROKEN) and not self._gone:
            self._read()

    def _finish_dialling(self) -> None:
        if self._gone:
            return
        failure = self._dial_failure or self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            self._close(os.strerror(failure))
            return
        self._opened = True
        self._too_late.set(NEVER)
        self._loop.modify(self._socket.fileno(), READABLE)
        self.sink(StreamOpened())
        self._flush_soon()

    def _read(self) -> None:
        for _ in range(READS_MAX):
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as error:
                self._close(os.strerror(error.errno or 0))
                return
            if size == 0:
                self._close("closed by the other end")
                return
            self.sink(StreamReceived(bytes(self._buffer[:size])))
            # A short read has emptied the kernel's buffer; the sink may have closed or paused us.
            if self._gone or self._paused or size < READ_BYTES:
                return

    def _flush_soon(self) -> None:
        if self._out and self._opened and not self._flush_due and not self._full and not self._paused:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Sends as much as the kernel accepts, and waits for room for the rest."""
        self._flush_due = False
        if self._gone or self._paused:
            return
        if self._out_bytes > OUT_BYTES_MAX:
            self._close(f"more than {OUT_BYTES_MAX} bytes wait for the connection")
            return
        sent_bytes = 0
        try:
            while self._out:
                size = self._socket.sendmsg(self._head())
                sent_bytes += size
                self._forget(size)
        except BlockingIOError:
            pass
        except OSError as error:
            self._close(os.strerror(error.errno or 0))
            return
        if self._full != bool(self._out):
            self._full = bool(self._out)
            self._loop.modify(self._socket.fileno(), READABLE | WRITABLE if self._full else READABLE)
        if sent_bytes:
            self.sink(StreamWritten(sent_bytes))

    def _head(self) -> list[memoryview]:
        """The first pieces to send, as many as one call gathers."""
        return [piece for piece, _ in zip(self._out, range(_GATHER_MAX), strict=False)]

    def _forget(self, size: int) -> None:
        self._out_bytes -= size
        while size:
            piece = self._out[0]
            if size < len(piece):
                self._out[0] = piece[size:]
                return
            size -= len(piece)
            self._out.popleft()


class TcpListener:
    """Accepts connections on one address and hands each to `welcome`, which sets the sink at once."""

    def __init__(self, loop: Loop, address: Address, welcome: Callable[[TcpConnection, Address], None]) -> None:
        self._loop = loop
        self._welcome = welcome
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = kernel().socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self._socket.bind(address)
        self._socket.listen(BACKLOG)
        self.refused = 0
        """How often no descriptor was free for a connection."""
        self._again = loop.alarm(lambda: loop.modify(self._socket.fileno(), READABLE))
        loop.register(self._socket.fileno(), self._ready)

    @property
    def address(self) -> Address:
        """The address of the listener, with the port that the kernel chose."""
        name: Address = self._socket.getsockname()
        return name

    def close(self) -> None:
        """Stops accepting, and closes the listening socket."""
        self._again.set(NEVER)
        self._loop.unregister(self._socket.fileno())
        self._socket.close()

    def _ready(self, _events: int) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self._pause()
                    return
                continue  # Closed by the peer before it was accepted.
            sock.setblocking(False)
            self._welcome(TcpConnection(self._loop, sock), address)

    def _pause(self) -> None:
        """Stops watching for a while: epoll would report the waiting connection again and again."""
        self.refused += 1
        self._loop.modify(self._socket.fileno(), 0)
        self._again.set(self._loop.now_us() + NO_DESCRIPTORS_DELAY_US)
