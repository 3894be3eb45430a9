"""The heads of a segment's two files, and the entries of its index. No state, no I/O.

A segment is a log of blocks and an index of them. An entry of the index is written only after its block is
safe on disk, so whoever trusts the index alone never sees what a crash may take back.
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
    """What stands in the head of a log beside its numbers."""

    group: str
    apps: dict[str, int]  # The last batch of each application before this segment.


class SegmentHead(NamedTuple):
    """The head of a log."""

    base: int  # Offset of its first record.
    time_us: int  # When it was begun.
    spool_id: bytes  # The same in all segments of a spool.
    group: str
    apps: dict[str, int]
    size_bytes: int = 0  # Of the head; blocks follow.

    @property
    def key(self) -> int:
        """What every block of the spool carries."""
        return int.from_bytes(self.spool_id[:4], "little")


class IndexEntry(NamedTuple):
    """Where a block is."""

    first: int
    position: int
    size_bytes: int
    records: int
    time_us: int  # When it was appended.
    crc: int  # The block's.
    more: bool  # Whether its append goes on in the next block.

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self.first + self.records

    @property
    def end_position(self) -> int:
        """Where the next block begins."""
        return self.position + self.size_bytes


def encode_segment_head(head: SegmentHead) -> bytes:
    """The first bytes of a log."""
    assert len(head.group.encode()) <= GROUP_NAME_BYTES_MAX, "check the group's name first"
    info = msgspec.msgpack.encode(SegmentInfo(head.group, head.apps))
    packed = _LOG.pack(LOG_MAGIC, FORMAT_VERSION, 0, len(info), head.base, head.time_us, head.spool_id, 0)
    crc = crc32(info, crc32(packed))
    whole = packed[:-4] + crc.to_bytes(4, "little") + info
    return whole + bytes(padded(len(whole)) - len(whole))


def decode_segment_head(buffer: bytes | memoryview, path: str) -> SegmentHead:
    """The head of a log; an error says what the file is instead."""
    if bytes(buffer[:8]) != LOG_MAGIC:
        raise NotASpool(path, "not a segment of a spool", "name the directory of a spool")
    if len(buffer) < _LOG.size:
        raise SpoolDamaged(path, "its head is cut short", 0)
    _, version, zero, facts_bytes, base, time_us, spool_id, crc = _LOG.unpack_from(buffer)
    if version != FORMAT_VERSION:
        raise OtherVersion(path, version, FORMAT_VERSION)
    if zero or facts_bytes > min(INFO_BYTES_MAX, len(buffer) - _LOG.size):
        raise SpoolDamaged(path, "its head is cut short or spoiled", base)
    end = _LOG.size + facts_bytes
    packed = bytes(buffer[: _LOG.size - 4]) + bytes(4)
    if crc != crc32(buffer[_LOG.size : end], crc32(packed)):
        raise SpoolDamaged(path, "the CRC of its head is wrong", base)
    info = msgspec.msgpack.decode(buffer[_LOG.size : end], type=SegmentInfo)
    return SegmentHead(base, time_us, spool_id, info.group, info.apps, padded(end))


def encode_index_head(base: int, key: int) -> bytes:
    """The first bytes of an index."""
    packed = _INDEX.pack(INDEX_MAGIC, FORMAT_VERSION, 0, key, base, 0)
    whole = packed[:-4] + crc32(packed).to_bytes(4, "little")
    return whole + bytes(INDEX_HEAD_BYTES - len(whole))


def is_index_head(buffer: bytes | memoryview, base: int, key: int) -> bool:
    """Whether an index of this segment begins so."""
    return bytes(buffer[:INDEX_HEAD_BYTES]) == encode_index_head(base, key)


def stand_in(index: bytes | memoryview, base: int) -> SegmentHead | None:
    """For the head of a log that is spoiled: what its index knows, so that the blocks can still be read."""
    key = bytes(index[12:16])
    if not is_index_head(index, base, int.from_bytes(key, "little")):
        return None
    return SegmentHead(base, 0, key.ljust(SPOOL_ID_BYTES, b"\0"), "", {})


def entry_of(head: BlockHead, position: int) -> IndexEntry:
    """The entry of a block."""
    return IndexEntry(head.first, position, head.size_bytes, head.records, head.time_us, head.crc, head.more)


def encode_entry(entry: IndexEntry) -> bytes:
    """An entry with its CRC."""
    packed = _ENTRY.pack(*entry[:6], entry.more, 0, 0)
    return packed[:-4] + crc32(packed).to_bytes(4, "little") + _ENTRY_PAD


def decode_entry(buffer: bytes | memoryview, at: int) -> IndexEntry | None:
    """The entry at this place, or None if it is not what was written."""
    if len(buffer) - at < ENTRY_BYTES:
        return None
    first, position, size_bytes, records, time_us, block_crc, more, zero, crc = _ENTRY.unpack_from(buffer, at)
    packed = bytes(buffer[at : at + _ENTRY.size - 4]) + bytes(4)
    if crc != crc32(packed) or more > 1 or zero or any(buffer[at + _ENTRY.size : at + ENTRY_BYTES]):
        return None
    return IndexEntry(first, position, size_bytes, records, time_us, block_crc, bool(more))


def decode_entries(buffer: bytes | memoryview) -> list[IndexEntry]:
    """The entries of a whole index up to the first one that is spoiled."""
    entries: list[IndexEntry] = []
    for at in range(INDEX_HEAD_BYTES, len(buffer) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = decode_entry(buffer, at)
        if entry is None or (entries and not follows(entry, entries[-1])):
            break
        entries.append(entry)
    return entries


def follows(entry: IndexEntry, before: IndexEntry) -> bool:
    """Whether it may stand behind the other; between them may be a block that was lost."""
    return entry.first >= before.end and entry.position >= before.end_position
