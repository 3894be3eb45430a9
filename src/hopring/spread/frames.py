"""Frames of Spread: a head of 48 bytes, names of groups of 32 bytes each, a body; every length checked first.

Each writer uses its own byte order, and the marker tells which. The hint is never touched: it goes from the
sender to the receivers as it was written, marker and all.

Where a real daemon dies or is fooled, this one refuses: bodies between what it says it takes and what it can
take, bits that are for daemons only, and another session's name are all errors of the client that sends them.
"""

from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.spread.bits import MARKER, REQUESTS, SERVICES, Bits

NAME_BYTES: Final = 32
GROUPS_MAX: Final = 100
HINT_BITS: Final = MARKER | 0x00FFFF00

# type, name, groups, hint, body bytes
_LITTLE: Final = Struct("<I32sI4sI")
_BIG: Final = Struct(">I32sI4sI")
HEAD_BYTES: Final = _LITTLE.size

REST_BYTES_MAX: Final = 144_000 - HEAD_BYTES
"""Names of groups and body together, as a real daemon says it takes; it is known to die of less."""


_KINDS: Final = {int(bit): bit for bit in (*SERVICES, *REQUESTS)}


class Frame(NamedTuple):
    """What a client sends."""

    kind: Bits  # Exactly one service or request.
    self_discard: bool
    sender: str
    groups: tuple[str, ...]
    hint: bytes  # As it was written.
    body: bytes


class Reader:
    """Bytes go in as they come, frames come out; a PeerError is the end of the connection."""

    def __init__(self, rest_bytes_max: int = REST_BYTES_MAX) -> None:
        """The limit is that of groups and body; what comes is never kept beyond it."""
        self._rest_bytes_max = min(rest_bytes_max, REST_BYTES_MAX)
        self._buffer = bytearray()
        self._at = 0

    def feed(self, chunk: bytes) -> None:
        """More bytes; take all frames before the next ones."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += chunk

    def next(self) -> Frame | None:
        """The next frame, if all of it is here; what is wrong with a head is told before the rest has come."""
        start = self._at
        if len(self._buffer) - start < HEAD_BYTES:
            return None
        word, name, count, hint, size = head_of(self._buffer, start)
        kind, self_discard = _kind_of(word)
        if count > GROUPS_MAX:
            raise PeerError(Drop.LIMIT, f"{count} groups, of {GROUPS_MAX} at most")
        rest_bytes = NAME_BYTES * count + size
        if rest_bytes > self._rest_bytes_max:
            limit = self._rest_bytes_max
            raise PeerError(Drop.LIMIT, f"groups and body of {rest_bytes} bytes, of {limit} at most")
        if int.from_bytes(hint, "little") & ~HINT_BITS and int.from_bytes(hint, "big") & ~HINT_BITS:
            raise PeerError(Drop.INCONSISTENT, f"hint {hint.hex()}")
        sender = decode_name(name)
        end = start + HEAD_BYTES + rest_bytes
        if len(self._buffer) < end:
            return None
        view = memoryview(self._buffer)
        first = start + HEAD_BYTES
        names = [bytes(view[at : at + NAME_BYTES]) for at in range(first, end - size, NAME_BYTES)]
        body = bytes(view[end - size : end])
        view.release()
        self._at = end
        return Frame(kind, self_discard, sender, tuple(map(decode_name, names)), hint, body)

    @property
    def rest(self) -> bytes:
        """What has come and is not taken."""
        return bytes(self._buffer[self._at :])


def head_of(data: bytes | bytearray, at: int = 0) -> tuple[int, bytes, int, bytes, int]:
    """Type word, name, number of groups, hint as written, and size of the body, whatever the byte order."""
    raw = int.from_bytes(data[at : at + 4], "little")
    marks = raw & MARKER
    if marks not in (0, MARKER):
        raise PeerError(Drop.INCONSISTENT, f"type word {raw:08x} of no byte order")
    word, name, count, hint, size = (_LITTLE if marks else _BIG).unpack_from(data, at)
    return word & ~MARKER, name, count, hint, size


def _kind_of(word: int) -> tuple[Bits, bool]:
    # As a number: the complement of a flag has no bits but those that have names.
    kind = _KINDS.get(word & ~int(Bits.SELF_DISCARD))
    if kind is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"type {word:08x} is not one service or one request")
    self_discard = bool(word & Bits.SELF_DISCARD)
    if self_discard and kind in REQUESTS:
        raise PeerError(Drop.UNKNOWN_TYPE, f"type {word:08x}: a request that is not for the sender")
    return kind, self_discard


def decode_name(field: bytes) -> str:
    """A name of 32 bytes, up to its first NUL."""
    name, zero, _ = field.partition(b"\0")
    if not zero:
        raise PeerError(Drop.LENGTH, "a name without an end")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise PeerError(Drop.INCONSISTENT, f"name {name!r}") from None


def encode_name(name: str) -> bytes:
    """A name as it travels; it has to fit, or it would be another one."""
    raw = name.encode("ascii")
    assert len(raw) < NAME_BYTES, "names that do not fit are not shown to these clients"
    return raw.ljust(NAME_BYTES, b"\0")


def message_type(hint: bytes) -> int:
    """The 16 bits of the application in a hint."""
    little = int.from_bytes(hint, "little")
    word = little if little & MARKER == MARKER else int.from_bytes(hint, "big")
    return word >> 8 & 0xFFFF


def hint_of(kind: int) -> bytes:
    """The hint of a message of such a type, from us."""
    return (MARKER | kind << 8).to_bytes(4, "little")


def encode_frame(bits: Bits, name: str, groups: tuple[str, ...], hint: bytes, body: bytes) -> bytes:
    """A frame to a client, little-endian as a real daemon on most machines."""
    head = _LITTLE.pack(bits | MARKER, encode_name(name), len(groups), hint, len(body))
    return b"".join([head, *map(encode_name, groups), body])
