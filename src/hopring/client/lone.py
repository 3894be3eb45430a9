"""Messages that go and come alone: a bundle with one message, written and read without its columns.

Requests and their answers are mostly one small message at a time, and columns cost much more than one message
does. So such a bundle is written in one piece, and one that came is read by its fixed places. The layout is
that of wire/bundle.py and session/messages.py.

Invariants  what is written here has the same bytes as if the general way had written it; what is read here, the
            general way would have read, and as the same message. Whatever is out of the ordinary is left to it.
"""

from struct import Struct
from typing import Any, Final, cast

from hopring.client.events import Message
from hopring.ids import GroupName, ViewId
from hopring.services import Service
from hopring.session.frames import FRAME_HEAD_BYTES, Kind
from hopring.session.messages import MESSAGES_HEAD_BYTES, Messages
from hopring.session.place import Place
from hopring.wire.bundle import BUNDLE_HEAD_BYTES, Run, encode_groups

# body bytes, kind, two zeros; service, flags, channel, mark bytes, daemon, groups, session, messages, names
# bytes, bodies bytes; two offsets, type, hints
_SEND: Final = Struct("<IBBHBBBBHHIIIIIIHB")
_SEND_KIND: Final = int(Kind.SEND)
_SELF_DISCARD: Final = 0x01
LONE_BYTES: Final = _SEND.size - FRAME_HEAD_BYTES
"""Of a bundle with one message, but for the names of groups and the body."""

# Places in the body of a MESSAGES frame.
_LTS_AT: Final = 16
_REST_AT: Final = 24  # Of the head: representative, site, bytes of the sender's name, zero.
_SIZES_AT: Final = MESSAGES_HEAD_BYTES + BUNDLE_HEAD_BYTES - 4  # The bytes of all bodies, and the offsets.
_TYPE_AT: Final = _SIZES_AT + 12
_NAMES_AT: Final = _TYPE_AT + 3
_KEPT_MAX: Final = 4096

# A place for each message: a call of the class would go through a function in Python.
_new_tuple: Final = cast("Any", tuple.__new__)


class Way:
    """Where messages go, with what promise, and what the head of a bundle has of that."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.names = encode_groups(run.groups)
        self._flags = _SELF_DISCARD if run.self_discard else 0

    def size_bytes(self, data: bytes) -> int:
        """The bytes of a bundle with this message alone."""
        return LONE_BYTES + len(self.names) + len(data)

    def frame(self, data: bytes, message_type: int) -> bytes:
        """The frame of a message that goes alone."""
        run, names, size = self.run, self.names, len(data)
        head: bytes = _SEND.pack(
            LONE_BYTES + len(names) + size,
            _SEND_KIND,
            0,
            0,
            run.service,
            self._flags,
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
        return head + names + data


class _Head:
    """What the fixed part of a frame says that was found to be in order."""

    def __init__(self, site: int, service: Service, names_bytes: int, sender_bytes: int) -> None:
        self.site = site
        self.service = service
        self.names_bytes = names_bytes
        self.sender_bytes = sender_bytes


class Familiar:
    """Parts of frames that the general way has read, so that they need not be judged once more.

    Senders and groups are the same again and again; what is new in a message is its stamp, its type and its
    body.
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}
        self._groups: dict[bytes, tuple[GroupName, ...]] = {}
        self._senders: dict[bytes, str] = {}
        self._view_bytes = b""
        self._representative_bytes = b""
        self._view: ViewId | None = None

    def learn(self, body: bytes, came: Messages) -> None:
        """A frame that the general way has read; only of those with one message to one group it is of use."""
        run, view = came.bundle.run, came.place.view
        if len(came.bundle) != 1 or len(run.groups) != 1 or run.mark is not None or run.mixed:
            return
        if len(self._heads) + len(self._groups) + len(self._senders) > _KEPT_MAX:
            self._heads, self._groups, self._senders = {}, {}, {}
        sender = came.sender.encode()
        names = encode_groups(run.groups)
        head = _Head(came.place.site, run.service, len(names), len(sender))
        self._heads[body[_REST_AT:_SIZES_AT]] = head
        self._groups[names] = run.groups
        self._senders[sender] = came.sender
        self._view, self._view_bytes = view, body[:_LTS_AT]
        self._representative_bytes = body[_REST_AT : _REST_AT + 2]

    def message(self, body: bytes) -> Message | None:
        """The message of a frame that has one, and of which all else is known; otherwise None."""
        head = self._heads.get(body[_REST_AT:_SIZES_AT])
        if head is None or body[:_LTS_AT] != self._view_bytes:
            return None
        if body[_REST_AT : _REST_AT + 2] != self._representative_bytes:
            return None
        data_at = _NAMES_AT + head.names_bytes
        sender_at = len(body) - head.sender_bytes
        size = sender_at - data_at
        if size < 0 or number_at(body, _SIZES_AT) != size or number_at(body, _SIZES_AT + 8) != size:
            return None
        groups = self._groups.get(body[_NAMES_AT:data_at])
        sender = self._senders.get(body[sender_at:])
        if groups is None or sender is None or number_at(body, _SIZES_AT + 4):
            return None
        lts = number_at(body, _LTS_AT) | number_at(body, _LTS_AT + 4) << 32
        place: Place = _new_tuple(Place, (self._view, lts, head.site))
        message_type = body[_TYPE_AT] | body[_TYPE_AT + 1] << 8
        return Message(sender, groups, body[data_at:sender_at], head.service, message_type, place)


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
