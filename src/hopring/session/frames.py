"""Frames of a client's connection, and the frame MESSAGES, which carries a delivered bundle.

Each end begins with a preamble (magic, version); frames follow. Every length is checked before it is used. The
head of a frame has 8 bytes, so that a bundle behind it starts at a multiple of 8.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.names import SESSION_NAME_BYTES_MAX
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX, Bundle, decode_bundle
from hopring.wire.objects import VIEW_BYTES_MIN

MAGIC: Final = b"HOPC"
VERSION: Final = 1
CLIENT_PORT_DEFAULT: Final = 4893

# magic, version, zero
_PREAMBLE: Final = Struct("<4sHH")
PREAMBLE: Final = _PREAMBLE.pack(MAGIC, VERSION, 0)
PREAMBLE_BYTES: Final = _PREAMBLE.size

# body bytes, kind, zero, zero
FRAME_HEAD_FORMAT: Final = "IBBH"
_HEAD: Final = Struct("<" + FRAME_HEAD_FORMAT)
FRAME_HEAD_BYTES: Final = _HEAD.size

REQUEST_BYTES_MAX: Final = 4096
"""The longest body of a client's frame, except for bundles."""


class FrameKind(IntEnum):
    """Kinds of frames; those below 16 are sent by clients, CREDIT by both ends."""

    HELLO = 1
    JOIN = 2
    LEAVE = 3
    SEND = 4
    CREDIT = 5
    QUIT = 6
    AUTH = 7
    PROOF = 8
    SEND_WITHIN = 9
    LOCK = 10
    UNLOCK = 11
    ASK = 12
    WELCOME = 16
    REFUSED = 17
    VIEW = 18
    SIGNAL = 19
    MESSAGES = 20
    LEFT = 21
    ERROR = 22
    GOODBYE = 23
    RECEIPT = 24
    LOCKED = 25
    UNLOCKED = 26
    LEASE = 27
    GAP = 28
    WARNING = 29
    CHALLENGE = 30
    DENIED = 31
    EXPIRED = 32
    RETAINED = 33
    ANSWER = 40


_LONG: Final = (FrameKind.SEND, FrameKind.MESSAGES, FrameKind.SEND_WITHIN, FrameKind.RETAINED)
TTL_BYTES: Final = 8
"""The time to live in front of the bundle of a SEND_WITHIN, in microseconds; the bundle stays aligned."""

_KINDS: Final = {int(kind): kind for kind in FrameKind}


_NOTHING: Final = memoryview(b"")


class Frame(NamedTuple):
    """A decoded frame: its kind and its body."""

    kind: FrameKind
    body: bytes | memoryview  # A view only of a buffer that is not reused.


def encode_frame(kind: FrameKind, *body: bytes | memoryview) -> bytes:
    """Encodes a frame of the given kind."""
    size_bytes = 0
    for part in body:
        size_bytes += len(part)
    return join_frame(kind, size_bytes, body)


def join_frame(kind: FrameKind, size_bytes: int, parts: Sequence[bytes | memoryview]) -> bytes:
    """Encodes a frame from parts whose total size is known."""
    return b"".join([_HEAD.pack(size_bytes, kind, 0, 0), *parts])


def kind_of(frame: bytes) -> FrameKind:
    """The kind of a frame that was encoded here."""
    return _KINDS[frame[4]]


def split_frames(stream: bytes) -> tuple[list[bytes], bytes]:
    """Splits a stream of frames that were encoded here; returns the whole frames and the rest."""
    frames: list[bytes] = []
    at = 0
    while len(stream) - at >= FRAME_HEAD_BYTES:
        end = at + FRAME_HEAD_BYTES + int.from_bytes(stream[at : at + 4], "little")
        if end > len(stream):
            break
        frames.append(stream[at:end])
        at = end
    return frames, stream[at:]


class FrameReader:
    """Decodes a stream of bytes into frames; a PeerError ends the connection.

    A frame that lies whole in a chunk is copied once; a long one is a view of the chunk if that is immutable
    (`bytes`). The beginning of a torn frame is kept until the rest arrives.
    """

    def __init__(self, bundle_bytes_max: int, control_bytes_max: int = REQUEST_BYTES_MAX) -> None:
        """The first limit is for bodies of SEND and MESSAGES, the second for all others."""
        self.greeted = False
        """Whether the preamble has been read."""
        self._long_max = bundle_bytes_max
        self._short_max = control_bytes_max
        self._chunk = _NOTHING
        self._lasts = False  # The chunk is immutable.
        self._at = 0
        self._torn = bytearray()  # The beginning of a frame, or of the preamble.

    @property
    def idle(self) -> bool:
        """Whether all input is consumed, so that a frame begins with the next byte."""
        return self.greeted and self._chunk is _NOTHING and not self._torn

    def feed(self, chunk: bytes | memoryview) -> None:
        """Adds bytes; take all frames of a view before its buffer is reused."""
        self._keep_rest()
        self._lasts = isinstance(chunk, bytes)
        self._chunk = memoryview(chunk)
        self._at = 0

    def next(self) -> Frame | None:
        """The next frame, if it is complete."""
        if not self.greeted and not self._greet():
            return None
        if self._torn:
            return self._mend()
        at = self._at
        if len(self._chunk) - at < FRAME_HEAD_BYTES:
            self._keep_rest()
            return None
        size, kind = self._head(self._chunk, at)
        start = at + FRAME_HEAD_BYTES
        if len(self._chunk) - start < size:
            self._keep_rest()
            return None
        self._at = start + size
        body = self._chunk[start : start + size]
        return Frame(kind, body if self._lasts and size >= VIEW_BYTES_MIN else bytes(body))

    def _mend(self) -> Frame | None:
        """The torn frame, if the rest of it is here."""
        if not self._fill(FRAME_HEAD_BYTES):
            return None
        size, kind = self._head(self._torn, 0)
        if not self._fill(FRAME_HEAD_BYTES + size):
            return None
        body = memoryview(self._torn)[FRAME_HEAD_BYTES:]
        self._torn = bytearray()
        return Frame(kind, body.toreadonly() if size >= VIEW_BYTES_MIN else bytes(body))

    def _fill(self, size: int) -> bool:
        """Extends the torn frame up to this size; whether it has that size."""
        missing = size - len(self._torn)
        if missing > 0:
            piece = self._chunk[self._at : self._at + missing]
            self._torn += piece
            self._at += len(piece)
        return len(self._torn) >= size

    def _keep_rest(self) -> None:
        if self._at < len(self._chunk):
            self._torn += self._chunk[self._at :]
        self._chunk = _NOTHING
        self._at = 0

    def _head(self, buffer: memoryview | bytearray, at: int) -> tuple[int, FrameKind]:
        size, number, *zeros = _HEAD.unpack_from(buffer, at)
        kind = _KINDS.get(number)
        if kind is None or any(zeros):
            raise PeerError(Drop.UNKNOWN_TYPE, f"frame of kind {number}, {zeros}")
        limit = self._long_max if kind in _LONG else self._short_max
        if kind is FrameKind.SEND_WITHIN:
            limit += TTL_BYTES
        if size > limit:
            raise PeerError(Drop.LIMIT, f"{kind.name} of {size} bytes, of {limit} at most")
        return size, kind

    def _greet(self) -> bool:
        self._fill(PREAMBLE_BYTES)
        start = bytes(self._torn)
        if not MAGIC.startswith(start[: len(MAGIC)]):
            raise PeerError(Drop.MAGIC, f"it begins with {start[: len(MAGIC)]!r}")
        if len(start) < PREAMBLE_BYTES:
            return False
        _, version, zero = _PREAMBLE.unpack(start)
        if version != VERSION or zero:
            raise PeerError(Drop.VERSION, f"version {version} of the client protocol, here it is {VERSION}")
        self._torn = bytearray()
        self.greeted = True
        return True


# counter and nonce of the daemons' view, lts, representative, site, bytes of the sender's name, zero
MESSAGES_HEAD_FORMAT: Final = "QQQHHHH"
_MESSAGES_HEAD: Final = Struct("<" + MESSAGES_HEAD_FORMAT)
MESSAGES_HEAD_BYTES: Final = _MESSAGES_HEAD.size
SENDER_BYTES_MAX: Final = GROUP_NAME_BYTES_MAX
PIECE_BYTES_MIN: Final = 8 * 1024
"""From this size on, several pieces for the kernel cost less than copying them together."""
assert SESSION_NAME_BYTES_MAX < SENDER_BYTES_MAX, "a private group holds the name"


class DeliveredBundle(NamedTuple):
    """A bundle with its sender and its place in the order: the body of a MESSAGES frame."""

    sender: str  # Its private group.
    place: Place
    bundle: Bundle


def encode_delivered(sender: str, place: Place, bundle: Bundle) -> bytes:
    """Encodes a MESSAGES frame in one piece."""
    return b"".join(delivered_parts(sender, place, bundle))


def delivered_parts(sender: str, place: Place, bundle: Bundle) -> tuple[bytes | memoryview, ...]:
    """Encodes a MESSAGES frame in pieces: a long bundle is not copied, a short one is cheaper copied."""
    name = sender.encode()
    view = place.view
    head = _MESSAGES_HEAD.pack(
        view.counter, view.nonce, place.lts, view.representative, place.site, len(name), 0
    )
    if len(bundle.whole) < PIECE_BYTES_MIN:
        return (encode_frame(FrameKind.MESSAGES, head, bundle.whole, name),)
    size_bytes = len(head) + len(bundle.whole) + len(name)
    return join_frame(FrameKind.MESSAGES, size_bytes, (head,)), bundle.whole, name


def decode_delivered(body: bytes | memoryview) -> DeliveredBundle:
    """Decodes the body of a MESSAGES frame."""
    if len(body) < MESSAGES_HEAD_BYTES:
        raise PeerError(Drop.TRUNCATED, f"MESSAGES of {len(body)} bytes")
    counter, nonce, lts, representative, site, name_bytes, zero = _MESSAGES_HEAD.unpack_from(body)
    name_at = len(body) - name_bytes
    if not 0 < name_bytes <= SENDER_BYTES_MAX or name_at < MESSAGES_HEAD_BYTES or zero:
        raise PeerError(Drop.LENGTH, f"MESSAGES of {len(body)} bytes with a name of {name_bytes}")
    try:
        sender = str(body[name_at:], "utf-8")
    except UnicodeDecodeError as error:
        raise PeerError(Drop.INCONSISTENT, "a sender's name is not UTF-8") from error
    view = ViewId(counter, DaemonId(representative), Incarnation(nonce))
    return DeliveredBundle(
        sender, Place(view, lts, site), decode_bundle(memoryview(body)[MESSAGES_HEAD_BYTES:name_at])
    )
