"""The header of every datagram: sender, cluster and link.

A datagram is this header and then frames. A frame is a type, a length and a body; so acknowledgements and other
short frames share a datagram with data.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.value import Value

MAGIC: Final = b"HR"
VERSION: Final = 1

# magic, version, family, cluster, sender, incarnation, generation
_HEAD: Final = Struct("<2sBBIHQQ")
HEAD_BYTES: Final = _HEAD.size
HEADS_KEPT_MAX: Final = 1024

# type, flags, body length
_FRAME: Final = Struct("<BBH")
FRAME_HEAD_BYTES: Final = _FRAME.size
FRAME_BODY_BYTES_MAX: Final = 0xFFFF
FRAMES_MAX: Final = 64


class Family(IntEnum):
    """The kind of link that a datagram belongs to."""

    HOP = 1
    RING = 2
    TCP = 3  # Only in the greeting of a stream; no datagram carries it.
    MEMBERSHIP = 4
    RMP = 5  # Packets of the second engine, each a DATA frame.


_FAMILIES: Final = frozenset(Family)


class FrameType(IntEnum):
    """The kinds of frames, in one number space for all families."""

    DATA = 1
    ACK = 2
    NACK = 3
    TOKEN = 4
    HURRY = 5
    HELD = 6
    MEMBERSHIP = 7
    LOOSE = 8


@final
class Header(Value):
    """The sender of a datagram and the link that it belongs to."""

    def __init__(
        self, family: Family, cluster: int, sender: DaemonId, incarnation: Incarnation, generation: Generation
    ) -> None:
        self.family: Final = family
        self.cluster: Final = cluster
        self.sender: Final = sender
        self.incarnation: Final = incarnation
        self.generation: Final = generation


def encode_header(header: Header) -> bytes:
    """Encodes a header; drivers store it, since it is the same for all packets of a link."""
    return _HEAD.pack(
        MAGIC,
        VERSION,
        header.family,
        header.cluster,
        header.sender,
        header.incarnation,
        header.generation,
    )


def decode_header(datagram: bytes, cluster: int) -> Header:
    """Decodes the header of a datagram; raises PeerError if it is malformed or of another cluster."""
    if len(datagram) < HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"{len(datagram)} bytes hold no header of {HEAD_BYTES}")
    head = datagram[:HEAD_BYTES]
    known = _heads.get(head)
    if known is not None and known.cluster == cluster:
        return known
    header = _decode_head(head, cluster)
    if len(_heads) >= HEADS_KEPT_MAX:
        _heads.clear()
    _heads[head] = header
    return header


_heads: Final[dict[bytes, Header]] = {}
"""A cache, because all packets of a link start with the same bytes; errors are not cached."""


def _decode_head(head: bytes, cluster: int) -> Header:
    magic, version, family, its_cluster, sender, incarnation, generation = _HEAD.unpack(head)
    if magic != MAGIC:
        raise PeerError(Drop.MAGIC, f"datagram starts with {magic!r}")
    if version != VERSION:
        raise PeerError(Drop.VERSION, f"protocol version {version}, we speak {VERSION}")
    if its_cluster != cluster:
        raise PeerError(Drop.CLUSTER, f"cluster hash {its_cluster:08x}, ours is {cluster:08x}")
    if family not in _FAMILIES:
        raise PeerError(Drop.UNKNOWN_TYPE, f"link family {family}")
    return Header(
        Family(family), its_cluster, DaemonId(sender), Incarnation(incarnation), Generation(generation)
    )


def encode_frame(kind: FrameType, body: bytes) -> bytes:
    """One frame with its head."""
    return _FRAME.pack(kind, 0, len(body)) + body


def split_frames(datagram: bytes) -> list[tuple[int, bytes]]:
    """The frames after the header as (type, body); every length is checked before it is used."""
    end = len(datagram)
    at = HEAD_BYTES
    frames: list[tuple[int, bytes]] = []
    while at < end:
        if at + FRAME_HEAD_BYTES > end:
            raise PeerError(Drop.TRUNCATED, f"{end - at} bytes hold no frame head")
        # Cheaper than a call of `unpack_from`.
        kind, flags, length = datagram[at], datagram[at + 1], datagram[at + 2] | datagram[at + 3] << 8
        at += FRAME_HEAD_BYTES
        if flags:
            raise PeerError(Drop.INCONSISTENT, f"frame with flags {flags:#04x}, of which there are none")
        if at + length > end:
            raise PeerError(Drop.LENGTH, f"frame of {length} bytes in {end - at}")
        if len(frames) == FRAMES_MAX:
            raise PeerError(Drop.LIMIT, f"more than {FRAMES_MAX} frames in a datagram")
        frames.append((kind, datagram[at : at + length]))
        at += length
    return frames
