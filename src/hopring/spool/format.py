"""The byte layout of a spool: blocks, heads of log and index, entries of the index. No state, no I/O.

A block is one append, or a part of a long one. It begins with a head that has a CRC of its own, so that its
lengths can be trusted even where the rest is damaged. Columns and bodies follow under a second CRC. Columns are
in the layout of Arrow, and each begins at a multiple of 8. `docs/spool.md` has the table.

Limit  columns are mapped in place, so the machine has to be little-endian.

A segment is a log of blocks and an index of them. An entry is written to the index only after
its block is on disk, so a reader that uses the index alone never sees a record that a crash may take back.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from struct import Struct
from typing import Final, Literal, NamedTuple

import msgspec

from hopring.spool.errors import NotASpool, OtherVersion, SpoolDamaged
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

assert sys.byteorder == "little", "columns are mapped in place"

crc32: Final[Callable[..., int]] = import_module(
    "zlib" if find_spec("isal") is None else "isal.isal_zlib"
).crc32
"""The CRC of zlib, computed by ISA-L where that is installed.

Every byte that is appended or replayed goes through it. Plain zlib takes 0.5 µs for a kilobyte, as long as the
rest of an append; ISA-L uses carry-less multiplication and takes a twentieth of that. The numbers are the same,
so a spool that was written with one is read with the other.
"""

BLOCK_MAGIC: Final = b"HBLK"
MORE: Final = 0x0001  # The append continues in the next block; it counts only if its last block is there.
ENVELOPED: Final = 0x0002  # Headers of messages follow the bodies; since version 2 of the format.
NO_BATCH: Final = -1
NO_STRING: Final = 0xFFFF_FFFF

# magic, flags, zero, size, records, runs, strings, strings bytes, bodies bytes,
# first offset, batch, time, key, application, crc of the rest
_HEAD: Final = Struct("<4sHHIIIIIIQqqIII")
_CRC: Final = Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CRC.size

BLOCK_RECORDS_MAX: Final = 65_536
BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024
BODIES_BYTES_MAX: Final = 32 * 1024 * 1024
"""Limit for the bodies of a block; the largest message is half of it."""

Typecode = Literal["Q", "q", "i", "I", "H", "B"]
"""A typecode of the array module."""

# Columns with one item per run: name and typecode of the array module.
RUN_COLUMNS: Final[tuple[tuple[str, Typecode], ...]] = (
    *(("place_counter", "Q"), ("place_nonce", "Q"), ("lts", "Q"), ("view_counter", "Q"), ("view_nonce", "Q")),
    *(("view_step", "q"), ("time_us", "q")),
    *(("run_end", "i"), ("number", "I"), ("sender", "I"), ("groups", "I")),
    *(("place_representative", "H"), ("site", "H"), ("view_representative", "H")),
    *(("kind", "B"), ("service", "B")),
)
_SHAPES_KEPT_MAX: Final = 1024
"""Cached layouts: the appends of a program often have the same shape."""

SIZES: Final[dict[Typecode, int]] = {"Q": 8, "q": 8, "i": 4, "I": 4, "H": 2, "B": 1}


class BlockHead(NamedTuple):
    """The head of a block, in the order of its fields in the file."""

    flags: int
    size_bytes: int
    records: int
    runs: int
    strings: int
    strings_bytes: int
    bodies_bytes: int
    first: int  # Offset of the first record.
    batch: int  # The application's number for this append, or NO_BATCH.
    time_us: int  # Time of the append.
    key: int  # The spool's key; a block with another key belongs to another spool.
    app: int  # Index of the application's name among the strings, or NO_STRING.
    crc: int

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.first + self.records

    @property
    def more(self) -> bool:
        """Whether the append continues in the next block."""
        return bool(self.flags & MORE)

    @property
    def enveloped(self) -> bool:
        """Whether headers of messages follow the bodies."""
        return bool(self.flags & ENVELOPED)


class ColumnExtent(NamedTuple):
    """Position, type and length of a column in a block."""

    at: int
    typecode: Typecode
    items: int


def padded(size_bytes: int) -> int:
    """The size rounded up to a multiple of 8."""
    return (size_bytes + 7) & ~7


@lru_cache(maxsize=_SHAPES_KEPT_MAX)
def sections(records: int, runs: int, strings: int, strings_bytes: int) -> tuple[dict[str, ColumnExtent], int]:
    """The extent of each column, and the position of the bodies behind them."""
    found: dict[str, ColumnExtent] = {}
    at = HEAD_BYTES
    columns: list[tuple[str, Typecode, int]] = [(name, code, runs) for name, code in RUN_COLUMNS]
    columns += [("ends", "i", records + 1), ("types", "H", records)]
    columns += [("string_ends", "I", strings + 1), ("strings", "B", strings_bytes)]
    for name, code, items in columns:
        found[name] = ColumnExtent(at, code, items)
        at = padded(at + items * SIZES[code])
    return found, at


def pack_head(head: BlockHead) -> bytes:
    """The bytes of a head, with its CRC."""
    packed = _HEAD.pack(BLOCK_MAGIC, head.flags, 0, *head[1:])
    return packed + _CRC.pack(crc32(packed))


def unpack_head(buffer: bytes | memoryview, at: int = 0) -> BlockHead | str:
    """The head at this position, or the reason why there is none. Sizes and counts are checked."""
    if len(buffer) - at < HEAD_BYTES:
        return "cut short"
    magic, flags, zero, *rest = _HEAD.unpack_from(buffer, at)
    if magic != BLOCK_MAGIC:
        return "no block begins here"
    (crc,) = _CRC.unpack_from(buffer, at + _HEAD.size)
    if crc != crc32(memoryview(buffer)[at : at + _HEAD.size]):
        return "the head's CRC is wrong"
    return _checked(BlockHead(flags, *rest), zero)


def _checked(head: BlockHead, zero: int) -> BlockHead | str:
    if zero or head.flags & ~(MORE | ENVELOPED):
        return f"unknown flags {head.flags:#06x} {zero:#06x}"
    if not 0 < head.runs <= head.records <= BLOCK_RECORDS_MAX or head.bodies_bytes > BODIES_BYTES_MAX:
        return f"{head.records} records in {head.runs} runs with {head.bodies_bytes} bytes"
    if head.size_bytes > BLOCK_BYTES_MAX or max(head.strings, head.strings_bytes) > head.size_bytes:
        return f"a block of {head.size_bytes} bytes"
    if head.app != NO_STRING and head.app >= head.strings:
        return "the application is not among the strings"
    _, bodies_at = sections(head.records, head.runs, head.strings, head.strings_bytes)
    parts_bytes = padded(bodies_at + head.bodies_bytes)
    if head.enveloped:  # The size of the last part is in that part.
        parts_bytes += padded(SIZES["I"] * (head.records + 1))
    if head.size_bytes < parts_bytes or (head.size_bytes != parts_bytes and not head.enveloped):
        return f"its size is {head.size_bytes} bytes, that of its parts {parts_bytes}"
    return head


FORMAT_VERSION: Final = 2
"""The version of new segments; older hoprings refuse them, because they do not know headers of messages."""

VERSIONS_READ: Final = (1, FORMAT_VERSION)
"""Segments of version 1 are read, and finished when a writer opens their spool."""

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
    version: int = FORMAT_VERSION

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
    packed = _LOG.pack(LOG_MAGIC, head.version, 0, len(info), head.base, head.time_us, head.spool_id, 0)
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
    if version not in VERSIONS_READ:
        raise OtherVersion(path, version, FORMAT_VERSION)
    if zero or facts_bytes > min(INFO_BYTES_MAX, len(buffer) - _LOG.size):
        raise SpoolDamaged(path, "its head is cut short or damaged", base)
    end = _LOG.size + facts_bytes
    packed = bytes(buffer[: _LOG.size - 4]) + bytes(4)
    if crc != crc32(buffer[_LOG.size : end], crc32(packed)):
        raise SpoolDamaged(path, "the CRC of its head is wrong", base)
    info = msgspec.msgpack.decode(buffer[_LOG.size : end], type=SegmentInfo)
    return SegmentHead(base, time_us, spool_id, info.group, info.apps, padded(end), version)


def encode_index_head(base: int, key: int, version: int = FORMAT_VERSION) -> bytes:
    """The bytes of an index's head, padded."""
    packed = _INDEX.pack(INDEX_MAGIC, version, 0, key, base, 0)
    whole = packed[:-4] + crc32(packed).to_bytes(4, "little")
    return whole + bytes(INDEX_HEAD_BYTES - len(whole))


def is_index_head(buffer: bytes | memoryview, base: int, key: int) -> bool:
    """Whether the buffer begins with the head of this segment's index."""
    head = bytes(buffer[:INDEX_HEAD_BYTES])
    return any(head == encode_index_head(base, key, version) for version in VERSIONS_READ)


def stand_in(index: bytes | memoryview, base: int) -> SegmentHead | None:
    """A head made from the index, for a log whose own head is damaged, so that its blocks can still be read."""
    key = bytes(index[12:16])
    if not is_index_head(index, base, int.from_bytes(key, "little")):
        return None
    version = int.from_bytes(index[8:10], "little")
    return SegmentHead(base, 0, key.ljust(SPOOL_ID_BYTES, b"\0"), "", {}, version=version)


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
    """The entries of an index that are intact and follow each other; all others are left out."""
    entries: list[IndexEntry] = []
    for at in range(INDEX_HEAD_BYTES, len(buffer) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = decode_entry(buffer, at)
        if entry is not None and (not entries or follows(entry, entries[-1])):
            entries.append(entry)
    return entries


def follows(entry: IndexEntry, before: IndexEntry) -> bool:
    """Whether the entry may follow the other; lost blocks may lie between them."""
    return entry.first >= before.end and entry.position >= before.end_position
