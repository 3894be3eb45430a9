"""Unreliable bundles on the wire: an object for each fragment, and the LOOSE frame that carries such objects.

A LOOSE frame has no number on its link and fits in one datagram; it is neither requested nor sent again.
Fragments are identified by the daemon that sent them and by its own count of Unreliable bundles, which is
independent of the site's sequence (report 1998, 3.3).
"""

from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import DAEMONS_MAX, SITES_MAX, DaemonId, SiteId, SiteMask
from hopring.value import Value
from hopring.wire.header import FRAME_HEAD_BYTES, HEAD_BYTES, FrameType, encode_frame
from hopring.wire.objects import OBJECT_HEAD_BYTES, ObjectType, encode_object

# source, daemon, number; then mask, fragment index, fragment count
_BUNDLE_ID: Final = Struct("<BHQ")
_HEAD: Final = Struct("<BHQQHH")
UNRELIABLE_OVERHEAD_BYTES: Final = OBJECT_HEAD_BYTES + _HEAD.size
_BUNDLE_ID_END: Final = OBJECT_HEAD_BYTES + _BUNDLE_ID.size
FRAGMENTS_MAX: Final = 0xFFFF


@final
class Unreliable(Value):
    """Fragment `index` of `count` of Unreliable bundle `number` of a daemon."""

    def __init__(
        self,
        source: SiteId,
        daemon: DaemonId,
        number: int,
        mask: SiteMask,
        index: int,
        count: int,
        chunk: bytes,
    ) -> None:
        self.source: Final = source
        self.daemon: Final = daemon
        self.number: Final = number  # From 1 on, in one network.
        self.mask: Final = mask
        self.index: Final = index
        self.count: Final = count
        self.chunk: Final = chunk


@final
class Loose(Value):
    """A frame of objects of Unreliable bundles; it has no number on the link."""

    def __init__(self, payload: bytes) -> None:
        self.payload: Final = payload


def loose_bytes_of(segment_bytes: int) -> int:
    """The longest object that a LOOSE frame carries in a datagram of this size."""
    return segment_bytes - HEAD_BYTES - FRAME_HEAD_BYTES


def encode_unreliable(item: Unreliable) -> bytes:
    """The fragment as an object."""
    head = _HEAD.pack(item.source, item.daemon, item.number, item.mask, item.index, item.count)
    return encode_object(ObjectType.UNRELIABLE, head + item.chunk)


def bundle_id(payload: bytes) -> bytes:
    """The part of an encoded object that identifies its bundle: site, daemon and number."""
    return payload[OBJECT_HEAD_BYTES:_BUNDLE_ID_END]


def decode_unreliable(kind: int, body: memoryview) -> Unreliable:
    """Decodes the body of an UNRELIABLE object; a LOOSE frame carries no other type."""
    if kind != ObjectType.UNRELIABLE:
        raise PeerError(Drop.UNKNOWN_TYPE, f"object of type {kind} outside the numbering of its link")
    if len(body) <= _HEAD.size:
        raise PeerError(Drop.TRUNCATED, f"UNRELIABLE of {len(body)} bytes")
    source, daemon, number, mask, index, count = _HEAD.unpack_from(body)
    if source >= SITES_MAX or daemon >= DAEMONS_MAX:
        raise PeerError(Drop.LIMIT, f"UNRELIABLE of daemon {daemon} at site {source}")
    if not number or index >= count:
        raise PeerError(Drop.INCONSISTENT, f"fragment {index} of {count} of UNRELIABLE {number}")
    chunk = bytes(body[_HEAD.size :])
    return Unreliable(SiteId(source), DaemonId(daemon), number, SiteMask(mask), index, count, chunk)


def cut_unreliable(
    source: SiteId, daemon: DaemonId, number: int, mask: SiteMask, bundle: bytes, object_bytes_max: int
) -> list[Unreliable]:
    """Cuts a bundle into fragments; encoded, each is an object of at most this size."""
    size = object_bytes_max - UNRELIABLE_OVERHEAD_BYTES
    assert size > 0, "no objects of this size"
    assert bundle, "a bundle is not empty"
    count = -(-len(bundle) // size)
    assert count <= FRAGMENTS_MAX, "the objects are too small for this bundle"
    return [
        Unreliable(source, daemon, number, mask, index, count, bundle[index * size : (index + 1) * size])
        for index in range(count)
    ]


def encode_loose(loose: Loose) -> bytes:
    """The objects as a frame."""
    return encode_frame(FrameType.LOOSE, loose.payload)


def decode_loose(body: bytes) -> Loose:
    """Decodes the body of a LOOSE frame; the stack splits it into objects."""
    if not len(body):
        raise PeerError(Drop.TRUNCATED, "LOOSE without an object")
    return Loose(body)
