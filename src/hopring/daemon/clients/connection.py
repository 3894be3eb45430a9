"""Connections of clients, by TCP, with or without TLS, or Unix socket, and the listeners that accept them.

A connection fetches bytes from its owner when the kernel takes them, so that a slow client's backlog is in one
place, where it is counted.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from struct import Struct
from typing import Final, Protocol

from hopring.daemon.loop.event_loop import BROKEN, READABLE, WRITABLE, Loop
from hopring.errors import PeerError
from hopring.ids import NEVER
from hopring.links.hop.pacing import Bucket

READ_BYTES: Final = 1 << 17
FETCH_BYTES: Final = 1 << 17
ACCEPTS_MAX: Final = 64
LINGER_US: Final = 2_000_000
"""How long a client whose session is ended has to read the reason."""

SILENT_SECONDS: Final = 30
PROBE_SECONDS: Final = 10
PROBES_MAX: Final = 3
"""The kernel's keepalive probes notice a client whose host has vanished, within a minute or so."""

CONNECTS_PER_SECOND: Final = 500
CONNECTS_BURST: Final = 1_000
"""How fast a daemon accepts; connections above this rate wait in the listen backlog."""

NO_DESCRIPTORS: Final = (
    "all descriptors for clients are in use; raise the limit of open files (LimitNOFILE, ulimit -n)"
)
TOO_FAST: Final = f"more than {CONNECTS_PER_SECOND} new connections a second"
NO_DESCRIPTORS_DELAY_US: Final = 100_000
_CREDENTIALS: Final = Struct("3i")  # The kernel's struct ucred.
_GATHER_MAX: Final = 512  # Well below IOV_MAX.


class ConnectionOwner(Protocol):
    """The owner of connections: handles the bytes they receive, and supplies the bytes they send."""

    def received(self, number: int, chunk: bytes) -> None:
        """Bytes were received on this connection."""

    def fetch(self, number: int, bytes_max: int) -> Sequence[bytes | memoryview]:
        """The bytes to send next, about `bytes_max` at most."""

    def lost(self, number: int) -> None:
        """The other end has closed or failed."""

    def closed(self, number: int) -> None:
        """The connection has ended, from either end."""


class ClientChannelEnd(Protocol):
    """TLS of a connection whose handshake is complete; see credentials/tls_session.py."""

    ended: bool

    def receive(self, chunk: bytes | memoryview) -> bytes:
        """Takes bytes of the client, returns those of its frames; PeerError ends the connection."""

    def encrypt(self, data: bytes | memoryview) -> None:
        """Encrypts bytes for the client."""

    def close(self) -> None:
        """Says that nothing more follows."""

    def take(self) -> bytes:
        """The encrypted bytes so far."""


class ClientConnection:
    """A connection of one client, TCP or Unix."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        number: int,
        owner: ConnectionOwner,
        channel: ClientChannelEnd | None = None,
    ) -> None:
        """Takes over an open, non-blocking socket, and the TLS on it."""
        self._channel = channel
        self._loop = loop
        self._socket = sock
        self.peer = peer_of(sock)
        """Its origin, for the log."""
        self._number = number
        self._owner = owner
        self._out: deque[bytes | memoryview] = deque()
        self._flush_due = False
        self._full = False  # The kernel takes no more until the socket is writable.
        self._paused = False  # Nothing is read.
        self._deaf = False  # The other end receives nothing more; bytes that it sent before may be unread.
        self._watched = READABLE  # The events that the loop watches for.
        self._ending = False  # Nothing more is fetched or listened to.
        self._gone = False
        self._linger = loop.alarm(self.close)
        loop.register(sock.fileno(), self._ready)

    def flush(self) -> None:
        """Sends now; the owner's `lost` may be called before this returns."""
        if not self._full:
            self._flush()

    def flush_soon(self) -> None:
        """Sends at the end of the turn."""
        if not self._flush_due and not self._full and not self._gone:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading; bytes from the other end wait in the kernel meanwhile."""
        if paused is not self._paused and not self._gone:
            self._paused = paused
            self._watch()

    def finish(self, last: bytes) -> None:
        """Sends these bytes behind all others, and ends when the other end has had time to read them."""
        if self._gone or self._ending:
            return
        self._ending = True
        self.pause(False)
        self._linger.set(self._loop.now_us() + LINGER_US)
        channel = self._channel
        if channel is not None:
            channel.encrypt(last)
            channel.close()
            last = channel.take()
        if last:
            self._out.append(last)
        self.flush_soon()

    def close(self) -> None:
        """Closes the connection at once; bytes that wait are not sent."""
        if not self._gone:
            self._gone = True
            self._linger.drop()
            if self._watched:
                self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._out.clear()
            self._owner.closed(self._number)

    def _lost(self) -> None:
        if not self._ending:
            self._owner.lost(self._number)
        self.close()

    def _ready(self, events: int) -> None:
        if events & WRITABLE:
            self._flush()
        if events & (READABLE | BROKEN) and not self._gone:
            self._read()

    def _read(self) -> None:
        try:
            chunk = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if not chunk:
            self._lost()
        elif not self._ending:
            if self._channel is None:
                self._owner.received(self._number, chunk)
            else:
                self._decrypt(chunk, self._channel)

    def _decrypt(self, chunk: bytes, channel: ClientChannelEnd) -> None:
        try:
            data = channel.receive(chunk)
        except PeerError:
            self._lost()
            return
        if out := channel.take():
            # TLS itself has an answer, such as other keys.
            self._out.append(out)
            self.flush_soon()
        if data:
            self._owner.received(self._number, data)
        if channel.ended and not self._gone:
            self._lost()

    def _flush(self) -> None:
        self._flush_due = False
        if self._gone:
            return
        try:
            more = not self._ending and not self._deaf
            while self._out or more:
                if self._out:
                    self._forget(self._send())
                else:
                    more = self._fetch()
            if self._ending:
                # Later requests are read and dropped: a reset would discard our last frame at the client.
                self._socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._gave_up()
            return
        if self._full != bool(self._out):
            self._full = bool(self._out)
            self._watch()

    def _gave_up(self) -> None:
        """The other end has closed; a client may do so after its last request, which is still read."""
        self._deaf = True
        self._out.clear()
        if self._ending:
            self.close()
        elif self._full:
            self._full = False
            self._watch()

    def _watch(self) -> None:
        before, self._watched = (
            self._watched,
            (0 if self._paused else READABLE) | (WRITABLE if self._full else 0),
        )
        if not before:
            self._loop.register(self._socket.fileno(), self._ready, self._watched)
        elif self._watched:
            self._loop.modify(self._socket.fileno(), self._watched)
        else:
            # Otherwise epoll would go on reporting an end of stream behind unread bytes.
            self._loop.unregister(self._socket.fileno())

    def _fetch(self) -> bool:
        """Fetches the next bytes; returns whether there may be more."""
        size = 0
        pieces = self._owner.fetch(self._number, FETCH_BYTES)
        if self._channel is not None:
            # One write: records of TLS are filled, and pieces are mostly short.
            whole = b"".join(pieces)
            self._channel.encrypt(whole)
            if out := self._channel.take():
                self._out.append(out)
            return len(whole) >= FETCH_BYTES
        for piece in pieces:
            if piece:  # The kernel would never accept a byte of an empty piece.
                self._out.append(piece)
                size += len(piece)
        return size >= FETCH_BYTES

    def _send(self) -> int:
        if len(self._out) == 1:
            return self._socket.send(self._out[0])
        return self._socket.sendmsg(list(islice(self._out, _GATHER_MAX)))

    def _forget(self, size: int) -> None:
        while size:
            piece = self._out[0]
            if size < len(piece):
                self._out[0] = memoryview(piece)[size:]
                return
            size -= len(piece)
            self._out.popleft()


class ClientListener:
    """Accepts connections on a listening socket, at a limited rate."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        welcome: Callable[[socket.socket], None],
        rate: Bucket | None = None,
        delayed: Callable[[str], None] | None = None,
        has_room: Callable[[], bool] | None = None,
    ) -> None:
        """`delayed` is called with the reason why connections wait in the listen backlog.

        Without room nothing is accepted, so that descriptors are left for others.
        """
        self._delayed = delayed
        self._has_room = has_room
        self._rate = rate or Bucket(CONNECTS_PER_SECOND, CONNECTS_BURST)  # A connection counts as a byte.
        self._loop = loop
        self._socket = sock
        self._welcome = welcome
        self._again = loop.alarm(lambda: loop.modify(sock.fileno(), READABLE))
        loop.register(sock.fileno(), self._ready)

    def close(self) -> None:
        """Stops accepting, and closes the listening socket."""
        self._again.set(NEVER)
        self._loop.unregister(self._socket.fileno())
        self._socket.close()

    def _ready(self, _events: int) -> None:
        now_us = self._loop.now_us()
        self._rate.fill(now_us)
        for _ in range(ACCEPTS_MAX):
            if self._rate.ready_at_us > now_us:
                self._rest_until(self._rate.ready_at_us, TOO_FAST)
                return
            if self._has_room is not None and not self._has_room():
                self._rest_until(now_us + NO_DESCRIPTORS_DELAY_US, NO_DESCRIPTORS)
                return
            try:
                sock, _address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    # The kernel would report the waiting connection again and again.
                    self._rest_until(now_us + NO_DESCRIPTORS_DELAY_US, os.strerror(error.errno))
                    return
                continue  # Closed by the client before it was accepted.
            self._rate.spend(1)
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _keep_alive(sock)
            self._welcome(sock)

    def _rest_until(self, at_us: int, why: str) -> None:
        if self._delayed is not None:
            self._delayed(why)
        self._loop.modify(self._socket.fileno(), 0)
        self._again.set(at_us)


def peer_uid(sock: socket.socket) -> int | None:
    """The user at the other end of a Unix socket, as the kernel reports it; None for TCP."""
    if sock.family != socket.AF_UNIX:
        return None
    try:
        return int(_CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
    except OSError:
        return None  # Closed already.


def peer_of(sock: socket.socket) -> str:
    """The other end of a connection: its address and port, or the process and user on this host."""
    try:
        if sock.family == socket.AF_UNIX:
            pid, uid, _gid = _CREDENTIALS.unpack(
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            return f"process {pid} of user {uid}"
        address = sock.getpeername()
    except OSError:
        return "unknown"  # Closed already.
    return f"{address[0]} port {address[1]}"


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES_MAX)
