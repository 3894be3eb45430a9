"""Frames: a connection's bytes cut into typed parts, every length checked before it is used.

Each end begins with a preamble (magic, version); frames follow. The head of a frame has 8 bytes, so that a
bundle behind it starts at a multiple of 8.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.wire.objects import VIEW_BYTES_MIN

MAGIC: Final = b"HOPC"
VERSION: Final = 1
CLIENT_PORT_DEFAULT: Final = 4893

# magic, version, zero
_PREAMBLE: Final = Struct("<4sHH")
PREAMBLE: Final = _PREAMBLE.pack(MAGIC, VERSION, 0)
PREAMBLE_BYTES: Final = _PREAMBLE.size

# body bytes, kind, zero, zero
_HEAD: Final = Struct("<IBBH")
FRAME_HEAD_BYTES: Final = _HEAD.size

CONTROL_BYTES_MAX: Final = 4096
"""The longest body of anything that a client sends but bundles."""


class Kind(IntEnum):
    """The kinds of frames; below 16 those of clients, CREDIT of both."""

    HELLO = 1
    JOIN = 2
    LEAVE = 3
    SEND = 4
    CREDIT = 5
    QUIT = 6
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
    GAP = 28
    WARNING = 29
    ANSWER = 40


_KINDS: Final = {int(kind): kind for kind in Kind}


_NOTHING: Final = memoryview(b"")


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    body: bytes | memoryview  # A view only of what stays as it is.


def encode_frame(kind: Kind, *body: bytes | memoryview) -> bytes:
    """A frame as it travels."""
    size_bytes = 0
    for part in body:
        size_bytes += len(part)
    return join_frame(kind, size_bytes, body)


def join_frame(kind: Kind, size_bytes: int, parts: Sequence[bytes | memoryview]) -> bytes:
    """The same of parts that have so many bytes together."""
    return b"".join([_HEAD.pack(size_bytes, kind, 0, 0), *parts])


def kind_of(frame: bytes) -> Kind:
    """The kind of a frame that was made here."""
    return _KINDS[frame[4]]


def cut(stream: bytes) -> tuple[list[bytes], bytes]:
    """A stream of frames that were made here, cut into whole ones, and what is left of the next."""
    frames: list[bytes] = []
    at = 0
    while len(stream) - at >= FRAME_HEAD_BYTES:
        end = at + FRAME_HEAD_BYTES + int.from_bytes(stream[at : at + 4], "little")
        if end > len(stream):
            break
        frames.append(stream[at:end])
        at = end
    return frames, stream[at:]


class Reader:
    """Bytes go in as they come, frames come out; a PeerError is the end of the connection.

    A frame that lies whole in a chunk is copied out of it, once; a long one is mapped in it, if the chunk is
    for the reader to keep (`bytes`). Of a torn one, what is there is kept until the rest has come.
    """

    def __init__(self, bundle_bytes_max: int, control_bytes_max: int = CONTROL_BYTES_MAX) -> None:
        """The limits are those of SEND and MESSAGES, and of everything else."""
        self.greeted = False
        """Whether the preamble was read."""
        self._long_max = bundle_bytes_max
        self._short_max = control_bytes_max
        self._chunk = _NOTHING
        self._lasts = False  # The chunk stays as it is.
        self._at = 0
        self._torn = bytearray()  # The beginning of a frame, or of the preamble.

    @property
    def idle(self) -> bool:
        """Whether nothing is left of what came, so that a frame begins with the next byte."""
        return self.greeted and self._chunk is _NOTHING and not self._torn

    def feed(self, chunk: bytes | memoryview) -> None:
        """More bytes; of a view, take all frames before it is used for anything else."""
        self._keep_rest()
        self._lasts = isinstance(chunk, bytes)
        self._chunk = memoryview(chunk)
        self._at = 0

    def next(self) -> Frame | None:
        """The next frame, if all of it is here."""
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
        """The frame whose beginning was kept."""
        if not self._fill(FRAME_HEAD_BYTES):
            return None
        size, kind = self._head(self._torn, 0)
        if not self._fill(FRAME_HEAD_BYTES + size):
            return None
        body = memoryview(self._torn)[FRAME_HEAD_BYTES:]
        self._torn = bytearray()
        return Frame(kind, body.toreadonly() if size >= VIEW_BYTES_MIN else bytes(body))

    def _fill(self, size: int) -> bool:
        """Adds to what was kept, up to this size; whether it has it."""
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

    def _head(self, buffer: memoryview | bytearray, at: int) -> tuple[int, Kind]:
        size, number, *zeros = _HEAD.unpack_from(buffer, at)
        kind = _KINDS.get(number)
        if kind is None or any(zeros):
            raise PeerError(Drop.UNKNOWN_TYPE, f"frame of kind {number}, {zeros}")
        limit = self._long_max if kind in (Kind.SEND, Kind.MESSAGES) else self._short_max
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
