"""Batch marks: the part of an application's batch that a bundle has, to recognize a batch that is sent again.

A mark is in the bundle, between the names of groups and the bodies, so each receiver of the messages has their
numbers. Daemons ignore it; receivers drop messages that they have had before (client/receiving/dedup.py).

Invariant   a mark has a name of 1 to APP_BYTES_MAX bytes, a batch up to BATCH_MAX, and a first index such that
            the index of the last message of its bundle is below INDEXES.
"""

from struct import Struct
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError

# batch, index of the bundle's first message in it; the name fills the rest
_HEAD: Final = Struct("<QI")
_HEAD_BYTES: Final = _HEAD.size

APP_BYTES_MAX: Final = 128
MARK_BYTES_MAX: Final = _HEAD_BYTES + APP_BYTES_MAX
assert MARK_BYTES_MAX < 256, "its length is one byte"

BATCH_MAX: Final = 2**31 - 1
INDEX_BITS: Final = 32
INDEXES: Final = 2**INDEX_BITS
"""Limit of the messages of a batch. Batch and index together are one number of 63 bits."""


class BatchMark(NamedTuple):
    """The mark of a bundle whose messages are those of the batch from index `first` on."""

    app: str
    batch: int
    first: int = 0

    @property
    def number(self) -> int:
        """The number of the first message among all messages of the application."""
        return self.batch << INDEX_BITS | self.first


def is_legal_app(app: str) -> bool:
    """Whether this is a legal name of an application."""
    try:
        size = len(app.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= APP_BYTES_MAX and "\0" not in app


def encode_mark(mark: BatchMark, messages: int) -> bytes:
    """Encodes the mark of a bundle with this many messages."""
    assert is_legal_app(mark.app), "check the name before"
    assert 0 <= mark.batch <= BATCH_MAX, "the batch is too high"
    assert 0 <= mark.first <= INDEXES - messages, "a batch has at most INDEXES messages"
    return _HEAD.pack(mark.batch, mark.first) + mark.app.encode()


def decode_mark(mark: bytes, messages: int) -> BatchMark:
    """Decodes the mark of a bundle with this many messages."""
    if not _HEAD_BYTES < len(mark) <= MARK_BYTES_MAX:
        raise PeerError(Drop.LENGTH, f"a mark of {len(mark)} bytes")
    batch, first = _HEAD.unpack_from(mark)
    if batch > BATCH_MAX or first > INDEXES - messages:
        raise PeerError(Drop.LIMIT, f"a mark of batch {batch} from {first} on, of {messages} messages")
    try:
        app = mark[_HEAD_BYTES:].decode()
    except UnicodeDecodeError as error:
        raise PeerError(Drop.INCONSISTENT, "a mark whose name is not UTF-8") from error
    if "\0" in app:
        raise PeerError(Drop.INCONSISTENT, f"a mark whose name {app!r} holds a NUL")
    return BatchMark(app, batch, first)
