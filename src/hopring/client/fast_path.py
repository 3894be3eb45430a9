"""Messages that go and come alone: a bundle with one message, written and read without its columns.

Requests and their answers are mostly one small message at a time, and columns cost much more than one message
does. So such a bundle is written in one piece, and one that came is read by its fixed places. The layout is
that of wire/bundle.py and session/frames.py.

Invariants  what is written here has the same bytes as if the general way had written it; what is read here, the
            general way would have read, and as the same message. Whatever is out of the ordinary is left to it.
"""

from struct import Struct
from typing import Any, Final, cast

from hopring.client.events import Message
from hopring.ids import GroupName, Place
from hopring.session.frames import FRAME_HEAD_BYTES, MESSAGES_HEAD_BYTES, DeliveredBundle, FrameKind
from hopring.wire.bundle import BUNDLE_HEAD_BYTES, Run, encode_groups

# body bytes, kind, two zeros; service, flags, channel, mark bytes, daemon, groups, session, messages, names
# bytes, bodies bytes; two offsets, type, hints
_SEND: Final = Struct("<IBBHBBBBHHIIIIIIHB")
_SEND_KIND: Final = int(FrameKind.SEND)
_SELF_DISCARD: Final = 0x01
SINGLE_BYTES: Final = _SEND.size - FRAME_HEAD_BYTES
"""Of a bundle with one message, but for the names of groups and the body."""

# Places in the body of a MESSAGES frame.
_LTS_AT: Final = 16
_REST_AT: Final = 24  # Of the head: representative, site, bytes of the sender's name, zero.
_SIZES_AT: Final = MESSAGES_HEAD_BYTES + BUNDLE_HEAD_BYTES - 4  # The bytes of all bodies.
_OFFSETS_AT: Final = _SIZES_AT + 4  # Zero, and the bytes of all bodies again.
_TYPE_AT: Final = _OFFSETS_AT + 8
_NAMES_AT: Final = _TYPE_AT + 3
_ZERO: Final = bytes(4)
_KEPT_MAX: Final = 4096

# A place for each message: a call of the class would go through a function in Python.
_new_tuple: Final = cast("Any", tuple.__new__)


class SendTemplate:
    """Where messages go, with what promise, and what the head of a bundle has of that."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.names = encode_groups(run.groups)
        self._front = b""  # Of the last frame, up to its body: mostly the next one is as long.
        self._front_size = -1
        self._front_type = 0

    def size_bytes(self, data: bytes) -> int:
        """The bytes of a bundle with this message alone."""
        return SINGLE_BYTES + len(self.names) + len(data)

    def frame(self, data: bytes, message_type: int) -> bytes:
        """The frame of a message that goes alone."""
        size = len(data)
        if size != self._front_size or message_type != self._front_type:
            self._front = self._front_of(size, message_type)
            self._front_size, self._front_type = size, message_type
        return self._front + data

    def _front_of(self, size: int, message_type: int) -> bytes:
        run, names = self.run, self.names
        head: bytes = _SEND.pack(
            SINGLE_BYTES + len(names) + size,
            _SEND_KIND,
            0,
            0,
            run.service,
            _SELF_DISCARD if run.self_discard else 0,
            0,
            0,
            run.daemon,
            len(run.groups),
            run.session,
            1,
            len(names),
            size,
            0,
            size,
            message_type,
            0,
        )
        return head + names


class _Head:
    """What the general way has read in a frame of this sender: most of the next one is the same."""

    def __init__(self, body: bytes, delivered: DeliveredBundle) -> None:
        self.view = delivered.place.view
        self.view_bytes = body[:_LTS_AT]
        self.site = delivered.place.site
        self.service = delivered.bundle.run.service
        self.groups = delivered.bundle.run.groups
        self.names = encode_groups(self.groups)
        self.sender = delivered.sender
        self.sender_bytes = delivered.sender.encode()


class HeadCache:
    """Frames that the general way has read, so that their parts need not be judged once more.

    Senders and groups are the same again and again; what is new in a message is its stamp, its type and its
    body.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._groups: dict[bytes, tuple[GroupName, ...]] = {}

    def learn(self, body: bytes, delivered: DeliveredBundle) -> None:
        """A frame that the general way has read; only of those with one message to one group it is of use."""
        run = delivered.bundle.run
        if len(delivered.bundle) != 1 or len(run.groups) != 1 or run.mark is not None or run.mixed:
            return
        if run.spread_bits or run.spread_groups:
            return  # Something stands before its body.
        if len(self._heads) + len(self._groups) > _KEPT_MAX:
            self._heads, self._groups = {}, {}
        head = self._heads[body[_REST_AT:_SIZES_AT]] = _Head(body, delivered)
        self._groups[head.names] = head.groups

    def message(self, body: bytes) -> Message | None:
        """The message of a frame that has one, and of which all else is known; otherwise None."""
        head = self._heads.get(body[_REST_AT:_SIZES_AT])
        if head is None or body[:_LTS_AT] != head.view_bytes:
            return None
        data_at = _NAMES_AT + len(head.names)  # How long the names are, and the sender's, is in the key.
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
        return Message(head.sender, groups, body[data_at:sender_at], head.service, message_type, place)


def number_at(buffer: bytes, at: int) -> int:
    """A number of four bytes; look first whether they are there."""
    return buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16 | buffer[at + 3] << 24


def credit_at(buffer: bytes, at: int, end: int) -> int:
    """What a CREDIT gives whose body lies there; -1 if it is not written in the common way.

    It is a msgpack array with one number, as `session.words` has it.
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
