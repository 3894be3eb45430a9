"""The fast path of single messages: bundles with one message, encoded and decoded without columns.

Requests and their answers are mostly one small message at a time, for which columns cost more than the message.
So such a bundle is encoded in one piece, and a received one is decoded at fixed offsets. The layout is defined
by wire/bundle.py and session/frames.py, from which formats and offsets are derived.

Invariants  the encoding has the same bytes as that of the general codec; a frame decoded here is valid for the
            general codec, and gives the same message. Anything unusual is left to the general codec.
"""

from struct import Struct, calcsize
from typing import Any, Final, cast

from hopring.client.events import Message, split_envelope
from hopring.ids import GroupName, Place
from hopring.session.frames import (
    FRAME_HEAD_BYTES,
    FRAME_HEAD_FORMAT,
    MESSAGES_HEAD_BYTES,
    MESSAGES_HEAD_FORMAT,
    DeliveredBundle,
    FrameKind,
)
from hopring.wire.bundle import (
    BUNDLE_HEAD_BYTES,
    BUNDLE_HEAD_FORMAT,
    BundleKey,
    encode_groups,
    flags_of,
)

# The head of a frame, the head of a bundle, and its columns: two offsets, type, hints.
_SEND: Final = Struct(f"<{FRAME_HEAD_FORMAT}{BUNDLE_HEAD_FORMAT}IIHB")
_SEND_KIND: Final = int(FrameKind.SEND)
SINGLE_BYTES: Final = _SEND.size - FRAME_HEAD_BYTES
"""The size of a bundle with one message, without group names and body."""

# Offsets in the body of a MESSAGES frame.
_LTS_AT: Final = 16
assert calcsize(f"<{MESSAGES_HEAD_FORMAT[:2]}") == _LTS_AT, "behind counter and nonce of the view"
_REST_AT: Final = 24  # The rest of the head: representative, site, size of the sender's name, zero.
assert calcsize(f"<{MESSAGES_HEAD_FORMAT[:3]}") == _REST_AT, "behind the stamp"
_SIZES_AT: Final = MESSAGES_HEAD_BYTES + BUNDLE_HEAD_BYTES - 4  # The bytes of all bodies.
_OFFSETS_AT: Final = _SIZES_AT + 4  # Zero, and the bytes of all bodies again.
_TYPE_AT: Final = _OFFSETS_AT + 8
_NAMES_AT: Final = _TYPE_AT + 3
_ZERO: Final = bytes(4)
_KEPT_MAX: Final = 4096

# Each message gets a new Place, and a call of the class would run a Python function.
_new_tuple: Final = cast("Any", tuple.__new__)


class SendTemplate:
    """The constant part of single messages to the same groups with the same service."""

    def __init__(self, key: BundleKey) -> None:
        assert not key.resilience, "nothing stands between names and body"
        assert key.mark is None, "nothing stands between names and body"
        self.key = key
        self._flags = flags_of(key)
        self.names = encode_groups(key.groups)
        self._front = b""  # The last frame up to its body: mostly the next one has the same length.
        self._front_size = -1
        self._front_type = 0
        self._front_hints = 0

    def size_bytes(self, data: bytes) -> int:
        """The size of a bundle with this single message."""
        return SINGLE_BYTES + len(self.names) + len(data)

    def frame(self, data: bytes, message_type: int, hints: int = 0) -> bytes:
        """Encodes the frame of a single message."""
        size = len(data)
        if size != self._front_size or message_type != self._front_type or hints != self._front_hints:
            self._front = self._front_of(size, message_type, hints)
            self._front_size, self._front_type, self._front_hints = size, message_type, hints
        return self._front + data

    def _front_of(self, size: int, message_type: int, hints: int) -> bytes:
        key, names = self.key, self.names
        head: bytes = _SEND.pack(
            SINGLE_BYTES + len(names) + size,
            _SEND_KIND,
            0,
            0,
            key.service,
            self._flags,
            0,
            0,
            key.daemon,
            len(key.groups),
            key.session,
            1,
            len(names),
            size,
            0,
            size,
            message_type,
            hints,
        )
        return head + names


class _Head:
    """The decoded parts of a sender's frame, most of which the next frame shares."""

    def __init__(self, body: bytes, delivered: DeliveredBundle) -> None:
        self.view = delivered.place.view
        self.view_bytes = body[:_LTS_AT]
        self.site = delivered.place.site
        self.service = delivered.bundle.key.service
        self.groups = delivered.bundle.key.groups
        self.names = encode_groups(self.groups)
        self.sender = delivered.sender
        self.sender_bytes = delivered.sender.encode()
        self.enveloped = delivered.bundle.key.enveloped


class HeadCache:
    """Heads of frames that the general codec has checked, so that equal bytes need no second check.

    Senders and groups repeat; only the stamp, the type and the body of a message are new.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._groups: dict[bytes, tuple[GroupName, ...]] = {}

    def learn(self, body: bytes, delivered: DeliveredBundle) -> None:
        """Remembers the head of a decoded frame, if it has one message to one group."""
        key = delivered.bundle.key
        if len(delivered.bundle) != 1 or len(key.groups) != 1 or key.mark is not None or key.mixed:
            return
        if key.resilience:
            return  # It precedes the body.
        if key.spread_bits or key.spread_groups:
            return  # Spread fields precede its body.
        if len(self._heads) + len(self._groups) > _KEPT_MAX:
            self._heads, self._groups = {}, {}
        head = self._heads[body[_REST_AT:_SIZES_AT]] = _Head(body, delivered)
        self._groups[head.names] = head.groups

    def message(self, body: bytes) -> Message | None:
        """Decodes a frame with a single message and a known head; otherwise None."""
        head = self._heads.get(body[_REST_AT:_SIZES_AT])
        if head is None or body[:_LTS_AT] != head.view_bytes:
            return None
        data_at = _NAMES_AT + len(head.names)  # The sizes of both names are part of the key.
        sender_at = len(body) - len(head.sender_bytes)
        size = sender_at - data_at
        if size < 0 or body[sender_at:] != head.sender_bytes:
            return None
        if (
            number_at(body, _SIZES_AT) != size
            or body[_OFFSETS_AT:_TYPE_AT] != _ZERO + body[_SIZES_AT:_OFFSETS_AT]
        ):
            return None
        names = body[_NAMES_AT:data_at]
        groups = head.groups if names == head.names else self._groups.get(names)
        if groups is None:
            return None
        lts = number_at(body, _LTS_AT) | number_at(body, _LTS_AT + 4) << 32
        place: Place = _new_tuple(Place, (head.view, lts, head.site))
        message_type = body[_TYPE_AT] | body[_TYPE_AT + 1] << 8
        if head.enveloped:
            headers, data = split_envelope(body[data_at:sender_at])
            return Message(head.sender, groups, data, head.service, message_type, place, headers)
        return Message(head.sender, groups, body[data_at:sender_at], head.service, message_type, place)


def number_at(buffer: bytes, at: int) -> int:
    """Decodes a 32-bit number; check first that the buffer has it."""
    return buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16 | buffer[at + 3] << 24


def credit_at(buffer: bytes, at: int, end: int) -> int:
    """Decodes the body of a CREDIT; -1 if it is not in the common form.

    It is a msgpack array with one number, as session/protocol.py encodes it.
    """
    if end - at < 2 or buffer[at] != 0x91:
        return -1
    kind = buffer[at + 1]
    if kind < 0x80:
        return kind if end - at == 2 else -1
    if kind == 0xCC and end - at == 3:
        return buffer[at + 2]
    if kind == 0xCD and end - at == 4:
        return buffer[at + 2] << 8 | buffer[at + 3]
    if kind == 0xCE and end - at == 6:
        return buffer[at + 2] << 24 | buffer[at + 3] << 16 | buffer[at + 4] << 8 | buffer[at + 5]
    return -1
