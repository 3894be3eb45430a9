"""The type word of a Spread frame: services, membership, requests, and the writer's byte order.

Bits 31 and 7 are the marker: both set by a little-endian writer, both clear by a big-endian one. Swapping the
bytes of a word swaps these two, so a reader can test them before it knows the order.
"""

from enum import IntFlag
from typing import Final

from hopring.groups.events import Cause
from hopring.services import Service

MARKER: Final = 0x80000080


class Bits(IntFlag):
    """The bits of a type word."""

    UNRELIABLE = 0x1
    RELIABLE = 0x2
    FIFO = 0x4
    CAUSAL = 0x8
    AGREED = 0x10
    SAFE = 0x20
    SELF_DISCARD = 0x40
    CAUSED_BY_JOIN = 0x100
    CAUSED_BY_LEAVE = 0x200
    CAUSED_BY_DISCONNECT = 0x400
    CAUSED_BY_NETWORK = 0x800
    REG_MEMB = 0x1000
    TRANSITION = 0x2000
    JOIN = 0x10000
    LEAVE = 0x20000
    KILL = 0x40000


SERVICES: Final = {Bits[service.name]: service for service in Service if service.name in Bits.__members__}


def _bit_of(service: Service) -> int:
    """The service's own bit, or that of the weakest service of Spread's that promises as much."""
    own = [bit for bit, one in SERVICES.items() if one is service]
    return int(next(iter(own or [bit for bit, one in SERVICES.items() if one.promises(service)])))


SERVICE_BITS: Final = {service: _bit_of(service) for service in Service}
REQUESTS: Final = frozenset({Bits.JOIN, Bits.LEAVE, Bits.KILL})

FREE_BITS_AT: Final = 23
FREE_BITS: Final = 0xFF << FREE_BITS_AT
"""Bits that daemons pass on beside a service without using them; libraries above use some of them."""

CAUSES: Final = {
    Cause.JOIN: Bits.CAUSED_BY_JOIN,
    Cause.LEAVE: Bits.CAUSED_BY_LEAVE,
    Cause.DISCONNECT: Bits.CAUSED_BY_DISCONNECT,
    Cause.NETWORK: Bits.CAUSED_BY_NETWORK,
}
