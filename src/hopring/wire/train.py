"""Frames to datagrams and back: packing, trains, and the fast path for a train that arrived whole.

A train is a run of datagrams of one size, laid end to end in one buffer, so that the kernel can send it in one
call (UDP_SEGMENT) and hand it over in one read (UDP_GRO). A receive buffer may hold segments of several trains.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.wire.data import (
    DATA_HEAD_BYTES,
    SEGMENTS_MAX,
    Data,
    Segment,
    chunk_bytes_of,
    cut,
    decode_data,
    encode_data,
    encode_segment,
)
from hopring.wire.header import (
    FRAME_HEAD_BYTES,
    HEAD_BYTES,
    FrameType,
    Header,
    decode_header,
    split_frames,
)
from hopring.wire.hop import Ack, Nack, decode_ack, decode_nack, encode_ack, encode_nack
from hopring.wire.ring import (
    Held,
    Hurry,
    Token,
    decode_held,
    decode_hurry,
    decode_token,
    encode_held,
    encode_hurry,
    encode_token,
)

Frame = Data | Segment | Ack | Nack | Token | Hurry | Held

_CHUNK_AT: Final = HEAD_BYTES + FRAME_HEAD_BYTES + DATA_HEAD_BYTES
_INDEX_AT: Final = HEAD_BYTES + FRAME_HEAD_BYTES + 8
_SEGMENT_HEAD: Final = Struct("<BBHQBBI")
_INDEXES: Final = [bytes(range(count)) for count in range(SEGMENTS_MAX + 1)]


@dataclass(frozen=True, slots=True)
class Train:
    """Datagrams of `segment_bytes` end to end; only the last may be shorter."""

    buffer: bytes
    segment_bytes: int

    def datagrams(self) -> list[bytes]:
        """Each datagram by itself, where the kernel cannot cut."""
        size = self.segment_bytes
        return [self.buffer[at : at + size] for at in range(0, len(self.buffer), size)]


@dataclass(frozen=True, slots=True)
class Packet:
    """What one datagram, or one whole train, carried."""

    header: Header
    frames: tuple[Frame, ...]


def encode(head: bytes, frames: Sequence[Frame], segment_bytes: int) -> list[Train]:
    """Packs frames into as few datagrams as their order allows."""
    trains: list[Train] = []
    riders = b""
    for frame in frames:
        if isinstance(frame, Data) and len(frame.payload) > chunk_bytes_of(segment_bytes):
            if riders:
                trains.append(Train(head + riders, segment_bytes))
            full, riders = _cut_train(head, frame, segment_bytes)
            trains.append(Train(full, segment_bytes))
        else:
            body = _encode_frame(frame)
            if riders and HEAD_BYTES + len(riders) + len(body) > segment_bytes:
                trains.append(Train(head + riders, segment_bytes))
                riders = b""
            riders += body
    if riders:
        trains.append(Train(head + riders, segment_bytes))
    return _join_tails(trains)


def _cut_train(head: bytes, data: Data, segment_bytes: int) -> tuple[bytes, bytes]:
    """The full datagrams of a train, and the last segment's frame, on which others may ride."""
    segments = [
        encode_segment(segment) for segment in cut(data.seq, data.payload, chunk_bytes_of(segment_bytes))
    ]
    return b"".join([head + segment for segment in segments[:-1]]), segments[-1]


def _join_tails(trains: list[Train]) -> list[Train]:
    """Lets a short datagram that follows full ones end their train."""
    joined: list[Train] = []
    for train in trains:
        last = joined[-1] if joined else None
        fits = (
            last is not None
            and len(last.buffer) % last.segment_bytes == 0
            and len(train.buffer) <= last.segment_bytes
            and len(last.buffer) // last.segment_bytes < SEGMENTS_MAX
        )
        if fits and last is not None:
            joined[-1] = Train(last.buffer + train.buffer, last.segment_bytes)
        else:
            joined.append(train)
    return joined


def _encode_frame(frame: Frame) -> bytes:
    match frame:
        case Data():
            return encode_data(frame)
        case Segment():
            return encode_segment(frame)
        case Ack():
            return encode_ack(frame)
        case Nack():
            return encode_nack(frame)
        case Token():
            return encode_token(frame)
        case Hurry():
            return encode_hurry(frame)
        case Held():
            return encode_held(frame)


def decode(datagram: bytes | memoryview, cluster: int) -> Packet:
    """One datagram; raises PeerError for anything a correct peer does not send."""
    header = decode_header(datagram, cluster)
    frames = tuple(_decode_frame(kind, body) for kind, body in split_frames(datagram))
    if not frames:
        raise PeerError(Drop.TRUNCATED, "datagram without a frame")
    return Packet(header, frames)


def _decode_frame(kind: int, body: memoryview) -> Frame:
    match kind:
        case FrameType.DATA:
            return decode_data(body)
        case FrameType.ACK:
            return decode_ack(body)
        case FrameType.NACK:
            return decode_nack(body)
        case FrameType.TOKEN:
            return decode_token(body)
        case FrameType.HURRY:
            return decode_hurry(body)
        case FrameType.HELD:
            return decode_held(body)
    raise PeerError(Drop.UNKNOWN_TYPE, f"frame of type {kind}")


def decode_train(buffer: memoryview, segment_bytes: int, cluster: int) -> Iterable[Packet | PeerError]:
    """All packets of one receive buffer, bad datagrams as the errors to count."""
    whole = _whole_train(buffer, segment_bytes, cluster)
    if whole is not None:
        return (whole,)
    return [
        _decode_or_error(buffer[at : at + segment_bytes], cluster)
        for at in range(0, len(buffer), segment_bytes)
    ]


def _decode_or_error(datagram: memoryview, cluster: int) -> Packet | PeerError:
    try:
        return decode(datagram, cluster)
    except PeerError as error:
        return error


def _whole_train(buffer: memoryview, segment_bytes: int, cluster: int) -> Packet | None:
    """The packet whose segments fill this buffer in order, or None if it is anything else."""
    size = len(buffer)
    count = -(-size // segment_bytes)
    if not 1 < count <= SEGMENTS_MAX or segment_bytes <= _CHUNK_AT:
        return None
    kind, _flags, length, seq, _index, its_count, packet_bytes = _SEGMENT_HEAD.unpack_from(buffer, HEAD_BYTES)
    chunk = segment_bytes - _CHUNK_AT
    if kind != FrameType.DATA or its_count != count or length != chunk + DATA_HEAD_BYTES:
        return None
    if not _heads_alike(buffer, segment_bytes, count):
        return None
    last = _decode_or_error(buffer[(count - 1) * segment_bytes :], cluster)
    if isinstance(last, PeerError):
        return None
    tail = last.frames[0]
    if not isinstance(tail, Segment) or (tail.seq, tail.index, tail.count) != (seq, count - 1, count):
        return None
    if tail.packet_bytes != packet_bytes or len(tail.chunk) != packet_bytes - (count - 1) * chunk:
        return None
    chunks = [
        buffer[at + _CHUNK_AT : at + segment_bytes]
        for at in range(0, (count - 1) * segment_bytes, segment_bytes)
    ]
    payload = b"".join([*chunks, tail.chunk])
    return Packet(last.header, (Data(seq, payload), *last.frames[1:]))


def _heads_alike(buffer: memoryview, segment_bytes: int, count: int) -> bool:
    """Whether the full datagrams differ only in their index, which must count up from 0."""
    if bytes(buffer[_INDEX_AT::segment_bytes]) != _INDEXES[count]:
        return False
    before = bytes(buffer[:_INDEX_AT])
    after = bytes(buffer[_INDEX_AT + 1 : _CHUNK_AT])
    for at in range(segment_bytes, (count - 1) * segment_bytes, segment_bytes):
        if buffer[at : at + _INDEX_AT] != before or buffer[at + _INDEX_AT + 1 : at + _CHUNK_AT] != after:
            return False
    # The last datagram is checked as a packet of its own, but must come from the same link.
    at = (count - 1) * segment_bytes
    return buffer[at : at + HEAD_BYTES] == before[:HEAD_BYTES]
