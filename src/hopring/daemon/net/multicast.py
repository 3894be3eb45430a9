"""Multicast of IPv4 and IPv6: socket options to join a group and to send to it.

Packets stay on the link unless a higher TTL is configured (the hops of IPv6). They are looped back to listeners
on the sending host, so that several daemons of one host, or of two clusters, may share a group: each listener
gets its own copy and checks the header.
"""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
_MREQN: Final = Struct("=4s4si")  # group, address, interface
_MREQ6: Final = Struct("=16sI")  # group, interface
_ANY: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A multicast address on one interface of this host."""

    host: str
    port: int
    interface: str
    ttl: int = 1

    @property
    def family(self) -> socket.AddressFamily:
        """The address family of the group."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def address(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """The address to send to, which a listener binds."""
        if self.family == socket.AF_INET6:
            return (self.host, self.port, 0, socket.if_nametoindex(self.interface))
        return (self.host, self.port)


def join(sock: socket.socket, group: MulticastGroup) -> None:
    """Makes the socket receive this group's packets on its interface, and no other group's."""
    index = socket.if_nametoindex(group.interface)
    if group.family == socket.AF_INET6:
        request = _MREQ6.pack(socket.inet_pton(socket.AF_INET6, group.host), index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
        with contextlib.suppress(OSError):  # Since Linux 4.20. Without it the header check does the same.
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
    else:
        request = _MREQN.pack(socket.inet_aton(group.host), _ANY, index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)


def enable_sending(sock: socket.socket, group: MulticastGroup) -> None:
    """Makes the socket send to groups by this group's interface with its TTL, and loop packets back."""
    index = socket.if_nametoindex(group.interface)
    if group.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, group.ttl)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _MREQN.pack(_ANY, _ANY, index))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, group.ttl)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)


_SIOCGIFADDR: Final = 0x8915
_IFREQ_BYTES: Final = 40
_ADDRESS_AT: Final = 20
_V6_TABLE: Final = Path("/proc/net/if_inet6")


def interface_of(address: str) -> str:
    """The name of the interface with this address; OSError if this host has none."""
    wanted = ipaddress.ip_address(address)
    names = _v6_interfaces() if wanted.version == 6 else _v4_interfaces()
    for name, held in names:
        if held == wanted or (held.is_loopback and wanted.is_loopback):
            return name
    raise OSError(f"no interface of this host has the address {address}")


def _v4_interfaces() -> list[tuple[str, ipaddress.IPv4Address]]:
    found: list[tuple[str, ipaddress.IPv4Address]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = struct.pack(f"{_IFREQ_BYTES}s", name.encode())
            try:
                answer = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # Up or not, it has no IPv4 address.
            found.append((name, ipaddress.IPv4Address(answer[_ADDRESS_AT : _ADDRESS_AT + 4])))
    return found


def _v6_interfaces() -> list[tuple[str, ipaddress.IPv6Address]]:
    lines = [line.split() for line in _V6_TABLE.read_text().splitlines()]
    return [(fields[5], ipaddress.IPv6Address(bytes.fromhex(fields[0]))) for fields in lines]
