"""Objects: the units that layers hand to links; a packet is a sequence of objects.

The report (3.1) runs its link protocols on objects of 12 to 700 bytes; ours number whole packets and do not
look at the objects inside.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError

# type, flags, body length
_OBJECT: Final = Struct("<BBH")
OBJECT_HEAD_BYTES: Final = _OBJECT.size
OBJECT_BODY_BYTES_MAX: Final = 0xFFFF
OBJECTS_MAX: Final = 0x4000
"""Limit of the objects in one packet: the number of empty ones that fit in PACKET_BYTES_MAX."""

VIEW_BYTES_MIN: Final = 16 * 1024
"""A received piece of at least this size is used in place, as a view of its packet. A shorter one is copied, so
that it does not keep a packet in memory that is many times as long."""


class ObjectType(IntEnum):
    """The types of objects, by their number on the wire."""

    ROUTED = 1
    META = 2
    UPDATE = 3
    CONTROL = 4
    UNRELIABLE = 5
    PING = 6


def encode_object(kind: ObjectType, *body: bytes | memoryview) -> bytes:
    """Encodes one object; its body may come in several parts. The payload of a packet is objects, joined."""
    size_bytes = 0
    for part in body:
        size_bytes += len(part)
    return b"".join([_OBJECT.pack(kind, 0, size_bytes), *body])


def split_objects(payload: bytes | memoryview) -> list[tuple[int, memoryview]]:
    """The objects of a packet as (type, body); every length is checked before it is used."""
    view = memoryview(payload)
    end = len(view)
    at = 0
    objects: list[tuple[int, memoryview]] = []
    while at < end:
        if at + OBJECT_HEAD_BYTES > end:
            raise PeerError(Drop.TRUNCATED, f"{end - at} bytes hold no object head")
        head: tuple[int, int, int] = _OBJECT.unpack_from(view, at)
        kind, flags, length = head
        at += OBJECT_HEAD_BYTES
        if flags:
            raise PeerError(Drop.INCONSISTENT, f"object with flags {flags:#04x}, of which there are none")
        if at + length > end:
            raise PeerError(Drop.LENGTH, f"object of {length} bytes in {end - at}")
        if len(objects) == OBJECTS_MAX:
            raise PeerError(Drop.LIMIT, f"more than {OBJECTS_MAX} objects in a packet")
        objects.append((kind, view[at : at + length]))
        at += length
    return objects
