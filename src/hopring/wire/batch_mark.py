"""Batch marks: which messages of which application's batch a bundle has, so that a batch sent again is known.

A mark stands in the bundle, between the names of groups and the bodies, and goes where the bundle goes: whoever
has the messages has their numbers. Daemons pass it on; receivers drop what they have had (client/dedup.py).

Invariant   a mark has a name of 1 to APP_BYTES_MAX bytes, a batch up to BATCH_MAX, and an index such that the
            last message of its bundle has one, too.
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
"""So many messages a batch has at most. Batch and index together are one number of 63 bits."""


class BatchMark(NamedTuple):
    """Of a bundle: its messages are those of the batch from this index on."""

    app: str
    batch: int
    first: int = 0

    @property
    def number(self) -> int:
        """Of its first message, among all of the application."""
        return self.batch << INDEX_BITS | self.first


def is_legal_app(app: str) -> bool:
    """Whether an application can be called so."""
    try:
        size = len(app.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= APP_BYTES_MAX and "\0" not in app


def encode_mark(mark: BatchMark, messages: int) -> bytes:
    """The mark of a bundle of so many messages."""
    assert is_legal_app(mark.app), "names are judged before"
    assert 0 <= mark.batch <= BATCH_MAX, "so many batches there are"
    assert 0 <= mark.first <= INDEXES - messages, "so many messages a batch has"
    return _HEAD.pack(mark.batch, mark.first) + mark.app.encode()


def decode_mark(mark: bytes, messages: int) -> BatchMark:
    """The mark that fills these bytes, of a bundle of so many messages."""
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
