"""Frames as a client sees them: what a daemon delivers, and what the client asks for, in both byte orders.

Lengths are judged before anything is read, types are not: real daemons pass bits on that a client has forged,
and such a message must not end the sessions of those who get it. Where a service is set it is a message,
whatever else is set.
"""

import sys
from struct import Struct
from typing import Final, Literal, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.spread.bits import MARKER, Bits
from hopring.spread.frames import HEAD_BYTES, NAME_BYTES, head_of

ByteOrder = Literal["little", "big"]
NATIVE: Final[ByteOrder] = sys.byteorder

REGULAR: Final = 0x3F
MEMBERSHIP: Final = 0x3F00
REJECT: Final = 0x400000

REST_BYTES_MAX: Final = 16 * 2**20
"""Names and body of what is delivered. Spread daemons stay far below; ours pass on what native clients send."""

OLD_TYPE_BYTES: Final = 4

_HEADS: Final = {"little": Struct("<I32sIII"), "big": Struct(">I32sIII")}


class SpreadHead(NamedTuple):
    """What comes first, and says how much will follow."""

    bits: int  # Without the marker.
    name: bytes
    groups_count: int
    hint: bytes
    body_bytes: int
    order: ByteOrder

    @property
    def rest_bytes(self) -> int:
        """All that follows; a refused message has its old type in front of its groups."""
        return OLD_TYPE_BYTES * self.is_reject + NAME_BYTES * self.groups_count + self.body_bytes

    @property
    def is_reject(self) -> bool:
        """A message of ours that the daemon did not take."""
        return bool(self.bits & REJECT)

    @property
    def is_membership(self) -> bool:
        """A view, a transitional signal or the own leave."""
        return is_membership(self.bits)

    @property
    def tag(self) -> int:
        """The 16 bits of the application; views have none."""
        return 0 if self.is_membership else tag_of(self.hint)


class SpreadDelivery(NamedTuple):
    """A frame that has come."""

    bits: int
    name: bytes  # The sender; of a membership message, the group.
    groups: tuple[bytes, ...]  # Those it was sent to; of a view, its members.
    tag: int
    foreign: bool  # Whether the sender of a message has the other byte order.
    body: bytes
    order: ByteOrder  # Of the words in a membership message's body.


def is_membership(bits: int) -> bool:
    """Whether these bits are a membership message's."""
    return bool(bits & MEMBERSHIP) and not bits & (REGULAR | REJECT)


def is_view(bits: int) -> bool:
    """Whether they are those of a regular membership message."""
    return is_membership(bits) and bool(bits & Bits.REG_MEMB)


def decode_head(data: bytes) -> SpreadHead:
    """The first 48 bytes of a frame; what follows is within the limit."""
    assert len(data) == HEAD_BYTES
    bits, name, count, hint, size = head_of(data)
    order: ByteOrder = "little" if data[0] & MARKER else "big"
    head = SpreadHead(bits, cut(name), count, hint, size, order)
    if NAME_BYTES * count + size > REST_BYTES_MAX:
        raise PeerError(
            Drop.LIMIT, f"{count} groups and {size} bytes of body, of {REST_BYTES_MAX} bytes at most"
        )
    return head


def decode_rest(head: SpreadHead, rest: bytes) -> SpreadDelivery:
    """The frame, from its head and all that follows."""
    assert len(rest) == head.rest_bytes
    bits, at = head.bits, 0
    if head.is_reject:
        bits = int.from_bytes(rest[:OLD_TYPE_BYTES], head.order) & ~MARKER | REJECT
        at = OLD_TYPE_BYTES
    end = at + NAME_BYTES * head.groups_count
    groups = tuple([cut(rest[one : one + NAME_BYTES]) for one in range(at, end, NAME_BYTES)])
    foreign = not head.is_membership and order_of_hint(head.hint) != NATIVE
    return SpreadDelivery(bits, head.name, groups, head.tag, foreign, rest[end:], head.order)


def cut(field: bytes) -> bytes:
    """A name without its padding; one that fills its field has none."""
    return field.partition(b"\0")[0]


def order_of_hint(hint: bytes) -> ByteOrder:
    """Who wrote a hint; the marker has two bits, and only both together are little-endian."""
    return "little" if int.from_bytes(hint, "little") & MARKER == MARKER else "big"


def tag_of(hint: bytes) -> int:
    """The 16 bits of the application; what else a sender has put into its hint is not looked at."""
    return int.from_bytes(hint, order_of_hint(hint)) >> 8 & 0xFFFF


def encode_request(
    bits: int, sender: bytes, groups: tuple[bytes, ...], tag: int, body: bytes, order: ByteOrder = NATIVE
) -> bytes:
    """A frame to a daemon, in the byte order of whoever writes it."""
    fields = (sender, *groups)
    assert all(len(one) < NAME_BYTES for one in fields), "names are judged before"
    marker = MARKER if order == "little" else 0
    head = _HEADS[order].pack(bits | marker, sender, len(groups), tag << 8 | marker, len(body))
    return b"".join([head, *[one.ljust(NAME_BYTES, b"\0") for one in groups], body])
