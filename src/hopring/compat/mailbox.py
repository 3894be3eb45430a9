"""One session over a blocking socket: its handshake by a Spread name, and its frames. The base of both facades.

One thread may receive while another sends; two threads in the same direction wait for each other. Ending the
session wakes threads that wait in it. Nothing is read beyond a frame, so that `select` on the socket tells
whether there is more.
"""

import re
import socket
from contextlib import suppress
from enum import Enum
from errno import ECONNRESET
from fcntl import ioctl
from select import POLLIN, POLLOUT, poll
from termios import FIONREAD
from threading import RLock
from time import monotonic
from typing import Any, Final, NamedTuple

from hopring.compat import frames
from hopring.compat.constants import DEFAULT_SPREAD_PORT, MAX_PRIVATE_NAME, Code
from hopring.compat.frames import Limits, Received, encode_text, received, too_short
from hopring.errors import PeerError
from hopring.spread.deliveries import NATIVE, SpreadHead, decode_head, decode_rest
from hopring.spread.frames import HEAD_BYTES
from hopring.spread.handshake import ClientHandshake, SpreadWelcome

UNIX_DIRECTORY: Final = "/tmp"
_NAME: Final = re.compile(r"\s*(\d{1,5})(?:@(\S+))?\s*", re.ASCII)


class UnixPlace(NamedTuple):
    """The address of a Unix socket."""

    path: str


class TcpPlace(NamedTuple):
    """A TCP port of a host, which may be a name or an address."""

    host: str
    port: int


def place_of(spread_name: str | None) -> UnixPlace | TcpPlace | None:
    """`port` is a Unix socket, `port@host` is TCP, nothing is the default port; None if it is none of these."""
    found = _NAME.fullmatch(spread_name or str(DEFAULT_SPREAD_PORT))
    if found is None or not 1 <= int(found[1]) <= 0xFFFF:
        return None
    port = int(found[1])
    return TcpPlace(found[2], port) if found[2] else UnixPlace(f"{UNIX_DIRECTORY}/{port}")


SOCKET_BUFFER_BYTES: Final = 200 * 1024
"""The size that the toolkit sets, in both directions."""


class Deadline:
    """The deadline for a connection and its handshake together; 0 means none."""

    def __init__(self, timeout_s: float) -> None:
        self._until_s = monotonic() + timeout_s if timeout_s else None

    def apply(self, sock: socket.socket) -> None:
        """Sets the remaining time as the socket's timeout; raises TimeoutError if none is left."""
        if self._until_s is None:
            return
        left_s = self._until_s - monotonic()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(left_s)


def dial(
    spread_name: str | None, private_name: str | None, priority: bool, membership: bool, timeout_s: float
) -> tuple[socket.socket, bytes] | Code:
    """Returns a socket and the private group, or the code of an error."""
    place = place_of(spread_name)
    try:
        user = encode_text(private_name or "")[:MAX_PRIVATE_NAME]
    except UnicodeEncodeError:
        return Code.REJECT_ILLEGAL_NAME
    if place is None:
        return Code.ILLEGAL_SPREAD
    deadline = Deadline(timeout_s)
    sock = _connect(place, deadline)
    if isinstance(sock, Code):
        return sock
    group: bytes | Code = Code.CONNECTION_CLOSED
    try:
        group = _greet(sock, ClientHandshake(user, membership, priority), deadline)
        sock.settimeout(None)
    except OSError:
        group = Code.CONNECTION_CLOSED
    finally:
        if isinstance(group, Code):
            sock.close()
    return group if isinstance(group, Code) else (sock, group)


def _connect(place: UnixPlace | TcpPlace, deadline: Deadline) -> socket.socket | Code:
    try:
        addresses = _addresses(place)
    except (OSError, ValueError):
        return Code.ILLEGAL_SPREAD  # The toolkit's code for an unknown host.
    for family, address in addresses:
        try:
            sock = socket.socket(family)
        except OSError:
            continue  # An address family that this machine does not support.
        try:
            _prepare(sock)
            deadline.apply(sock)
            sock.connect(address)
        except OSError:
            sock.close()
        else:
            return sock
    return Code.COULD_NOT_CONNECT


def _addresses(place: UnixPlace | TcpPlace) -> list[tuple[socket.AddressFamily, Any]]:
    if isinstance(place, UnixPlace):
        return [(socket.AF_UNIX, place.path)]
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _prepare(sock: socket.socket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _greet(sock: socket.socket, greeting: ClientHandshake, deadline: Deadline) -> bytes | Code:
    while greeting.wants:
        if greeting.out:
            deadline.apply(sock)
            sock.sendall(greeting.out)
        data = b""
        while len(data) < greeting.wants:
            deadline.apply(sock)
            chunk = sock.recv(greeting.wants - len(data))
            if not chunk:
                return Code.CONNECTION_CLOSED
            data += chunk
        greeting.receive(data)
    result = greeting.result
    assert result is not None, "it wants nothing more"
    return result.private_group if isinstance(result, SpreadWelcome) else Code(result.code)


FAREWELL_S: Final = 1.0
"""The time that `disconnect` waits for another thread's message to be sent, and for the daemon to close."""

CHUNK_BYTES_MAX: Final = 256 * 1024


class MailboxState(Enum):
    """The state of a session at this end."""

    ACTIVE = "active"
    ERROR = "error"  # Failed, and not yet closed.
    CLOSED = "closed"


class Mailbox:
    """A session after its handshake."""

    def __init__(self, sock: socket.socket, private_group: bytes) -> None:
        """Takes over a blocking socket."""
        self.private_group = private_group
        self.state = MailboxState.ACTIVE
        self._sock = sock
        # A signal handler may end the session in which its own thread waits.
        self._reading, self._writing = RLock(), RLock()
        self._sending = False
        self._head: SpreadHead | None = None  # Of a message that was too long for a call, or is incomplete.
        self._part = bytearray()

    def fileno(self) -> int:
        """The descriptor of the socket, for select."""
        return self._sock.fileno()

    def send(self, frame: bytes) -> Code | None:
        """Sends a frame; returns None, or the code of an error."""
        with self._writing:
            if (code := self._error_code()) is not None:
                return code
            self._sending = True
            try:
                self._sock.sendall(frame)
            except BaseException as error:
                code = self._lost()  # A part of the frame may have been sent.
                if not _is_socket_error(error):
                    raise
                return code
            finally:
                self._sending = False
        return None

    def receive(self, limits: Limits) -> Received:
        """Waits for the next message and returns it within the limits."""
        if (code := self._error_code()) is not None:
            return Received(code)
        with self._reading:
            if (code := self._error_code()) is not None:
                return Received(code)
            try:
                return self._receive(limits)
            except PeerError:
                self._mark_failed()  # The start of the next frame is unknown.
                return Received(Code.ILLEGAL_MESSAGE)
            except OSError as error:
                if not _is_socket_error(error):
                    raise
                return Received(self._lost())

    def poll(self) -> int:
        """The number of bytes that can be received."""
        if self.state is MailboxState.CLOSED:
            return Code.ILLEGAL_SESSION
        waiting = bytearray(4)
        try:
            ioctl(self._sock, FIONREAD, waiting)
        except (OSError, ValueError):
            return Code.ILLEGAL_SESSION
        return len(self._part) + int.from_bytes(waiting, NATIVE)

    def disconnect(self, farewell_s: float = FAREWELL_S) -> None:
        """Ends the session at the daemon, and closes when the daemon has closed, or after this time.

        Closing a socket with unread input drops its unsent output. So all input is read until the daemon
        closes, which it does when the end has its place in the order: then the name is free again.
        """
        until_s = monotonic() + farewell_s
        was, self.state = self.state, MailboxState.CLOSED
        try:
            if was is MailboxState.ACTIVE and self._say_end(until_s):
                self._drain(until_s)
        except OSError:
            pass  # The connection is lost already.
        finally:
            self.kill()

    def kill(self) -> None:
        """Closes the socket without telling the daemon."""
        self.state = MailboxState.CLOSED
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # Wakes threads that wait in it.
        # The descriptor must not be reused while another thread is about to use it.
        with self._reading, self._writing:
            self._sock.close()

    def _say_end(self, until_s: float) -> bool:
        """Sends the request to end; False in the middle of another frame, or if time runs out."""
        if not self._writing.acquire(timeout=_left_s(until_s)):
            return False
        try:
            if self._sending:
                return False
            left = frames.end(self.private_group)
            while left and self._ready(POLLOUT, until_s):
                left = left[self._sock.send(left, socket.MSG_DONTWAIT) :]
            return not left
        finally:
            self._writing.release()

    def _drain(self, until_s: float) -> None:
        """Reads until the daemon closes; a thread that is receiving goes first."""
        if self._reading.acquire(timeout=_left_s(until_s)):
            try:
                while self._ready(POLLIN, until_s) and self._sock.recv(CHUNK_BYTES_MAX, socket.MSG_DONTWAIT):
                    pass
            finally:
                self._reading.release()

    def _ready(self, what: int, until_s: float) -> bool:
        waiting = poll()
        waiting.register(self._sock, what)
        return bool(waiting.poll(_left_s(until_s) * 1000))

    def _receive(self, limits: Limits) -> Received:
        if self._head is None:
            self._head = decode_head(self._read(HEAD_BYTES))
        if (short := too_short(self._head, limits)) is not None:
            return short
        delivery = decode_rest(self._head, self._read(self._head.rest_bytes))
        self._head = None
        return received(delivery, limits, self.private_group)

    def _read(self, size: int) -> bytes:
        """Reads this many bytes; continues after an interrupted call."""
        while len(self._part) < size:
            chunk = self._sock.recv(min(size - len(self._part), CHUNK_BYTES_MAX))
            if not chunk:
                raise ConnectionResetError(ECONNRESET, "the daemon has closed")
            if len(chunk) == size:
                return chunk
            self._part += chunk
        data, self._part = bytes(self._part), bytearray()
        return data

    def _error_code(self) -> Code | None:
        if self.state is MailboxState.CLOSED:
            return Code.ILLEGAL_SESSION
        return None if self.state is MailboxState.ACTIVE else Code.NET_ERROR_ON_SESSION

    def _mark_failed(self) -> None:
        if self.state is MailboxState.ACTIVE:
            self.state = MailboxState.ERROR

    def _lost(self) -> Code:
        self._mark_failed()
        return Code.CONNECTION_CLOSED


def _left_s(until_s: float) -> float:
    return max(until_s - monotonic(), 0.0)


def _is_socket_error(error: BaseException) -> bool:
    """Whether an error is the socket's: a TimeoutError raised by a signal handler has no error number."""
    return isinstance(error, OSError) and error.errno is not None
