"""Frames of Spread, as a daemon reads and writes them: a head of 48 bytes, 32 bytes for each group, a body.

Every length is checked first. Each writer uses its own byte order, which the marker tells. The hint is not
converted: it goes from the sender to the receivers as it was written, with its marker.

This reader refuses frames at which a real daemon crashes or is deceived: bodies between its announced and its
real limit, bits reserved for daemons, and the name of another session are errors of the client.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.spread.bits import FREE_BITS, FREE_BITS_AT, MARKER, REQUESTS, SERVICES, Bits
from hopring.wire.bundle import MESSAGES_MAX, SPREAD_GROUPS_MAX, SPREAD_NAME_BYTES

NAME_BYTES: Final = SPREAD_NAME_BYTES
GROUPS_MAX: Final = SPREAD_GROUPS_MAX
HINT_BITS: Final = MARKER | 0x00FFFF00

# type, name, groups, hint, body bytes
_LITTLE: Final = Struct("<I32sI4sI")
_BIG: Final = Struct(">I32sI4sI")
HEAD_BYTES: Final = _LITTLE.size
_START: Final = Struct("<I32sI")
_SIZE: Final = Struct("<I")
_HINT_AT: Final = _START.size
_NAME_LISTS_KEPT_MAX: Final = 256

REST_BYTES_MAX: Final = 144_000 - HEAD_BYTES
"""The announced limit of a real daemon for group names and body together; it is known to crash below that."""


_KINDS: Final = {int(bit): (bit, False) for bit in (*SERVICES, *REQUESTS)} | {
    int(bit | Bits.SELF_DISCARD): (bit, True) for bit in SERVICES
}
"""The valid types of a client's frame: one service, with or without SELF_DISCARD, or one request."""


class SpreadBatch(NamedTuple):
    """Consecutive messages of a client that differ only in bodies and types; or one request."""

    kind: Bits  # Exactly one service or request.
    self_discard: bool
    sender: str
    names: bytes  # The encoded list of groups, 32 bytes for each.
    big_endian: bool  # The byte order of the hints.
    types: list[int]  # Of the application, from the hints.
    bodies: list[bytes]
    free_bits: int = 0  # Beside a service, shifted down.

    @property
    def groups(self) -> tuple[str, ...]:
        """The names in the list; empty for a name that no group can have."""
        return decode_names(self.names)


class SpreadReader:
    """Decodes a stream of bytes into batches of frames; a PeerError ends the connection.

    A client mostly repeats the same head, which is then not decoded again: consecutive frames with equal heads,
    except for message type and size, are returned together.
    """

    def __init__(self, rest_bytes_max: int = REST_BYTES_MAX, batch_bytes_max: int = REST_BYTES_MAX) -> None:
        """The first limit is for groups and body of a frame, the second for all bodies of a batch.

        The reader keeps no more than one frame and one chunk.
        """
        self._rest_bytes_max = min(rest_bytes_max, REST_BYTES_MAX)
        self._batch_bytes_max = batch_bytes_max
        self._data = b""
        self._at = 0
        self._torn = bytearray()  # The beginning of a frame; `_data` is empty then.
        self._wanted_bytes = 0  # The size of `_torn` at which decoding can go on.

    def feed(self, chunk: bytes) -> None:
        """Adds bytes to the stream."""
        if not self._torn:
            self._data = self._data[self._at :] + chunk if self._at < len(self._data) else chunk
            self._at = 0
            return
        self._torn += chunk
        if len(self._torn) >= self._wanted_bytes:
            self._data, self._at = bytes(self._torn), 0
            self._torn.clear()

    def next(self) -> SpreadBatch | None:
        """The next frames, if at least one is complete; a head is checked before the rest arrives."""
        data, start = self._data, self._at
        if len(data) - start < HEAD_BYTES:
            self._wait(HEAD_BYTES)
            return None
        word, name, count, hint, size = head_of(data, start)
        known = _KINDS.get(word & ~FREE_BITS)
        if known is None:
            raise PeerError(Drop.UNKNOWN_TYPE, f"type {word:08x} is not one service or one request")
        kind, self_discard = known
        if count > GROUPS_MAX:
            raise PeerError(Drop.LIMIT, f"{count} groups, of {GROUPS_MAX} at most")
        self._check_size(NAME_BYTES * count + size)
        big_endian, message_type = read_hint(hint)
        sender = decode_name(name)
        names_end = start + HEAD_BYTES + NAME_BYTES * count
        end = names_end + size
        if len(data) < end:
            self._wait(end - start)
            return None
        names, free_bits = data[start + HEAD_BYTES : names_end], (word & FREE_BITS) >> FREE_BITS_AT
        self._at = end
        types, bodies = [message_type], [data[names_end:end]]
        batch = SpreadBatch(kind, self_discard, sender, names, big_endian, types, bodies, free_bits)
        if kind not in REQUESTS:
            self._add_alike(batch, data[start:names_end], size)
        return batch

    @property
    def rest(self) -> bytes:
        """The input that is not consumed."""
        return bytes(self._torn) + self._data[self._at :]

    def _wait(self, size_bytes: int) -> None:
        self._torn += self._data[self._at :]
        self._data, self._at = b"", 0
        self._wanted_bytes = size_bytes

    def _check_size(self, rest_bytes: int) -> None:
        limit = self._rest_bytes_max
        if rest_bytes > limit:
            raise PeerError(Drop.LIMIT, f"groups and body of {rest_bytes} bytes, of {limit} at most")

    def _add_alike(self, batch: SpreadBatch, head: bytes, size: int) -> None:
        """Adds the following frames with an equal head."""
        data, at = self._data, self._at
        types, bodies = batch.types, batch.bodies
        head_bytes = len(head)
        message_type = types[0]
        room_bytes = self._batch_bytes_max - size
        while len(bodies) < MESSAGES_MAX:
            if not data.startswith(head, at):
                found = self._next_alike(head, at, batch.big_endian)
                if found is None:
                    break
                head, size, message_type = found
            end = at + head_bytes + size
            room_bytes -= size
            if end > len(data) or room_bytes < 0:
                break
            types.append(message_type)
            bodies.append(data[at + head_bytes : end])
            at = end
        self._at = at

    def _next_alike(self, head: bytes, at: int, big_endian: bool) -> tuple[bytes, int, int] | None:
        """The next head, size and type, if the head is equal except for these; None otherwise."""
        data = self._data
        other = data[at : at + len(head)]
        if other[:_HINT_AT] != head[:_HINT_AT] or other[HEAD_BYTES:] != head[HEAD_BYTES:]:
            return None
        if len(other) < len(head):
            return None
        _, _, _, hint, size = head_of(other)
        if size + len(head) - HEAD_BYTES > self._rest_bytes_max or not _is_hint(hint):
            return None
        other_big_endian, message_type = read_hint(hint)
        return (other, size, message_type) if other_big_endian is big_endian else None


def head_of(data: bytes | bytearray, at: int = 0) -> tuple[int, bytes, int, bytes, int]:
    """Decodes a head in either byte order: type word, name, number of groups, hint as written, body size."""
    raw = int.from_bytes(data[at : at + 4], "little")
    marks = raw & MARKER
    if marks not in (0, MARKER):
        raise PeerError(Drop.INCONSISTENT, f"type word {raw:08x} of no byte order")
    word, name, count, hint, size = (_LITTLE if marks else _BIG).unpack_from(data, at)
    return word & ~MARKER, name, count, hint, size


def decode_name(field: bytes) -> str:
    """Decodes a name of 32 bytes, up to its first NUL."""
    name, zero, _ = field.partition(b"\0")
    if not zero:
        raise PeerError(Drop.LENGTH, "a name without an end")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise PeerError(Drop.INCONSISTENT, f"name {name!r}") from None


def encode_name(name: str) -> bytes:
    """Encodes a name, which has to fit."""
    raw = name.encode()
    assert len(raw) < NAME_BYTES, "names that do not fit are not shown to these clients"
    return raw.ljust(NAME_BYTES, b"\0")


@lru_cache(maxsize=_NAME_LISTS_KEPT_MAX)
def decode_names(fields: bytes) -> tuple[str, ...]:
    """Decodes a list of group names; cached, because clients send to the same groups again and again.

    Daemons of Spread compare bytes without checks. Names here are text: one without an end or not in UTF-8
    cannot be a group's, and becomes the empty name, which is no group's either.
    """
    return tuple([_group_name(fields[at : at + NAME_BYTES]) for at in range(0, len(fields), NAME_BYTES)])


def _group_name(field: bytes) -> str:
    name, zero, _ = field.partition(b"\0")
    try:
        return name.decode() if zero else ""
    except UnicodeDecodeError:
        return ""


@lru_cache(maxsize=_NAME_LISTS_KEPT_MAX)
def encode_names(names: tuple[str, ...]) -> bytes:
    """Encodes a list of group names."""
    return b"".join(map(encode_name, names))


def _is_hint(hint: bytes) -> bool:
    word = int.from_bytes(hint, "little")
    return not word & ~HINT_BITS and word & MARKER in (0, MARKER)


def read_hint(hint: bytes) -> tuple[bool, int]:
    """Decodes a hint: whether it is big-endian, and its 16-bit message type."""
    if not _is_hint(hint):
        raise PeerError(Drop.INCONSISTENT, f"hint {hint.hex()}")
    big_endian = not hint[0] & 0x80
    return big_endian, int.from_bytes(hint, "big" if big_endian else "little") >> 8 & 0xFFFF


def hint_of(message_type: int, big_endian: bool = False) -> bytes:
    """Encodes the hint for a message type in a byte order."""
    if big_endian:
        return (message_type << 8).to_bytes(4, "big")
    return (MARKER | message_type << 8).to_bytes(4, "little")


def encode_frame(bits: Bits, name: str, groups: tuple[str, ...], hint: bytes, body: bytes) -> bytes:
    """Encodes a frame for a client, little-endian like a real daemon on most machines."""
    head = _LITTLE.pack(bits | MARKER, encode_name(name), len(groups), hint, len(body))
    return b"".join([head, encode_names(groups), body])


def encode_messages(
    bits: int,
    name: str,
    names: bytes,
    big_endian: bool,
    types: list[int],
    bodies: Sequence[bytes | memoryview],
) -> bytes:
    """Encodes messages that differ only in bodies and types, end to end; `names` are the encoded groups."""
    start = _START.pack(bits | MARKER, encode_name(name), len(names) // NAME_BYTES)
    sizes = list(map(len, bodies))
    if sizes.count(sizes[0]) == len(sizes) and types.count(types[0]) == len(types):
        # The common case: all heads are equal.
        head = b"".join([start, hint_of(types[0], big_endian), _SIZE.pack(sizes[0]), names])
        return head + head.join(bodies)
    parts: list[bytes | memoryview] = []
    for message_type, size, body in zip(types, sizes, bodies, strict=True):
        parts += (start, hint_of(message_type, big_endian), _SIZE.pack(size), names, body)
    return b"".join(parts)
