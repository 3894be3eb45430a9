"""The byte layout of a segment's two files: the head of the log, the head and the entries of the index.

No state, no I/O. A segment is a log of blocks and an index of them. An entry is written to the index only after
its block is on disk, so a reader that uses the index alone never sees a record that a crash may take back.
"""

from struct import Struct
from typing import Final, NamedTuple

import msgspec

from hopring.spool.block_format import BlockHead, crc32, padded
from hopring.spool.errors import NotASpool, OtherVersion, SpoolDamaged
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

FORMAT_VERSION: Final = 1
LOG_MAGIC: Final = b"HOPSPOOL"
INDEX_MAGIC: Final = b"HOPINDEX"
SPOOL_ID_BYTES: Final = 16
INFO_BYTES_MAX: Final = 16 * 1024 * 1024
APPS_MAX: Final = 10_000
APP_BYTES_MAX: Final = 256

# magic, version, zero, bytes of the info, base offset, time, spool, crc of all but itself
_LOG: Final = Struct("<8sHHIQq16sI")
# magic, version, zero, key, base offset, crc
_INDEX: Final = Struct("<8sHHIQI")
INDEX_HEAD_BYTES: Final = 32
# first offset, position, size, records, time, the block's crc, flags, crc
_ENTRY: Final = Struct("<QQIIqIHHI")
ENTRY_BYTES: Final = 48
_ENTRY_PAD: Final = bytes(ENTRY_BYTES - _ENTRY.size)


class SegmentInfo(msgspec.Struct, frozen=True, array_like=True):
    """The part of a log's head that is msgpack."""

    group: str
    apps: dict[str, int]  # The last batch of each application before this segment.


class SegmentHead(NamedTuple):
    """The head of a segment's log."""

    base: int  # Offset of its first record.
    time_us: int  # Time at which the segment was created.
    spool_id: bytes  # Random; the same in all segments of a spool.
    group: str
    apps: dict[str, int]
    size_bytes: int = 0  # Size of the head; blocks follow.

    @property
    def key(self) -> int:
        """The part of the spool's id that every block carries."""
        return int.from_bytes(self.spool_id[:4], "little")


class IndexEntry(NamedTuple):
    """An entry of the index: position and extent of a block."""

    first: int
    position: int
    size_bytes: int
    records: int
    time_us: int  # Time of the append.
    crc: int  # The CRC of the block.
    more: bool  # Whether the append continues in the next block.

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.first + self.records

    @property
    def end_position(self) -> int:
        """The position of the next block."""
        return self.position + self.size_bytes


def encode_segment_head(head: SegmentHead) -> bytes:
    """The bytes of a log's head, padded."""
    assert len(head.group.encode()) <= GROUP_NAME_BYTES_MAX, "check the group's name first"
    info = msgspec.msgpack.encode(SegmentInfo(head.group, head.apps))
    packed = _LOG.pack(LOG_MAGIC, FORMAT_VERSION, 0, len(info), head.base, head.time_us, head.spool_id, 0)
    crc = crc32(info, crc32(packed))
    whole = packed[:-4] + crc.to_bytes(4, "little") + info
    return whole + bytes(padded(len(whole)) - len(whole))


def decode_segment_head(buffer: bytes | memoryview, path: str) -> SegmentHead:
    """The head of a log; NotASpool, OtherVersion or SpoolDamaged if the buffer does not begin with one."""
    if bytes(buffer[:8]) != LOG_MAGIC:
        raise NotASpool(path, "not a segment of a spool", "name the directory of a spool")
    if len(buffer) < _LOG.size:
        raise SpoolDamaged(path, "its head is cut short", 0)
    _, version, zero, facts_bytes, base, time_us, spool_id, crc = _LOG.unpack_from(buffer)
    if version != FORMAT_VERSION:
        raise OtherVersion(path, version, FORMAT_VERSION)
    if zero or facts_bytes > min(INFO_BYTES_MAX, len(buffer) - _LOG.size):
        raise SpoolDamaged(path, "its head is cut short or damaged", base)
    end = _LOG.size + facts_bytes
    packed = bytes(buffer[: _LOG.size - 4]) + bytes(4)
    if crc != crc32(buffer[_LOG.size : end], crc32(packed)):
        raise SpoolDamaged(path, "the CRC of its head is wrong", base)
    info = msgspec.msgpack.decode(buffer[_LOG.size : end], type=SegmentInfo)
    return SegmentHead(base, time_us, spool_id, info.group, info.apps, padded(end))


def encode_index_head(base: int, key: int) -> bytes:
    """The bytes of an index's head, padded."""
    packed = _INDEX.pack(INDEX_MAGIC, FORMAT_VERSION, 0, key, base, 0)
    whole = packed[:-4] + crc32(packed).to_bytes(4, "little")
    return whole + bytes(INDEX_HEAD_BYTES - len(whole))


def is_index_head(buffer: bytes | memoryview, base: int, key: int) -> bool:
    """Whether the buffer begins with the head of this segment's index."""
    return bytes(buffer[:INDEX_HEAD_BYTES]) == encode_index_head(base, key)


def stand_in(index: bytes | memoryview, base: int) -> SegmentHead | None:
    """A head made from the index, for a log whose own head is damaged, so that its blocks can still be read."""
    key = bytes(index[12:16])
    if not is_index_head(index, base, int.from_bytes(key, "little")):
        return None
    return SegmentHead(base, 0, key.ljust(SPOOL_ID_BYTES, b"\0"), "", {})


def entry_of(head: BlockHead, position: int) -> IndexEntry:
    """The index entry of a block at this position."""
    return IndexEntry(head.first, position, head.size_bytes, head.records, head.time_us, head.crc, head.more)


def encode_entry(entry: IndexEntry) -> bytes:
    """The bytes of an entry, with its CRC."""
    packed = _ENTRY.pack(*entry[:6], entry.more, 0, 0)
    return packed[:-4] + crc32(packed).to_bytes(4, "little") + _ENTRY_PAD


def decode_entry(buffer: bytes | memoryview, at: int) -> IndexEntry | None:
    """The entry at this position, or None if it is damaged."""
    if len(buffer) - at < ENTRY_BYTES:
        return None
    first, position, size_bytes, records, time_us, block_crc, more, zero, crc = _ENTRY.unpack_from(buffer, at)
    packed = bytes(buffer[at : at + _ENTRY.size - 4]) + bytes(4)
    if crc != crc32(packed) or more > 1 or zero or any(buffer[at + _ENTRY.size : at + ENTRY_BYTES]):
        return None
    return IndexEntry(first, position, size_bytes, records, time_us, block_crc, bool(more))


def decode_entries(buffer: bytes | memoryview) -> list[IndexEntry]:
    """The entries of an index up to the first damaged one."""
    entries: list[IndexEntry] = []
    for at in range(INDEX_HEAD_BYTES, len(buffer) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = decode_entry(buffer, at)
        if entry is None or (entries and not follows(entry, entries[-1])):
            break
        entries.append(entry)
    return entries


def follows(entry: IndexEntry, before: IndexEntry) -> bool:
    """Whether the entry may follow the other; lost blocks may lie between them."""
    return entry.first >= before.end and entry.position >= before.end_position
