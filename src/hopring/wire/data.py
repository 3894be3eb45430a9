"""DATA frames: one packet of a link, or one segment of a packet that travels as a train.

A packet of up to PACKET_BYTES_MAX is cut into chunks of one fixed size, one per datagram; only the last may be
shorter. Every segment has its packet's size and the number of segments, so that each can be checked, requested
and stored by itself.
"""

from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.header import FRAME_HEAD_BYTES, HEAD_BYTES, FrameType

# seq, index, count, packet bytes
_DATA: Final = Struct("<QBBI")
DATA_HEAD_BYTES: Final = _DATA.size
# The same after a frame head: type, flags, body length
_FRAMED: Final = Struct("<BBHQBBI")
_SEQ: Final = Struct("<Q")
SEGMENTS_MAX: Final = 46  # Their datagrams, at 1400 bytes each, fit in one 64 KiB send.
SEGMENT_BYTES_DEFAULT: Final = 1400
SEGMENT_OVERHEAD_BYTES: Final = HEAD_BYTES + FRAME_HEAD_BYTES + DATA_HEAD_BYTES
TRAIN_BYTES_MAX: Final = 65_000  # Limit of one UDP send, less some bytes for IP options.
PACKET_BYTES_MAX: Final = TRAIN_BYTES_MAX


@final
class Data(Value):
    """A whole packet of a link."""

    def __init__(self, seq: int, payload: bytes) -> None:
        self.seq: Final = seq
        self.payload: Final = payload


@final
class Segment(Value):
    """One of `count` chunks of packet `seq`."""

    def __init__(self, seq: int, index: int, count: int, packet_bytes: int, chunk: bytes) -> None:
        self.seq: Final = seq
        self.index: Final = index
        self.count: Final = count
        self.packet_bytes: Final = packet_bytes
        self.chunk: Final = chunk


@final
class Missing(Value):
    """A request of a receiver: `count` whole packets from `seq` on, or some segments of packet `seq`."""

    def __init__(self, seq: int, count: int, segments: int = 0) -> None:
        self.seq: Final = seq
        self.count: Final = count
        self.segments: Final = segments  # A bit for each segment; 0 requests whole packets.


_MISSING: Final = Struct("<QHQ")
MISSING_BYTES: Final = _MISSING.size
MISSING_MAX: Final = 64
"""Limit of the requests in one NACK or token."""


def chunk_bytes_of(segment_bytes: int) -> int:
    """The bytes of a packet that fit in a datagram of this size."""
    return segment_bytes - SEGMENT_OVERHEAD_BYTES


def datagrams_max_of(segment_bytes: int) -> int:
    """The number of datagrams of this size in the longest train."""
    return min(SEGMENTS_MAX, TRAIN_BYTES_MAX // segment_bytes)


def packet_bytes_of(segment_bytes: int) -> int:
    """The largest packet that fits in one train of datagrams of this size."""
    return datagrams_max_of(segment_bytes) * chunk_bytes_of(segment_bytes)


def segment_count(packet_bytes: int, chunk_bytes: int) -> int:
    """The number of segments of a packet of this size; an empty packet has one."""
    return -(-packet_bytes // chunk_bytes) or 1


def cut(seq: int, payload: bytes, chunk_bytes: int) -> list[Segment]:
    """The segments of a packet: chunks of one size, except the last."""
    count = segment_count(len(payload), chunk_bytes)
    return [
        Segment(seq, index, count, len(payload), payload[index * chunk_bytes : (index + 1) * chunk_bytes])
        for index in range(count)
    ]


def encode_data(data: Data) -> bytes:
    """A packet that fits in one datagram, as a frame."""
    return encode_data_head(data.seq, len(data.payload)) + data.payload


def encode_data_head(seq: int, packet_bytes: int) -> bytes:
    """What comes before the payload in the frame of a whole packet."""
    return _FRAMED.pack(FrameType.DATA, 0, DATA_HEAD_BYTES + packet_bytes, seq, 0, 1, packet_bytes)


def filled_by(head: bytes, packet_bytes: int) -> int:
    """The number of the whole packet of this size that begins with this head; -1 if it is anything else."""
    if len(head) != _FRAMED.size or packet_bytes > PACKET_BYTES_MAX:
        return -1
    seq: int = _SEQ.unpack_from(head, FRAME_HEAD_BYTES)[0]
    return seq if head == encode_data_head(seq, packet_bytes) else -1


def encode_segment(segment: Segment) -> bytes:
    """One segment as a frame."""
    head = _FRAMED.pack(
        FrameType.DATA,
        0,
        DATA_HEAD_BYTES + len(segment.chunk),
        segment.seq,
        segment.index,
        segment.count,
        segment.packet_bytes,
    )
    return head + segment.chunk


def decode_data(body: bytes) -> Data | Segment:
    """Decodes the body of a DATA frame; a packet of one segment is returned as `Data`."""
    if len(body) < DATA_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"DATA of {len(body)} bytes")
    numbers: tuple[int, int, int, int] = _DATA.unpack_from(body)
    seq, index, count, packet_bytes = numbers
    length = len(body) - DATA_HEAD_BYTES
    if not 1 <= count <= SEGMENTS_MAX or index >= count:
        raise PeerError(Drop.INCONSISTENT, f"segment {index} of {count}")
    if packet_bytes > PACKET_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"packet of {packet_bytes} bytes, the limit is {PACKET_BYTES_MAX}")
    if not _cut_fits(index, count, packet_bytes, length):
        raise PeerError(Drop.INCONSISTENT, f"segment {index} of {count}, {length} of {packet_bytes} bytes")
    chunk = body[DATA_HEAD_BYTES:]
    if count == 1:
        return Data(seq, chunk)
    return Segment(seq, index, count, packet_bytes, chunk)


def _cut_fits(index: int, count: int, packet_bytes: int, length: int) -> bool:
    """Whether all chunks can have one size, except a shorter last one, if this segment has this length."""
    if count == 1:
        return length == packet_bytes
    if index < count - 1:
        return (count - 1) * length < packet_bytes <= count * length
    each, rest = divmod(packet_bytes - length, count - 1)
    return rest == 0 and 0 < length <= each


def encode_missing(missing: tuple[Missing, ...]) -> bytes:
    """Encodes requests as in a NACK or a token."""
    assert len(missing) <= MISSING_MAX, "cut the list before it is sent"
    return b"".join([_MISSING.pack(one.seq, one.count, one.segments) for one in missing])


def decode_missing(body: bytes) -> tuple[Missing, ...]:
    """Decodes requests, which must fill this body exactly."""
    if not len(body):
        return ()  # As on most tokens.
    if len(body) % MISSING_BYTES:
        raise PeerError(Drop.LENGTH, f"{len(body)} bytes are not a list of requests")
    if len(body) > MISSING_MAX * MISSING_BYTES:
        raise PeerError(Drop.LIMIT, f"more than {MISSING_MAX} requests")
    missing = tuple(Missing(*fields) for fields in _MISSING.iter_unpack(body))
    for one in missing:
        if one.count == 0 or (one.segments and one.count != 1) or one.segments >> SEGMENTS_MAX:
            raise PeerError(Drop.INCONSISTENT, f"request for {one}")
    return missing
