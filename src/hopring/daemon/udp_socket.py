"""How UDP sockets are opened, and the kernel's numbers that Python does not name."""

import contextlib
import socket
from collections.abc import Callable
from struct import Struct
from typing import Final

from hopring.daemon.multicast import Group, enable_sending, join
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
"""Room for what `joined_size` reads."""


def open_unicast(address: Address) -> socket.socket:
    """A socket bound to an address of this host; its two versions of IP do not mix."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(address)
    return sock


def open_group(group: Group) -> socket.socket:
    """A socket that hears one group, and may send to it."""
    sock = socket.socket(group.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    # Other daemons, of any cluster, may listen too. A packet to a group goes to every one of them.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(group.address)
    join(sock, group)
    enable_sending(sock, group)
    return sock


def ask_buffers(sock: socket.socket, size: int) -> tuple[int, int]:
    """Asks for send and receive buffers; what the kernel grants, by its own accounting."""
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
    """Whether the kernel cuts trains (Linux 4.18); also has it join them (5.0) if it can."""
    with contextlib.suppress(OSError):
        sock.setsockopt(_SOL_UDP, _UDP_GRO, 1)
    try:
        sock.getsockopt(_SOL_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def cut_into(segment_bytes: int) -> list[tuple[int, int, bytes]]:
    """The word that goes with a train to the kernel."""
    return [(_SOL_UDP, _UDP_SEGMENT, _SEGMENT_SIZE.pack(segment_bytes))]


def joined_size(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The size of the datagrams that the kernel joined, or 0 if it joined none."""
    for level, kind, body in ancillary:
        if level == _SOL_UDP and kind == _UDP_GRO:
            size: int = _GRO_SIZE.unpack_from(body)[0]
            return size
    return 0
