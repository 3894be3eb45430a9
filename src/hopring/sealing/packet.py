"""The layout of sealed datagrams: a head in the clear, then what the cipher made of a datagram of version 1.

A sealed datagram is the head, the ciphertext and its tag. A sealed train is a longer datagram of version 1 in
several datagrams, each with the head and its place in the train; up to its payload, and from there, it is a
ciphertext of its own, so that a long payload need not be copied. The head is authenticated together with each
ciphertext, and the first ciphertext of a train with the second. A shared datagram is for the whole site, except
for frames at its end, which are for one daemon: behind them, within the ciphertext, are its number and their
length.

| field | bytes | meaning |
| magic, version | 2 + 1 | `HR`, 2 |
| form | 1 | 1 datagram, 2 segment of a train, 3 challenge, 4 response, 5 shared datagram |
| cluster | 4 | hash of the configuration |
| sender, incarnation | 2 + 8 | daemon number, and nonce of its start |
| key | 4 | id of the cluster key |
| receiver | 2 | daemon number; 0xFFFF is the whole site |
| counter | 8 | number of the packet among those of this process; also the nonce of the cipher |
| index, count, bytes | 1 + 1 + 4 | only in trains: which segment, of how many, bytes of both ciphertexts |
"""

from enum import IntEnum
from struct import Struct, unpack_from
from typing import Final, NamedTuple, NoReturn

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.wire.data import SEGMENT_OVERHEAD_BYTES, SEGMENTS_MAX
from hopring.wire.header import MAGIC
from hopring.wire.header import VERSION as CLEAR_VERSION

SEALED_VERSION: Final = 2
EVERYBODY: Final = DaemonId(0xFFFF)
"""The receiver of packets for the whole site."""

_HEAD: Final = Struct("<2sBBIHQIHQ")
HEAD_BYTES: Final = _HEAD.size
COUNTER_AT: Final = HEAD_BYTES - 8
START_BYTES: Final = COUNTER_AT - 2
"""Bytes of a head before receiver and counter: the same in all packets of one form, process and key."""

NONCE_BYTES: Final = 12
REST: Final = 1 << 64
"""Added to the counter in the nonce of a train's second ciphertext; that of any other one is the counter."""

_PLACE: Final = Struct("<BBI")
PLACE_BYTES: Final = _PLACE.size
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = HEAD_BYTES + TAG_BYTES
"""Bytes that a sealed datagram has more than the same datagram in the clear."""

TRAIN_START_BYTES: Final = SEGMENT_OVERHEAD_BYTES + TAG_BYTES
"""The first ciphertext of a train, with its tag."""

TRAIN_BYTES_MIN: Final = TRAIN_START_BYTES + TAG_BYTES

RIDER_BYTES: Final = 4

_START: Final = MAGIC + bytes([SEALED_VERSION])
_VERSION_END: Final = len(_START)
_SENDER_AT: Final = 8
_SENDER_END: Final = 18
_INDEXES: Final = bytes(range(SEGMENTS_MAX + 1))
SEALED_BYTES_MAX: Final = 66_000
"""The longest ciphertexts of a train, together."""


class Form(IntEnum):
    """What a sealed datagram carries."""

    DATAGRAM = 1
    TRAIN = 2
    CHALLENGE = 3
    RESPONSE = 4
    SHARED = 5


_FORMS: Final = {int(form): form for form in Form}


class SealedHead(NamedTuple):
    """The head of a sealed datagram."""

    form: Form
    cluster: int
    sender: DaemonId
    incarnation: Incarnation
    key: int
    receiver: DaemonId
    counter: int


class TrainPlace(NamedTuple):
    """The place of a datagram in its train: its index, how many there are, bytes of the whole ciphertext."""

    segment: int
    segments: int
    sealed_bytes: int


def encode_head(head: SealedHead) -> bytes:
    """The head as bytes, which the cipher authenticates too."""
    return _HEAD.pack(MAGIC, SEALED_VERSION, *head)


def decode_head(datagram: bytes, cluster: int) -> SealedHead:
    """The head of a sealed datagram, or the reason why it is none."""
    if len(datagram) < HEAD_BYTES:
        refuse_short(datagram)
    _refuse_start_of(datagram)
    _, _, form, its_cluster, sender, incarnation, key, receiver, counter = _HEAD.unpack_from(datagram)
    if its_cluster != cluster:
        raise PeerError(Drop.CLUSTER, f"cluster hash {its_cluster:08x}, ours is {cluster:08x}")
    kind = _FORMS.get(form)
    if kind is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"sealed datagram of form {form}")
    return SealedHead(
        kind, cluster, DaemonId(sender), Incarnation(incarnation), key, DaemonId(receiver), counter
    )


# Called for each packet: compiled, these are a few instructions each; a call of `Struct` takes hundreds.


def nonce_of(counter: int) -> bytes:
    """The 96-bit nonce of the packet with this number; begins with the last eight bytes of its head."""
    return counter.to_bytes(NONCE_BYTES, "little")


def finish_head(start: bytes, receiver: DaemonId, nonce: bytes) -> bytes:
    """A head, from its first START_BYTES and the rest, which differs from packet to packet."""
    return start + receiver.to_bytes(2, "little") + nonce[:8]


def receiver_of(datagram: bytes) -> int:
    """The receiver in a head of which HEAD_BYTES are there."""
    return datagram[START_BYTES] | datagram[START_BYTES + 1] << 8


def counter_of(datagram: bytes) -> int:
    """The counter in a head of which HEAD_BYTES are there."""
    return (
        datagram[COUNTER_AT]
        | datagram[COUNTER_AT + 1] << 8
        | datagram[COUNTER_AT + 2] << 16
        | datagram[COUNTER_AT + 3] << 24
        | datagram[COUNTER_AT + 4] << 32
        | datagram[COUNTER_AT + 5] << 40
        | datagram[COUNTER_AT + 6] << 48
        | datagram[COUNTER_AT + 7] << 56
    )


def encode_rider(daemon: DaemonId, size: int) -> bytes:
    """The end of a shared datagram: the daemon that the last frames are for, and their bytes."""
    return (daemon | size << 16).to_bytes(RIDER_BYTES, "little")


def refuse_short(datagram: bytes) -> NoReturn:
    """The reason why these bytes, too few, are no head."""
    _refuse_start_of(datagram)
    raise PeerError(Drop.TRUNCATED, f"{len(datagram)} bytes hold no sealed head of {HEAD_BYTES}")


def _refuse_start_of(datagram: bytes) -> None:
    start = datagram[:_VERSION_END]
    if start == _START:
        return
    if len(start) < _VERSION_END:
        raise PeerError(Drop.TRUNCATED, f"a datagram of {len(start)} bytes")
    if start[:2] != MAGIC:
        raise PeerError(Drop.MAGIC, f"datagram starts with {start[:2]!r}")
    if start[2] == CLEAR_VERSION:
        raise PeerError(Drop.CLEAR_TEXT, "a datagram without encryption (version 1), and this daemon has a key")
    raise PeerError(Drop.VERSION, f"protocol version {start[2]}, we speak {SEALED_VERSION}")


def sender_bytes(datagram: bytes) -> bytes:
    """Sender and incarnation as they stand in a head; those of both versions have them in one place."""
    return datagram[_SENDER_AT:_SENDER_END]


def split_rider(clear: bytes, me: DaemonId) -> bytes:
    """What a shared datagram has for this daemon."""
    end = len(clear) - RIDER_BYTES
    if end < 0:
        raise PeerError(Drop.TRUNCATED, f"a shared datagram of {len(clear)} bytes")
    # Cheaper than a call of `unpack_from`.
    daemon, size = clear[end] | clear[end + 1] << 8, clear[end + 2] | clear[end + 3] << 8
    if size > end:
        raise PeerError(Drop.LENGTH, f"{size} of {end} bytes are for one daemon")
    return clear[:end] if daemon == me else clear[: end - size]


def encode_place(segment: int, segments: int, sealed_bytes: int) -> bytes:
    """The place in a train as bytes, behind the head."""
    return _PLACE.pack(segment, segments, sealed_bytes)


def decode_place(datagram: bytes | memoryview) -> TrainPlace:
    """The place of a train's datagram; refused where no whole train could have it."""
    if len(datagram) <= HEAD_BYTES + PLACE_BYTES:
        raise PeerError(Drop.TRUNCATED, f"{len(datagram)} bytes hold no segment of a sealed train")
    index, count, sealed_bytes = _PLACE.unpack_from(datagram, HEAD_BYTES)
    length = len(datagram) - HEAD_BYTES - PLACE_BYTES
    if not 2 <= count <= SEGMENTS_MAX + 1 or index >= count:
        raise PeerError(Drop.INCONSISTENT, f"segment {index} of {count} of a sealed train")
    if sealed_bytes < TRAIN_BYTES_MIN or sealed_bytes > SEALED_BYTES_MAX:
        raise PeerError(Drop.LIMIT, f"sealed train of {sealed_bytes} bytes")
    if index < count - 1:
        fits = (count - 1) * length < sealed_bytes <= count * length
    else:
        each, rest = divmod(sealed_bytes - length, count - 1)
        fits = rest == 0 and 0 < length <= each
    if not fits:
        raise PeerError(Drop.INCONSISTENT, f"segment {index} of {count}, {length} of {sealed_bytes} bytes")
    return TrainPlace(index, count, sealed_bytes)


def train_heads(head: bytes, segments: int, sealed_bytes: int, count: int) -> bytes:
    """Head and place of the first `count` datagrams of a train, end to end."""
    heads = bytearray((head + _PLACE.pack(0, segments, sealed_bytes)) * count)
    heads[HEAD_BYTES :: HEAD_BYTES + PLACE_BYTES] = _INDEXES[:count]
    return bytes(heads)


def join_train(heads: bytes, start: bytes, rest: bytes, chunk_bytes: int) -> bytes:
    """The datagrams of a train, end to end: its heads, each followed by a chunk of both ciphertexts."""
    size = HEAD_BYTES + PLACE_BYTES
    count = len(heads) // size
    at = chunk_bytes - len(start)
    assert at >= 0, "the first ciphertext fits in a datagram"
    parts: list[bytes] = [b""] * (2 * count)
    parts[::2] = unpack_from(f"{size}s" * count, heads)
    parts[1] = start + rest[:at]
    parts[3:-1:2] = unpack_from(f"{chunk_bytes}s" * (count - 2), rest, at)
    parts[-1] = rest[at + (count - 2) * chunk_bytes :]
    return b"".join(parts)


def split_train(buffer: memoryview, segment_bytes: int, full: int) -> tuple[bytes, bytes]:
    """Undoes `join_train`: all heads, and all ciphertext; `full` datagrams are full, one is the last."""
    size = HEAD_BYTES + PLACE_BYTES
    columns = unpack_from(f"{size}s{segment_bytes - size}s" * full, buffer)
    last_at = full * segment_bytes
    heads = b"".join([*columns[::2], buffer[last_at : last_at + size]])
    return heads, b"".join([*columns[1::2], buffer[last_at + size :]])
