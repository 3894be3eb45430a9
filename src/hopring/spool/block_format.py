"""The byte layout of a block: its head, and the extent of each column. No state, no I/O.

A block is one append, or a part of a long one. It begins with a head that has a CRC of its own, so that its
lengths can be trusted even where the rest is damaged. Columns and bodies follow under a second CRC. Columns are
in the layout of Arrow, and each begins at a multiple of 8. `docs/spool.md` has the table.

Limit  columns are mapped in place, so the machine has to be little-endian.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from struct import Struct
from typing import Final, Literal, NamedTuple

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
    if zero or head.flags & ~MORE:
        return f"unknown flags {head.flags:#06x} {zero:#06x}"
    if not 0 < head.runs <= head.records <= BLOCK_RECORDS_MAX or head.bodies_bytes > BODIES_BYTES_MAX:
        return f"{head.records} records in {head.runs} runs with {head.bodies_bytes} bytes"
    if head.size_bytes > BLOCK_BYTES_MAX or max(head.strings, head.strings_bytes) > head.size_bytes:
        return f"a block of {head.size_bytes} bytes"
    if head.app != NO_STRING and head.app >= head.strings:
        return "the application is not among the strings"
    _, bodies_at = sections(head.records, head.runs, head.strings, head.strings_bytes)
    if head.size_bytes != padded(bodies_at + head.bodies_bytes):
        return f"its size is {head.size_bytes} bytes, that of its parts {padded(bodies_at + head.bodies_bytes)}"
    return head
