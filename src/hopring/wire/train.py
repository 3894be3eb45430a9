"""Encodes frames into datagrams and trains, and decodes them, with a fast path for a complete train.

A train is a run of datagrams of one size, laid end to end in one buffer, so that the kernel can send it in one
call (UDP_SEGMENT) and hand it over in one read (UDP_GRO). A receive buffer may hold segments of several trains.
MEMBERSHIP frames, which carry the messages of the membership protocol outside all links, are defined here.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, unpack_from
from typing import Final, assert_never, final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.data import (
    DATA_HEAD_BYTES,
    SEGMENT_OVERHEAD_BYTES,
    SEGMENTS_MAX,
    Data,
    Segment,
    chunk_bytes_of,
    datagrams_max_of,
    decode_data,
    encode_data,
    encode_data_head,
    encode_segment,
    filled_by,
    segment_count,
)
from hopring.wire.header import (
    FRAMES_MAX,
    HEAD_BYTES,
    Family,
    FrameType,
    Header,
    decode_header,
    encode_frame,
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
from hopring.wire.unreliable import Loose, decode_loose, encode_loose

MEMBERSHIP_DATAGRAM_BYTES_MAX = 60_000
"""Limit of a datagram with a membership message; above the path's MTU, IP fragments it."""


@final
class MembershipFrame(Value):
    """A message of the membership protocol, which the membership layer decodes."""

    def __init__(self, payload: bytes) -> None:
        self.payload: Final = payload


def encode_membership(frame: MembershipFrame) -> bytes:
    """The message as a frame."""
    return encode_frame(FrameType.MEMBERSHIP, frame.payload)


def decode_membership(body: bytes) -> MembershipFrame:
    """Decodes the body of a MEMBERSHIP frame."""
    if not len(body):
        raise PeerError(Drop.TRUNCATED, "MEMBERSHIP without a message")
    return MembershipFrame(body)


Frame = Data | Segment | Ack | Nack | Token | Hurry | Held | MembershipFrame | Loose

# A train's segment up to its index, and from there to its chunk.
_BEFORE_INDEX: Final = Struct("<BBHQ")
_AFTER_INDEX: Final = Struct("<BI")
_INDEX_AT: Final = HEAD_BYTES + _BEFORE_INDEX.size
_CHUNK_AT: Final = SEGMENT_OVERHEAD_BYTES
_INDEXES: Final = [bytes([index]) for index in range(SEGMENTS_MAX)]


@final
class Train(Value):
    """Consecutive datagrams of `segment_bytes`; only the last may be shorter."""

    def __init__(self, buffer: bytes, segment_bytes: int) -> None:
        self.buffer: Final = buffer
        self.segment_bytes: Final = segment_bytes

    def datagrams(self) -> list[bytes]:
        """The single datagrams, if the kernel cannot segment."""
        size = self.segment_bytes
        if len(self.buffer) <= size:
            return [self.buffer]
        return [self.buffer[at : at + size] for at in range(0, len(self.buffer), size)]


@final
class LongDatagram(Value):
    """A datagram in two pieces, cut behind the head of its first DATA frame: a long payload is not copied."""

    def __init__(self, start: bytes, rest: bytes) -> None:
        self.start: Final = start  # SEGMENT_OVERHEAD_BYTES.
        self.rest: Final = rest

    @property
    def whole(self) -> bytes:
        """The datagram in one piece."""
        return self.start + self.rest


@final
class Packet(Value):
    """The content of one datagram, or of one complete train."""

    def __init__(self, header: Header, frames: tuple[Frame, ...]) -> None:
        self.header: Final = header
        self.frames: Final = frames


def encode(head: bytes, frames: Sequence[Frame], segment_bytes: int) -> list[Train]:
    """Packs frames, in order, into as few datagrams as possible, and datagrams into trains."""
    trains: list[Train] = []
    parts: list[bytes] = []  # Of the open train: headers and frames alternate.
    full = 0  # The number of closed datagrams of the open train, which are all full.
    size = 0  # The bytes of its last datagram, which may get more frames.
    held = 0  # The frames of its last datagram.
    for frame in frames:
        if isinstance(frame, Data) and len(frame.payload) > segment_bytes - SEGMENT_OVERHEAD_BYTES:
            if parts:
                trains.append(Train(b"".join(parts), segment_bytes))
            parts = _cut_train(head, frame, segment_bytes)
            full = len(parts) // 4
            size = HEAD_BYTES + len(parts[-1])
            held = 1
            continue
        body = _encode_frame(frame)
        if parts and (size + len(body) > segment_bytes or held == FRAMES_MAX):
            full += 1
            if size < segment_bytes or full == datagrams_max_of(segment_bytes):
                trains.append(Train(b"".join(parts), segment_bytes))
                parts = []
                full = 0
            size = held = 0
        if not size:
            parts.append(head)
            size = HEAD_BYTES
        parts.append(body)
        size += len(body)
        held += 1
        assert size <= segment_bytes, "a frame has to fit in a datagram"
    if parts:
        trains.append(Train(b"".join(parts), segment_bytes))
    return trains


def with_frames(train: Train, frames: Sequence[Frame], more: Sequence[Frame]) -> Train | None:
    """The datagram of these frames with more frames added; None if it is a longer train, or is full."""
    if len(train.buffer) > train.segment_bytes or len(frames) + len(more) > FRAMES_MAX:
        return None  # A second copy of a long train would cost more than another datagram.
    buffer = b"".join([train.buffer, *[_encode_frame(frame) for frame in more]])
    return Train(buffer, train.segment_bytes) if len(buffer) <= train.segment_bytes else None


def encode_both(
    head: bytes, frames: Sequence[Frame], more: Sequence[Frame], bytes_max: int
) -> tuple[bytes, int] | None:
    """One datagram with these frames and more behind them, and the bytes of those; None if it is too long."""
    if len(frames) + len(more) > FRAMES_MAX:
        return None
    size = HEAD_BYTES
    parts = [head]
    for frame in frames:
        if isinstance(frame, Data) and len(frame.payload) > bytes_max:
            return None  # Not worth encoding.
        parts.append(_encode_frame(frame))
        size += len(parts[-1])
    at = size
    for frame in more:
        parts.append(_encode_frame(frame))
        size += len(parts[-1])
    return (b"".join(parts), size - at) if size <= bytes_max else None


def encode_long(head: bytes, data: Data) -> LongDatagram:
    """One packet as a datagram that may be longer than any network takes."""
    return LongDatagram(head + encode_data_head(data.seq, len(data.payload)), data.payload)


def _cut_train(head: bytes, data: Data, segment_bytes: int) -> list[bytes]:
    """The parts of a train, four for each full datagram, then a header and a frame.

    These are the segments of `cut`, built by columns: a loop over segments would take six times as long.
    """
    payload = data.payload
    chunk_bytes = chunk_bytes_of(segment_bytes)
    count = segment_count(len(payload), chunk_bytes)
    assert count <= datagrams_max_of(segment_bytes), "a packet has to fit in a train"
    full = count - 1
    before, after = _around_index(head, data.seq, count, len(payload), chunk_bytes)
    parts = [before] * (4 * full)
    parts[1::4] = _INDEXES[:full]
    parts[2::4] = [after] * full
    parts[3::4] = unpack_from(f"{chunk_bytes}s" * full, payload)
    parts.append(head)
    parts.append(encode_segment(Segment(data.seq, full, count, len(payload), payload[full * chunk_bytes :])))
    return parts


def _encode_frame(frame: Frame) -> bytes:
    if isinstance(frame, Token):
        return encode_token(frame)
    if isinstance(frame, Data):
        return encode_data(frame)
    if isinstance(frame, Ack):
        return encode_ack(frame)
    if isinstance(frame, Segment):
        return encode_segment(frame)
    if isinstance(frame, Held):
        return encode_held(frame)
    if isinstance(frame, MembershipFrame):
        return encode_membership(frame)
    if isinstance(frame, Nack):
        return encode_nack(frame)
    if isinstance(frame, Hurry):
        return encode_hurry(frame)
    if isinstance(frame, Loose):
        return encode_loose(frame)
    assert_never(frame)


def decode(datagram: bytes, cluster: int) -> Packet:
    """Decodes one datagram; raises PeerError for anything that a correct peer does not send."""
    header = decode_header(datagram, cluster)
    if header.family is Family.TCP:
        raise PeerError(Drop.UNKNOWN_TYPE, "a stream's greeting as a datagram")
    frames: list[Frame] = []
    for kind, body in split_frames(datagram):
        # The two frequent ones are called directly: a call by way of the table takes several times as long.
        if kind == _DATA:
            frames.append(decode_data(body))
        elif kind == _TOKEN:
            frames.append(decode_token(body))
        else:
            frames.append(_decode_rare(kind, body))
    if not frames:
        raise PeerError(Drop.TRUNCATED, "datagram without a frame")
    return Packet(header, tuple(frames))


def _decode_rare(kind: int, body: bytes) -> Frame:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"frame of type {kind}")
    return decoder(body)


_DATA: Final = int(FrameType.DATA)
_TOKEN: Final = int(FrameType.TOKEN)
_DECODERS: Final[dict[int, Callable[[bytes], Frame]]] = {
    FrameType.ACK: decode_ack,
    FrameType.NACK: decode_nack,
    FrameType.HURRY: decode_hurry,
    FrameType.HELD: decode_held,
    FrameType.MEMBERSHIP: decode_membership,
    FrameType.LOOSE: decode_loose,
}


def decode_train(buffer: memoryview, segment_bytes: int, cluster: int) -> Iterable[Packet | PeerError]:
    """All packets of one receive buffer; for a bad datagram, its error."""
    assert segment_bytes > 0, "the kernel reports the size of the datagrams"
    if len(buffer) <= segment_bytes:
        return (decoded(buffer.tobytes(), cluster),)
    whole = _whole_train(buffer, segment_bytes, cluster)
    if whole is not None:
        return (whole,)
    starts = range(0, len(buffer), segment_bytes)
    return [decoded(buffer[at : at + segment_bytes].tobytes(), cluster) for at in starts]


def decode_long(datagram: LongDatagram, cluster: int) -> Packet:
    """As `decode`; the payload of a packet that fills the datagram is not copied."""
    start, rest = datagram.start, datagram.rest
    header = decode_header(start, cluster)
    if header.family is not Family.TCP:
        seq = filled_by(start[HEAD_BYTES:], len(rest))
        if seq >= 0:
            return Packet(header, (Data(seq, rest),))
    return decode(datagram.whole, cluster)


def decoded(datagram: bytes | LongDatagram, cluster: int) -> Packet | PeerError:
    """One datagram, or the error to count."""
    try:
        if isinstance(datagram, LongDatagram):
            return decode_long(datagram, cluster)
        return decode(datagram, cluster)
    except PeerError as error:
        return error


def _whole_train(buffer: memoryview, segment_bytes: int, cluster: int) -> Packet | None:
    """The packet whose segments fill this buffer in order, or None if the buffer has anything else.

    Only the last datagram is decoded. From it follow the bytes of all other headers, which are compared, and
    the size of the packet.
    """
    full = (len(buffer) - 1) // segment_bytes
    chunk_bytes = chunk_bytes_of(segment_bytes)
    if not 0 < full < SEGMENTS_MAX or chunk_bytes <= 0:
        return None
    last_at = full * segment_bytes
    tail = decoded(buffer[last_at:].tobytes(), cluster)
    if isinstance(tail, PeerError):
        return None
    last = tail.frames[0]
    if not isinstance(last, Segment) or last.index != full or last.count != full + 1:
        return None
    if last.packet_bytes != full * chunk_bytes + len(last.chunk):
        return None
    columns = unpack_from(f"{_CHUNK_AT}s{chunk_bytes}s" * full, buffer)
    if b"".join(columns[::2]) != _full_heads(bytes(buffer[last_at : last_at + HEAD_BYTES]), last, chunk_bytes):
        return None
    payload = b"".join([*columns[1::2], last.chunk])
    return Packet(tail.header, (Data(last.seq, payload), *tail.frames[1:]))


def _full_heads(head: bytes, last: Segment, chunk_bytes: int) -> bytearray:
    """The headers of all full datagrams of a train, joined."""
    before, after = _around_index(head, last.seq, last.count, last.packet_bytes, chunk_bytes)
    heads = bytearray((before + _INDEXES[0] + after) * last.index)
    heads[_INDEX_AT::_CHUNK_AT] = bytes(range(last.index))
    return heads


def _around_index(
    head: bytes, seq: int, count: int, packet_bytes: int, chunk_bytes: int
) -> tuple[bytes, bytes]:
    """The bytes before and after the index in the headers of each full datagram of a train."""
    before = head + _BEFORE_INDEX.pack(FrameType.DATA, 0, DATA_HEAD_BYTES + chunk_bytes, seq)
    return before, _AFTER_INDEX.pack(count, packet_bytes)
