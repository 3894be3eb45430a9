"""Connects to a daemon by its Spread name and runs the handshake."""

import re
import socket
from time import monotonic
from typing import Any, Final, NamedTuple

from hopring.compat.constants import DEFAULT_SPREAD_PORT, MAX_PRIVATE_NAME, Code
from hopring.compat.requests import encode_text
from hopring.spread.handshake import Greeting, SpreadWelcome

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
        group = _greet(sock, Greeting(user, membership, priority), deadline)
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


def _greet(sock: socket.socket, greeting: Greeting, deadline: Deadline) -> bytes | Code:
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
