"""TCP connections and Unix sockets of simulated machines, with the calls that daemons and clients make.

A connection carries bytes in their order and loses none while it lives. Between machines a piece takes the
delay of the path; one that the path would lose, or that meets a cut, is sent again after a while, as TCP does.
"""

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from hopring.sim.deployment.kernel import Descriptor
from hopring.sim.path import LossReason

if TYPE_CHECKING:
    from hopring.sim.deployment.kernel import Machine, SimProcess

LOCAL_US: Final = 20
AGAIN_US: Final = 200_000
AGAIN_US_MAX: Final = 3_200_000
FIRST_PORT: Final = 32_768
BACKLOG: Final = 512
_CREDENTIALS: Final = Struct("3i")
_TCP_INFO: Final = Struct("68xI80xI")  # Round trip and segments with data, as in struct tcp_info.
_USER: Final = 1_000

Where = tuple[str, int] | str


class Listener:
    """A place where connections are accepted."""

    def __init__(self, sock: "StreamSocket") -> None:
        self.sock: Final = sock
        self.waiting: deque[StreamSocket] = deque()


class StreamSocket(Descriptor):
    """A socket of either kind: it listens, or is one end of a connection."""

    def __init__(self, process: "SimProcess", family: int) -> None:
        super().__init__(process)
        self.family: Final = socket.AddressFamily(family)
        self.type: Final = socket.SOCK_STREAM
        self.proto: Final = 0
        self._name: Where = "" if family == socket.AF_UNIX else ("", 0)
        self._peer_name: Where = self._name
        self._listener: Listener | None = None
        self._peer: StreamSocket | None = None
        self._opened = False
        self._error = 0
        self._inbox = bytearray()
        self._flying: deque[bytes | None] = deque()  # Pieces on their way to the peer; None is the end.
        self._flying_bytes = 0
        self._again_us = AGAIN_US
        self._ended = False  # The peer sends no more.
        self._shut = False  # Nothing more is sent.
        self._segments = 0  # Received.

    # Descriptor.

    def readiness(self) -> int:
        """Its events, as epoll sees them."""
        if self._listener is not None:
            return select.EPOLLIN if self._listener.waiting else 0
        events = 0
        if self._error:
            events |= select.EPOLLERR | select.EPOLLHUP | select.EPOLLIN | select.EPOLLOUT
        if self._inbox or self._ended:
            events |= select.EPOLLIN
        if self._opened and (self._room() > 0 or self._shut):
            events |= select.EPOLLOUT
        return events

    def released(self) -> None:
        """Tells the peer, behind what is on its way."""
        machine = self.process.machine
        if self._listener is not None:
            machine.listeners.pop(_key(self._name), None)
            for one in self._listener.waiting:
                one.released()
        elif self._peer is not None and not self._shut:
            self._end()

    # Calls.

    def setblocking(self, _flag: bool) -> None:
        """No call of it ever blocks."""

    def gettimeout(self) -> float:
        """No call of it ever blocks."""
        return 0.0

    def setsockopt(self, *_option: object) -> None:
        """All options are granted, without effect."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        """Its error, its measurements, or who is at the other end."""
        if size:
            if (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED):
                pid = 0 if self._peer is None else self._peer.process.pid
                return _CREDENTIALS.pack(pid, _USER, _USER)
            return _TCP_INFO.pack(2 * self._delay_us(), self._segments)
        error, self._error = self._error, 0
        return error

    def bind(self, address: Where) -> None:
        """Takes a port or a path of this machine."""
        if _key(address) in self.process.machine.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._name = address

    def listen(self, _backlog: int = BACKLOG) -> None:
        """Accepts connections from now on."""
        self._listener = Listener(self)
        self.process.machine.listeners[_key(self._name)] = self._listener

    def accept(self) -> tuple["StreamSocket", Where]:
        """The first connection that waits."""
        assert self._listener is not None, "it listens"
        if not self._listener.waiting:
            raise BlockingIOError
        accepted = self._listener.waiting.popleft()
        return accepted, accepted._peer_name

    def connect_ex(self, address: Where) -> int:
        """Begins to connect to an address."""
        kernel = self.process.kernel
        machine: Machine | None = self.process.machine
        if not isinstance(address, str) and address[0] not in ("127.0.0.1", self.process.machine.address):
            machine = kernel.machines.get(address[0])
            if machine is None:
                return errno.EHOSTUNREACH
        assert machine is not None, "there is one"
        self._peer_name = address
        if not isinstance(address, str):
            host = kernel.network.host(self.process.machine.name)
            host.next_stream_port += 1
            self._name = (self.process.machine.address, FIRST_PORT + host.next_stream_port % 28_000)
        self._ask(machine, AGAIN_US)
        return errno.EINPROGRESS

    def send(self, data: bytes | memoryview) -> int:
        """Takes as many bytes as there is room for."""
        if self._error:
            error, self._error = self._error, 0
            raise OSError(error, os.strerror(error))
        if self._shut or not self._opened:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        size = min(len(data), self._room())
        if size <= 0:
            raise BlockingIOError
        self._fly(bytes(data[:size]))
        return size

    def sendmsg(self, pieces: Sequence[bytes | memoryview]) -> int:
        """As `send`, of several pieces."""
        return self.send(b"".join(pieces))

    def recv(self, size: int) -> bytes:
        """Takes what has arrived; nothing at the end."""
        if self._inbox:
            taken = bytes(self._inbox[:size])
            del self._inbox[:size]
            if self._peer is not None:
                self._peer.changed()
            return taken
        if self._error:
            error, self._error = self._error, 0
            self._ended = True
            raise OSError(error, os.strerror(error))
        if self._ended:
            return b""
        raise BlockingIOError

    def recv_into(self, buffer: memoryview) -> int:
        """As `recv`, into a buffer."""
        piece = self.recv(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def shutdown(self, _how: int) -> None:
        """Sends an end, and nothing more."""
        if not self._opened:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if not self._shut:
            self._end()

    def getsockname(self) -> Where:
        """The name of this end."""
        return self._name

    def getpeername(self) -> Where:
        """The name of the other end."""
        if not self._opened:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer_name

    # Connecting.

    def _ask(self, machine: "Machine", again_us: int) -> None:
        if self.number < 0 or not self.process.alive:
            return
        kernel, engine = self.process.kernel, self.process.kernel.network.engine
        delay_us = self._way(machine)
        if delay_us is None or not machine.up:
            engine.after(again_us, self._ask, machine, min(2 * again_us, AGAIN_US_MAX))
        else:
            kernel.network.timer(machine.name, engine.now_us + delay_us, self._asked, machine, delay_us)

    def _asked(self, machine: "Machine", delay_us: int) -> None:
        engine = self.process.kernel.network.engine
        listener = machine.listeners.get(_key(self._peer_name))
        if listener is None or not listener.sock.process.alive or len(listener.waiting) >= BACKLOG:
            engine.after(delay_us, self._refused)
            return
        if self.number < 0 or not self.process.alive:
            return
        accepted = StreamSocket(listener.sock.process, self.family)
        accepted._name, accepted._peer_name = self._peer_name, self._name
        accepted._opened = True
        accepted._peer, self._peer = self, accepted
        listener.waiting.append(accepted)
        listener.sock.changed()
        engine.after(delay_us, self._accepted)

    def _refused(self) -> None:
        self._error = errno.ECONNREFUSED
        self.changed()

    def _accepted(self) -> None:
        self._opened = True
        self.changed()

    # Bytes on their way.

    def _room(self) -> int:
        waiting = 0 if self._peer is None else len(self._peer._inbox)
        return self.process.kernel.stream_bytes - self._flying_bytes - waiting

    def _end(self) -> None:
        self._shut = True
        self._fly(None)

    def _fly(self, piece: bytes | None) -> None:
        self._flying.append(piece)
        self._flying_bytes += len(piece or b"")
        if len(self._flying) == 1:
            self._launch()

    def _launch(self) -> None:
        """Sends what waits as one piece."""
        peer = self._peer
        assert peer is not None, "there is another end"
        network = self.process.kernel.network
        if not self.process.machine.up:
            return  # It lost its power, and with it what was on its way.
        delay_us = self._way(peer.process.machine)
        if delay_us is None:
            network.engine.after(self._again_us, self._launch)
            self._again_us = min(2 * self._again_us, AGAIN_US_MAX)
            return
        self._again_us = AGAIN_US
        network.engine.after(delay_us, self._land, len(self._flying))

    def _land(self, count: int) -> None:
        peer = self._peer
        assert peer is not None, "there is another end"
        if not peer.process.machine.up:
            self.process.kernel.network.engine.after(self._again_us, self._launch)
            return
        pieces = [self._flying.popleft() for _ in range(count)]
        for piece in pieces:
            self._flying_bytes -= len(piece or b"")
            if piece is None:
                peer._ended = True
            elif peer.number < 0 or not peer.process.alive:
                # Nobody reads there any more.
                self._flying.clear()
                self._flying_bytes = 0
                self._shut = True
                self._error = errno.ECONNRESET
                self.changed()
                return
            else:
                peer._inbox += piece
                peer._segments += 1
        peer.changed()
        self.changed()
        if self._flying:
            self._launch()

    def _way(self, machine: "Machine") -> int | None:
        """How long a piece takes to a machine; None if it is lost on its way."""
        own, network = self.process.machine, self.process.kernel.network
        if machine is own:
            return LOCAL_US
        if not network.connected(own.name, machine.name):
            return None
        fate = network.path(own.name, machine.name).carry(0, network.engine.now_us)
        return None if isinstance(fate, LossReason) else fate[0] - network.engine.now_us

    def _delay_us(self) -> int:
        if self._peer is None or self._peer.process.machine is self.process.machine:
            return LOCAL_US
        own, other = self.process.machine.name, self._peer.process.machine.name
        return self.process.kernel.network.path(own, other).quality.delay_us


def _key(where: Where) -> int | str:
    return where if isinstance(where, str) else where[1]
