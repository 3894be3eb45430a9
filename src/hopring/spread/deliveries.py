"""Frames of Spread, as a client reads and writes them, in both byte orders.

Lengths are checked before anything is read, types are not: real daemons pass on forged bits, and a message with
them must not end the sessions of its receivers. A frame with a service bit is a message, regardless of others.
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
"""The limit for names and body. Spread daemons stay far below; hopd passes on messages of native clients."""

OLD_TYPE_BYTES: Final = 4

_HEADS: Final = {"little": Struct("<I32sIII"), "big": Struct(">I32sIII")}


class SpreadHead(NamedTuple):
    """The head of a frame, with the sizes of the rest."""

    bits: int  # Without the marker.
    name: bytes
    groups_count: int
    hint: bytes
    body_bytes: int
    order: ByteOrder

    @property
    def rest_bytes(self) -> int:
        """The size of the rest; a rejected message has its old type before its groups."""
        return OLD_TYPE_BYTES * self.is_reject + NAME_BYTES * self.groups_count + self.body_bytes

    @property
    def is_reject(self) -> bool:
        """Whether it is a message of this client that the daemon rejected."""
        return bool(self.bits & REJECT)

    @property
    def is_membership(self) -> bool:
        """Whether it is a view, a transitional signal or the client's own leave."""
        return is_membership(self.bits)

    @property
    def tag(self) -> int:
        """The 16-bit message type; 0 for membership messages."""
        return 0 if self.is_membership else tag_of(self.hint)


class SpreadDelivery(NamedTuple):
    """A decoded frame from a daemon."""

    bits: int
    name: bytes  # The sender; of a membership message, the group.
    groups: tuple[bytes, ...]  # The destination groups; of a view, its members.
    tag: int
    foreign: bool  # Whether the sender of a message has the other byte order.
    body: bytes
    order: ByteOrder  # Of the integers in a membership message's body.


def is_membership(bits: int) -> bool:
    """Whether a type word is that of a membership message."""
    return bool(bits & MEMBERSHIP) and not bits & (REGULAR | REJECT)


def is_view(bits: int) -> bool:
    """Whether a type word is that of a regular membership message."""
    return is_membership(bits) and bool(bits & Bits.REG_MEMB)


def decode_head(data: bytes) -> SpreadHead:
    """Decodes the first 48 bytes of a frame; checks the size of the rest."""
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
    """Decodes a frame from its head and its rest."""
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
    """A name without its padding; one that fills its field has no padding."""
    return field.partition(b"\0")[0]


def order_of_hint(hint: bytes) -> ByteOrder:
    """The byte order of a hint: little-endian only if both bits of the marker are set."""
    return "little" if int.from_bytes(hint, "little") & MARKER == MARKER else "big"


def tag_of(hint: bytes) -> int:
    """The 16-bit message type in a hint; its other bits are ignored."""
    return int.from_bytes(hint, order_of_hint(hint)) >> 8 & 0xFFFF


def encode_request(
    bits: int, sender: bytes, groups: tuple[bytes, ...], tag: int, body: bytes, order: ByteOrder = NATIVE
) -> bytes:
    """Encodes a frame for a daemon, in the writer's byte order."""
    fields = (sender, *groups)
    assert all(len(one) < NAME_BYTES for one in fields), "names are judged before"
    marker = MARKER if order == "little" else 0
    head = _HEADS[order].pack(bits | marker, sender, len(groups), tag << 8 | marker, len(body))
    return b"".join([head, *[one.ljust(NAME_BYTES, b"\0") for one in groups], body])
