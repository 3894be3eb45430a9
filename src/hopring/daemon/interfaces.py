"""Which network interface has an address: multicast wants to know."""

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

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
