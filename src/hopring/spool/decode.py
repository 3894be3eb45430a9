"""Decodes blocks: checks one in a buffer, reads its records, and scans a damaged log for blocks.

No state, no I/O. A scan skips a damaged block by its length if its head is intact, and otherwise searches for
the next position at which an intact block of this spool begins. So it names all damage and finds all that is
intact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import NamedTuple

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.encode import NAMES_BETWEEN, AppendMark
from hopring.spool.format import (
    BLOCK_MAGIC,
    HEAD_BYTES,
    NO_STRING,
    RUN_COLUMNS,
    SIZES,
    BlockHead,
    ColumnExtent,
    crc32,
    padded,
    sections,
    unpack_head,
)
from hopring.spool.record import NO_HEADERS, GroupStep, RecordHeader, RecordKind, SpoolRecord
from hopring.wire.envelope import decode_envelope

_KINDS = frozenset(RecordKind)
_SERVICES = frozenset([0, *Service])


@dataclass(frozen=True, slots=True)
class SpoolBlock:
    """An intact block; its columns are views of the buffer."""

    head: BlockHead
    buffer: memoryview  # Exactly the bytes of this block.
    places: dict[str, ColumnExtent]
    bodies_at: int

    def column(self, name: str) -> memoryview:
        """The values of a column, mapped in place."""
        return self.section(name).cast(self.places[name].typecode)

    def section(self, name: str) -> memoryview:
        """The bytes of a column, mapped in place."""
        at, code, items = self.places[name]
        return self.buffer[at : at + items * SIZES[code]]

    @property
    def bodies(self) -> memoryview:
        """The bodies of all records, end to end."""
        return self.buffer[self.bodies_at : self.bodies_at + self.head.bodies_bytes]

    @property
    def headers(self) -> list[Mapping[str, str]]:
        """The headers of each record; an empty list if the block has none."""
        if not self.head.enveloped:
            return []
        ends, whole = self._envelopes()
        return [_headers(whole[start:end]) for start, end in pairwise(ends)]

    def _envelopes(self) -> tuple[list[int], bytes]:
        """The ends of all envelopes, and the envelopes; with the padding behind them."""
        at = padded(self.bodies_at + self.head.bodies_bytes)
        behind = at + SIZES["I"] * (self.head.records + 1)
        return self.buffer[at:behind].cast("I").tolist(), bytes(self.buffer[padded(behind) :])

    @property
    def strings(self) -> list[str]:
        """The distinct strings of the block: senders, lists of groups, the application."""
        whole = bytes(self.section("strings"))
        return [whole[start:end].decode() for start, end in pairwise(self.column("string_ends").tolist())]

    @property
    def mark(self) -> AppendMark | None:
        """The application and batch that appended the block, if it had a mark."""
        head = self.head
        return None if head.app == NO_STRING else AppendMark(self.strings[head.app], head.batch)

    def runs(self) -> list[tuple[int, int, RecordHeader]]:
        """The end of each run, the number of its first record, and the header of its records."""
        strings = self.strings
        names = [tuple(text.split(NAMES_BETWEEN)) if text else () for text in strings]
        columns = [self.column(name).tolist() for name, _ in RUN_COLUMNS]
        return [_run(row, strings, names) for row in zip(*columns, strict=True)]

    def records(self, start: int = 0, end: int | None = None) -> list[SpoolRecord]:
        """The records with offsets from `start` to before `end`."""
        first = self.head.first
        low = max(0, start - first)
        high = self.head.records if end is None else min(self.head.records, end - first)
        bodies, ends, types = bytes(self.bodies), self.column("ends").tolist(), self.column("types").tolist()
        headers = self.headers or [NO_HEADERS] * self.head.records
        out: list[SpoolRecord] = []
        begin = 0
        for run_end, number, header in self.runs():
            here, stop = max(begin, low), min(run_end, high)
            shift = number - begin
            offsets, numbers = range(first + here, first + stop), range(here + shift, stop + shift)
            its = [bodies[at:to] for at, to in pairwise(ends[here : stop + 1])]
            common = repeat(header)
            out += map(SpoolRecord, offsets, numbers, types[here:stop], its, common, headers[here:stop])
            begin = run_end
        return out


def _headers(envelope: bytes) -> Mapping[str, str]:
    found = decode_envelope(envelope) if envelope else None
    return NO_HEADERS if found is None else found[0]


def _run(
    row: tuple[int, ...], strings: list[str], names: list[tuple[str, ...]]
) -> tuple[int, int, RecordHeader]:
    """A run from its values in the order of RUN_COLUMNS."""
    counter, nonce, lts, view_counter, view_nonce, step, time_us, *rest = row
    end, number, sender, groups, representative, site, view_representative, kind, service = rest
    header = RecordHeader(
        RecordKind(kind),
        time_us,
        strings[sender],
        names[groups],
        Service(service) if service else None,
        Place(ViewId(counter, DaemonId(representative), Incarnation(nonce)), lts, site),
        GroupStep(ViewId(view_counter, DaemonId(view_representative), Incarnation(view_nonce)), step),
    )
    return end, number, header


def decode_block(buffer: bytes | memoryview, at: int = 0, key: int | None = None) -> SpoolBlock | str:
    """The block at this position, or the reason why there is none. Only the CRC is trusted."""
    head = unpack_head(buffer, at)
    if isinstance(head, str):
        return head
    if key is not None and head.key != key:
        return "a block of another spool"
    if len(buffer) - at < head.size_bytes:
        return "cut short"
    whole = memoryview(buffer)[at : at + head.size_bytes]
    if crc32(whole[HEAD_BYTES:]) != head.crc:
        return "its CRC is wrong"
    places, bodies_at = sections(head.records, head.runs, head.strings, head.strings_bytes)
    block = SpoolBlock(head, whole, places, bodies_at)
    return _inconsistency(block) or block


def _inconsistency(block: SpoolBlock) -> str:
    """Why a block with a correct CRC is unusable, or "". Columns index others, so values are checked."""
    head = block.head
    run_ends = block.column("run_end").tolist()
    if not _rises(block.column("ends").tolist(), head.bodies_bytes):
        return "the ends of its bodies do not rise to the last"
    if not _rises(block.column("string_ends").tolist(), head.strings_bytes):
        return "the ends of its strings do not rise to the last"
    if not _rises([0, *run_ends], head.records) or len({0, *run_ends}) != len(run_ends) + 1:
        return "its runs do not fill it"
    if max(*block.column("sender"), *block.column("groups")) >= head.strings:
        return "a string index is out of range"
    if not _KINDS.issuperset(block.column("kind").tolist()):
        return "an unknown kind of record"
    if not _SERVICES.issuperset(block.column("service").tolist()):
        return "an unknown service"
    if head.enveloped:
        ends, envelopes = block._envelopes()
        if not _rises(ends, ends[-1]) or padded(ends[-1]) != len(envelopes):
            return "the ends of its headers do not rise to the last"
    try:
        len(block.strings)
    except UnicodeDecodeError:
        return "a string is not UTF-8"
    return ""


def _rises(ends: list[int], last: int) -> bool:
    # Sorting a sorted list is a single pass without a Python loop.
    return ends[0] == 0 and ends[-1] == last and sorted(ends) == ends


class FoundBlock(NamedTuple):
    """An intact block and its position in the log."""

    position: int
    block: SpoolBlock


class LostBytes(NamedTuple):
    """A part of the log that is not an intact block."""

    position: int
    end_position: int
    reason: str
    first: int  # Offset of the first record that is lost.
    end: int | None  # Offset after the last one; None if no intact block follows.


def scan(buffer: bytes | memoryview, at: int, first: int, key: int) -> Iterator[FoundBlock | LostBytes]:
    """The intact blocks from this position on, where record `first` is expected, and the damage between."""
    while at < len(buffer):
        block = _block(buffer, at, first, key)
        if isinstance(block, str):
            reason = block
            following = _next(buffer, at, first, key)
            if following is None:
                yield LostBytes(at, len(buffer), reason, first, None)
                return
            yield LostBytes(at, following.position, reason, first, following.block.head.first)
            at, block = following
        elif block.head.first > first:
            yield LostBytes(at, at, "records are missing", first, block.head.first)
        yield FoundBlock(at, block)
        at += block.head.size_bytes
        first = block.head.end


def whole_appends(parts: list[FoundBlock | LostBytes]) -> list[FoundBlock | LostBytes]:
    """The parts without damage at the end, and without the blocks of an unfinished append there."""
    end = len(parts)
    while end:
        last = parts[end - 1]
        if isinstance(last, FoundBlock) and not last.block.head.more:
            break
        end -= 1
    return parts[:end]


def _block(buffer: bytes | memoryview, at: int, first: int, key: int) -> SpoolBlock | str:
    block = decode_block(buffer, at, key)
    if isinstance(block, SpoolBlock) and block.head.first < first:
        return f"its offsets go back to {block.head.first}"
    return block


def _next(buffer: bytes | memoryview, at: int, first: int, key: int) -> FoundBlock | None:
    """The next intact block after a position that has none."""
    head = unpack_head(buffer, at)
    if not isinstance(head, str) and head.key == key:
        # Skipped by its length: a body may contain bytes that look like a block.
        at += head.size_bytes - 8
    whole = bytes(buffer[at + 8 :]) if at + 8 < len(buffer) else b""
    found = whole.find(BLOCK_MAGIC)
    while found >= 0:
        position = at + 8 + found
        if position == padded(position):
            block = _block(buffer, position, first, key)
            if isinstance(block, SpoolBlock):
                return FoundBlock(position, block)
        found = whole.find(BLOCK_MAGIC, found + 1)
    return None
