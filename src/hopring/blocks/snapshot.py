"""Snapshots on their way: cut into chunks at the speaker, put together and checked at the receiver."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from hopring.blocks.state_header import EndMark


@dataclass(frozen=True, slots=True)
class TransferSizes:
    """The sizes with which snapshots are sent."""

    chunk_bytes: int = 32 * 1024
    window_chunks: int = 32  # Those that may be on their way to one receiver.
    receipt_chunks: int = 8  # A receiver confirms this many at a time.


SIZES: Final = TransferSizes()


class BrokenSnapshot(Exception):
    """A provider gave something else than it had promised."""


@dataclass(slots=True)
class OutgoingSnapshot:
    """A snapshot that is cut as its receivers make progress; all of them share the chunks."""

    source: Iterator[bytes]
    chunk_bytes: int
    promised_bytes: int | None = None  # What the provider said beforehand.
    chunks: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    crc: int = 0
    whole: bool = False
    _rest: memoryview = field(default_factory=lambda: memoryview(b""))

    def has(self, index: int) -> bool:
        """Cuts as far as this chunk; False if there is none. What the provider raises is raised here."""
        while len(self.chunks) <= index and not self.whole:
            self._cut_more()
        return index < len(self.chunks)

    def end(self, round_name: str) -> EndMark:
        """The end of a snapshot that is cut completely."""
        return EndMark(round_name, len(self.chunks), self.size_bytes, self.crc)

    def _cut_more(self) -> None:
        # One chunk at a time: a large part must not hold up everything else.
        if len(self._rest) >= self.chunk_bytes:
            self._add(bytes(self._rest[: self.chunk_bytes]))
            self._rest = self._rest[self.chunk_bytes :]
            return
        part = next(self.source, None)
        if part is not None:
            if not isinstance(part, bytes | bytearray | memoryview):
                raise BrokenSnapshot(f"a part of type {type(part).__name__}; give bytes")
            self._rest = memoryview(bytes(self._rest) + part if self._rest else part).cast("B")
            return
        if self._rest:
            self._add(bytes(self._rest))
        self.whole = True
        if self.promised_bytes not in (None, self.size_bytes):
            raise BrokenSnapshot(f"{self.size_bytes} bytes, and {self.promised_bytes} were promised")

    def _add(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.size_bytes += len(chunk)
        self.crc = crc32(chunk, self.crc)


@dataclass(slots=True)
class IncomingSnapshot:
    """A snapshot that arrives in chunks."""

    chunks: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    crc: int = 0
    whole: bool = False

    def add(self, index: int, chunk: bytes) -> bool:
        """Adds a chunk; False if it is not the next one."""
        if index != len(self.chunks) or self.whole:
            return False
        self.chunks.append(chunk)
        self.size_bytes += len(chunk)
        self.crc = crc32(chunk, self.crc)
        return True

    def finish(self, end: EndMark) -> bool:
        """Ends it; False if something else has arrived than was sent."""
        self.whole = (len(self.chunks), self.size_bytes, self.crc) == (end.chunks, end.size_bytes, end.crc)
        return self.whole

    def data(self) -> bytes:
        """The whole snapshot in one piece."""
        return b"".join(self.chunks)
