"""Naming: the multicast address and port of a group, from its name alone.

Implements  Whetten, Montgomery, Kaplan, 3.1: a hash gives 24 bits of an address and 15 bits of a port whose
            high bit is set.
Above       the driver, which opens sockets; packet headers, which have a hash of the same text.
Invariants  the result depends on domain and name only, and lies in 239/8 and in ports 32768 to 65535.
Deviations  the paper leaves the hash open: here it is BLAKE2b. Collisions are legal, since packets are
            filtered by the header's 32 bits and by epochs.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

_ADMINISTRATIVE_SCOPE: Final = 239 << 24
_HIGH_BIT: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """Where the packets of a group go."""

    address: int  # IPv4, in 239/8.
    port: int
    cluster: int  # The hash in the headers of its packets.

    @property
    def host(self) -> str:
        """The address as a dotted text."""
        return ".".join([str(self.address >> shift & 255) for shift in (24, 16, 8, 0)])


def group_address(domain: str, name: str) -> GroupAddress:
    """The address of the group of this name in this domain; neither has a NUL."""
    assert "\0" not in domain + name, "names have no NUL"
    digest = blake2b(f"{domain}\0{name}".encode(), digest_size=16, person=b"hopring rmp").digest()
    address = _ADMINISTRATIVE_SCOPE | int.from_bytes(digest[:3], "big")
    port = _HIGH_BIT | int.from_bytes(digest[3:5], "big") & (_HIGH_BIT - 1)
    return GroupAddress(address, port, int.from_bytes(digest[5:9], "big"))
