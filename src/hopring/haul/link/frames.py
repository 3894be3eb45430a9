"""Frames of the connection between two clusters, and their encoding.

Implements  Makpangou and Birman, 5.1 and 5.2.1: messages with their descriptors, acknowledgements that ride on
            the messages of the other direction.
Below       a stream of bytes in each direction (wide/links.py).
Above       channels and connections.
Invariants  a length is checked before anything of that length is kept or read; what no correct cluster sends is
            a PeerError. Whether a frame fits the state of a set is the question of the layers above.

A frame is its length (32 bits, little-endian), its type (8 bits) and its fields.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.haul.ids import (
    CLUSTERS_MAX,
    SET_NAME_BYTES_MAX,
    SETS_MAX,
    TALK_NAME_BYTES_MAX,
    ClusterId,
    ClusterMask,
    ParcelId,
    Talk,
)
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.runs import DescriptorRun
from hopring.ids import NUMBER_MAX
from hopring.wire.fields import Reader, block, text, u8, u16, u64

FRAME_VERSION: Final = 2
DIGEST_BYTES: Final = 32
BODY_BYTES_MAX: Final = 160 * 1024
"""The body of a parcel: one message of 128 KiB, or several shorter ones, and what the service adds."""

DESCRIPTORS_MAX: Final = 5_000
"""Runs of descriptors in one frame; what is more goes in frames before it."""

CHUNK_BYTES_MAX: Final = 64 * 1024
FILES_MAX: Final = 1_000
"""Files under way from one cluster to another."""

FILE_NAME_BYTES_MAX: Final = 255
FILE_BYTES_MAX: Final = 2**50
TEXT_BYTES_MAX: Final = 1_024
GREETING_BYTES_MAX: Final = 96 * 1024
"""The longest frame before both ends have greeted each other."""

FRAME_BYTES_MAX: Final = 1024 * 1024
_LENGTH: Final = Struct("<I")
LENGTH_BYTES: Final = _LENGTH.size


class LinkFrameType(IntEnum):
    """The first byte of a frame."""

    HELLO = 1
    WELCOME = 2
    REFUSE = 3
    DATA = 4
    DESC = 5
    ACK = 6
    CHUNK = 7
    CHUNK_ACK = 8
    WANT = 9
    BEAT = 10
    BYE = 11
    SET = 12


class LinkGeneration(NamedTuple):
    """Which of the connections between two clusters is the present one: by epoch of the log, then by number."""

    epoch: int
    number: int


class SetReceived(NamedTuple):
    """All frames of a set up to this number are logged at the sender of an acknowledgement."""

    set: str
    number: int


class FileOffset(NamedTuple):
    """How much of a file is there."""

    digest: bytes
    offset: int


class WideFile(NamedTuple):
    """A file that belongs to a parcel."""

    name: str  # Where the receiver puts it, relative to the directory of the set; empty for a place of its own.
    size_bytes: int
    digest: bytes  # SHA-256 of its content.


@dataclass(frozen=True, slots=True)
class Greeting:
    """HELLO of the cluster that dials, and WELCOME of the other one: what each has to know of the other."""

    wide: str  # The name in the clusters file.
    digest: bytes  # Of that part of the clusters file which concerns these two.
    cluster: ClusterId
    incarnation: int  # Of the sender's state: another one if that was lost.
    generation: LinkGeneration
    received: tuple[SetReceived, ...] = ()
    files: tuple[FileOffset, ...] = ()
    welcome: bool = False
    version: int = FRAME_VERSION


@dataclass(frozen=True, slots=True)
class Refuse:
    """The connection is refused; it ends."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ParcelFrame:
    """DATA: a parcel with its body, and the descriptors that the receiver was not told of yet."""

    set: str
    number: int  # In the line of frames of this set in this direction.
    received: int  # All frames of the set in the other direction up to here.
    parcel: Parcel
    descriptors: tuple[DescriptorRun, ...]
    body: bytes
    file: WideFile | None = None


@dataclass(frozen=True, slots=True)
class DescriptorsFrame:
    """DESC: descriptors by themselves, in the same line as parcels."""

    set: str
    number: int
    received: int
    descriptors: tuple[DescriptorRun, ...]


@dataclass(frozen=True, slots=True)
class SetFrame:
    """SET: introduces a wide set with its clusters, in the same line as its parcels and before them."""

    set: str
    number: int
    received: int
    clusters: ClusterMask


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """ACK: acknowledgements without anything else."""

    received: tuple[SetReceived, ...]


@dataclass(frozen=True, slots=True)
class ChunkFrame:
    """A part of a file on its way."""

    digest: bytes  # Of the whole file, whose name it is here.
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ChunkReceived:
    """CHUNKACK: the receiver has a file up to this offset on its disk."""

    file: FileOffset


@dataclass(frozen=True, slots=True)
class WantFrame:
    """Asks for a parcel for which others wait. It is not numbered: who still lacks the parcel asks again."""

    set: str
    id: ParcelId


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life without content."""


@dataclass(frozen=True, slots=True)
class Bye:
    """The connection ends as intended; `reason` is for people."""

    reason: str


LinkFrame = (
    Greeting
    | Refuse
    | ParcelFrame
    | DescriptorsFrame
    | SetFrame
    | ReceivedFrame
    | ChunkFrame
    | ChunkReceived
    | WantFrame
    | Beat
    | Bye
)


def encode_frame(frame: LinkFrame) -> bytes:
    """A frame with its length before it."""
    if isinstance(frame, Greeting):
        kind = LinkFrameType.WELCOME if frame.welcome else LinkFrameType.HELLO
        body = u8(kind) + _greeting(frame)
    else:
        kind, encoder = _ENCODERS[type(frame)]
        body = u8(kind) + encoder(frame)
    assert len(body) <= FRAME_BYTES_MAX, "limits of the fields keep frames below it"
    return _LENGTH.pack(len(body)) + body


def decode_frame(body: bytes) -> LinkFrame:
    """The frame in these bytes, which follow a length; raises PeerError if it is malformed or above a limit."""
    reader = Reader(body)
    kind = reader.u8()
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"frame of type {kind}")
    frame = decoder(reader)
    reader.end()
    return frame


@dataclass(slots=True)
class LinkFrameReader:
    """One direction of a connection as it arrives, in chunks of any size; it cannot go on after a PeerError."""

    bytes_max: int = GREETING_BYTES_MAX
    _pending: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> None:
        """Takes bytes; `next` has the frames that they complete."""
        self._pending += chunk

    def next(self) -> LinkFrame | None:
        """The next complete frame; None if there is none. A length is checked as soon as it is there."""
        pending = self._pending
        if len(pending) < LENGTH_BYTES:
            return None
        length: int = _LENGTH.unpack_from(pending)[0]
        if not 0 < length <= self.bytes_max:
            raise PeerError(Drop.LIMIT, f"frame of {length} bytes, the limit is {self.bytes_max}")
        end = LENGTH_BYTES + length
        if len(pending) < end:
            return None
        body = bytes(memoryview(pending)[LENGTH_BYTES:end])
        del pending[:end]
        return decode_frame(body)


# Parts of frames.


def _set(reader: Reader) -> str:
    name = reader.text(SET_NAME_BYTES_MAX)
    if not name:
        raise PeerError(Drop.INCONSISTENT, "a set without a name")
    return name


def _cluster(reader: Reader) -> ClusterId:
    number = reader.u8()
    if not 0 < number <= CLUSTERS_MAX:
        raise PeerError(Drop.INCONSISTENT, f"cluster {number}")
    return ClusterId(number)


def _mask(reader: Reader) -> ClusterMask:
    return ClusterMask(reader.nonce())


def _number(reader: Reader) -> int:
    return reader.number(NUMBER_MAX)


def _positive(reader: Reader) -> int:
    number = _number(reader)
    if not number:
        raise PeerError(Drop.INCONSISTENT, "number 0 of something that counts from 1")
    return number


def _digest(reader: Reader) -> bytes:
    return reader.exactly(DIGEST_BYTES)


def _talk(talk: Talk) -> bytes:
    return u64(talk.participants) + text(talk.name)


def _read_talk(reader: Reader) -> Talk:
    participants = _mask(reader)
    if not participants:
        raise PeerError(Drop.INCONSISTENT, "a talk of nobody")
    return Talk(participants, reader.text(TALK_NAME_BYTES_MAX))


def _runs(runs: tuple[DescriptorRun, ...]) -> bytes:
    assert len(runs) <= DESCRIPTORS_MAX, "descriptors of a frame have a limit"
    parts = [u16(len(runs))]
    for run in runs:
        parts += [u8(run.sender), u64(run.first), u64(run.last), _talk(run.talk)]
        parts += [u64(run.destinations), u64(run.missing)]
    return b"".join(parts)


def _read_runs(reader: Reader) -> tuple[DescriptorRun, ...]:
    return tuple([_read_run(reader) for _ in range(reader.count(DESCRIPTORS_MAX))])


def _read_run(reader: Reader) -> DescriptorRun:
    sender, first, last = _cluster(reader), _positive(reader), _positive(reader)
    return DescriptorRun(sender, first, last, _read_talk(reader), _mask(reader), _mask(reader))


def _parcel(parcel: Parcel) -> bytes:
    past = [u8(cluster) + u64(count) for cluster, count in parcel.past]
    head = u8(parcel.id.sender) + u64(parcel.id.number) + _talk(parcel.talk) + u8(parcel.kind)
    rest = u64(parcel.destinations) + u16(parcel.entry) + u64(parcel.order) + u64(parcel.answers)
    return b"".join([head, rest, u16(len(past)), *past])


def _read_parcel(reader: Reader) -> Parcel:
    parcel_id = ParcelId(_cluster(reader), _positive(reader))
    talk, kind = _read_talk(reader), reader.u8()
    if kind not in {int(one) for one in CastKind}:
        raise PeerError(Drop.UNKNOWN_TYPE, f"parcel of kind {kind}")
    destinations, entry, order, answers = _mask(reader), reader.u16(), _number(reader), _number(reader)
    past = tuple([(_cluster(reader), _positive(reader)) for _ in range(reader.count(CLUSTERS_MAX))])
    if [one for one, _ in past] != sorted({one for one, _ in past}):
        raise PeerError(Drop.INCONSISTENT, "a past that is not sorted")
    return Parcel(parcel_id, talk, CastKind(kind), destinations, entry, past, order, answers)


def _file(file: WideFile | None) -> bytes:
    if file is None:
        return u8(0)
    return u8(1) + text(file.name, FILE_NAME_BYTES_MAX) + u64(file.size_bytes) + file.digest


def _read_file(reader: Reader) -> WideFile | None:
    if not reader.flag():
        return None
    return WideFile(reader.text(FILE_NAME_BYTES_MAX), reader.number(FILE_BYTES_MAX), _digest(reader))


def _received(received: tuple[SetReceived, ...]) -> bytes:
    assert len(received) <= SETS_MAX, "sets have a limit"
    return b"".join([u16(len(received)), *[text(one.set) + u64(one.number) for one in received]])


def _read_received(reader: Reader) -> tuple[SetReceived, ...]:
    found = tuple([SetReceived(_set(reader), _number(reader)) for _ in range(reader.count(SETS_MAX))])
    if len({one.set for one in found}) != len(found):
        raise PeerError(Drop.INCONSISTENT, "an acknowledgement names a set twice")
    return found


def _read_offset(reader: Reader) -> FileOffset:
    return FileOffset(_digest(reader), reader.number(FILE_BYTES_MAX))


def _long_text(value: str) -> bytes:
    return block(value.encode()[:TEXT_BYTES_MAX].decode(errors="ignore").encode())


def _read_long_text(reader: Reader) -> str:
    return reader.block(TEXT_BYTES_MAX).decode(errors="replace")


# Frames.


def _greeting(frame: Greeting) -> bytes:
    assert len(frame.files) <= FILES_MAX, "files of a greeting have a limit"
    head = u16(frame.version) + text(frame.wide) + frame.digest + u8(frame.cluster) + u64(frame.incarnation)
    generation = u64(frame.generation.epoch) + u64(frame.generation.number)
    files = [u16(len(frame.files)), *[one.digest + u64(one.offset) for one in frame.files]]
    return b"".join([head, generation, _received(frame.received), *files])


def _read_greeting(reader: Reader, *, welcome: bool) -> Greeting:
    version = reader.u16()
    if version != FRAME_VERSION:
        raise PeerError(
            Drop.VERSION, f"version {version} of the long-haul protocol, here it is {FRAME_VERSION}"
        )
    wide, digest, cluster, incarnation = reader.text(), _digest(reader), _cluster(reader), reader.nonce()
    generation = LinkGeneration(_number(reader), _number(reader))
    received = _read_received(reader)
    files = tuple([_read_offset(reader) for _ in range(reader.count(FILES_MAX))])
    return Greeting(wide, digest, cluster, incarnation, generation, received, files, welcome, version)


def _read_hello(reader: Reader) -> Greeting:
    return _read_greeting(reader, welcome=False)


def _read_welcome(reader: Reader) -> Greeting:
    return _read_greeting(reader, welcome=True)


def _refuse(frame: Refuse) -> bytes:
    return _long_text(frame.reason) + _long_text(frame.remedy)


def _read_refuse(reader: Reader) -> Refuse:
    return Refuse(_read_long_text(reader), _read_long_text(reader))


def _data(frame: ParcelFrame) -> bytes:
    assert len(frame.body) <= BODY_BYTES_MAX, "a body has a limit"
    head = text(frame.set) + u64(frame.number) + u64(frame.received) + _parcel(frame.parcel)
    return b"".join([head, _runs(frame.descriptors), _file(frame.file), block(frame.body)])


def _read_data(reader: Reader) -> ParcelFrame:
    line = _set(reader), _positive(reader), _number(reader)
    parcel, descriptors, file = _read_parcel(reader), _read_runs(reader), _read_file(reader)
    return ParcelFrame(*line, parcel, descriptors, reader.block(BODY_BYTES_MAX), file)


def _desc(frame: DescriptorsFrame) -> bytes:
    return text(frame.set) + u64(frame.number) + u64(frame.received) + _runs(frame.descriptors)


def _read_desc(reader: Reader) -> DescriptorsFrame:
    return DescriptorsFrame(_set(reader), _positive(reader), _number(reader), _read_runs(reader))


def _introduction(frame: SetFrame) -> bytes:
    return text(frame.set) + u64(frame.number) + u64(frame.received) + u64(frame.clusters)


def _read_introduction(reader: Reader) -> SetFrame:
    return SetFrame(_set(reader), _positive(reader), _number(reader), _mask(reader))


def _ack(frame: ReceivedFrame) -> bytes:
    return _received(frame.received)


def _read_ack(reader: Reader) -> ReceivedFrame:
    return ReceivedFrame(_read_received(reader))


def _chunk(frame: ChunkFrame) -> bytes:
    assert 0 < len(frame.data) <= CHUNK_BYTES_MAX, "a chunk has a limit"
    return frame.digest + u64(frame.offset) + block(frame.data)


def _read_chunk(reader: Reader) -> ChunkFrame:
    place = _read_offset(reader)
    data = reader.block(CHUNK_BYTES_MAX)
    if not data or place.offset + len(data) > FILE_BYTES_MAX:
        raise PeerError(Drop.INCONSISTENT, f"chunk of {len(data)} bytes at {place.offset}")
    return ChunkFrame(place.digest, place.offset, data)


def _chunk_ack(frame: ChunkReceived) -> bytes:
    return frame.file.digest + u64(frame.file.offset)


def _read_chunk_ack(reader: Reader) -> ChunkReceived:
    return ChunkReceived(_read_offset(reader))


def _want(frame: WantFrame) -> bytes:
    return text(frame.set) + u8(frame.id.sender) + u64(frame.id.number)


def _read_want(reader: Reader) -> WantFrame:
    return WantFrame(_set(reader), ParcelId(_cluster(reader), _positive(reader)))


def _beat(_frame: Beat) -> bytes:
    return b""


def _read_beat(_reader: Reader) -> Beat:
    return Beat()


def _bye(frame: Bye) -> bytes:
    return _long_text(frame.reason)


def _read_bye(reader: Reader) -> Bye:
    return Bye(_read_long_text(reader))


_DECODERS: Final[dict[int, Callable[[Reader], LinkFrame]]] = {
    LinkFrameType.HELLO: _read_hello,
    LinkFrameType.WELCOME: _read_welcome,
    LinkFrameType.REFUSE: _read_refuse,
    LinkFrameType.DATA: _read_data,
    LinkFrameType.DESC: _read_desc,
    LinkFrameType.ACK: _read_ack,
    LinkFrameType.CHUNK: _read_chunk,
    LinkFrameType.CHUNK_ACK: _read_chunk_ack,
    LinkFrameType.WANT: _read_want,
    LinkFrameType.BEAT: _read_beat,
    LinkFrameType.BYE: _read_bye,
    LinkFrameType.SET: _read_introduction,
}
_ENCODERS: Final[dict[type, tuple[LinkFrameType, Callable[..., bytes]]]] = {
    Refuse: (LinkFrameType.REFUSE, _refuse),
    ParcelFrame: (LinkFrameType.DATA, _data),
    DescriptorsFrame: (LinkFrameType.DESC, _desc),
    ReceivedFrame: (LinkFrameType.ACK, _ack),
    ChunkFrame: (LinkFrameType.CHUNK, _chunk),
    ChunkReceived: (LinkFrameType.CHUNK_ACK, _chunk_ack),
    WantFrame: (LinkFrameType.WANT, _want),
    Beat: (LinkFrameType.BEAT, _beat),
    Bye: (LinkFrameType.BYE, _bye),
    SetFrame: (LinkFrameType.SET, _introduction),
}
