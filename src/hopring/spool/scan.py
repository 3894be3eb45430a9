"""Looking through a log block by block, whatever has become of it. No state, no I/O.

A block that is spoiled is passed over: by its length, if its head is whole, or else by looking for the next
place where a whole block of this spool begins. So what is damaged is named, and what is behind it is found.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hopring.spool.block import Block, decode_block
from hopring.spool.sections import BLOCK_MAGIC, padded, unpack_head


class Found(NamedTuple):
    """A whole block."""

    position: int
    block: Block


class Lost(NamedTuple):
    """Bytes that are no block."""

    position: int
    end_position: int
    reason: str
    first: int  # Offset of the first record that is lost.
    end: int | None  # Behind the last one; None if nothing follows that would tell.


def scan(buffer: bytes | memoryview, at: int, first: int, key: int) -> Iterator[Found | Lost]:
    """All blocks from this place on, where the record `first` is expected, and all that is lost among them."""
    while at < len(buffer):
        block = _block(buffer, at, first, key)
        if isinstance(block, str):
            reason = block
            following = _next(buffer, at, first, key)
            if following is None:
                yield Lost(at, len(buffer), reason, first, None)
                return
            yield Lost(at, following.position, reason, first, following.block.head.first)
            at, block = following
        elif block.head.first > first:
            yield Lost(at, at, "records are missing", first, block.head.first)
        yield Found(at, block)
        at += block.head.size_bytes
        first = block.head.end


def whole_appends(parts: list[Found | Lost]) -> list[Found | Lost]:
    """The same without what is left at the end of an append that was not finished, and of what is no block."""
    end = len(parts)
    while end:
        last = parts[end - 1]
        if isinstance(last, Found) and not last.block.head.more:
            break
        end -= 1
    return parts[:end]


def _block(buffer: bytes | memoryview, at: int, first: int, key: int) -> Block | str:
    block = decode_block(buffer, at, key)
    if isinstance(block, Block) and block.head.first < first:
        return f"its offsets go back to {block.head.first}"
    return block


def _next(buffer: bytes | memoryview, at: int, first: int, key: int) -> Found | None:
    """The next whole block behind a place that has none."""
    head = unpack_head(buffer, at)
    if not isinstance(head, str) and head.key == key:
        # What looks like a block inside of a body is none.
        at += head.size_bytes - 8
    whole = bytes(buffer[at + 8 :]) if at + 8 < len(buffer) else b""
    found = whole.find(BLOCK_MAGIC)
    while found >= 0:
        position = at + 8 + found
        if position == padded(position):
            block = _block(buffer, position, first, key)
            if isinstance(block, Block):
                return Found(position, block)
        found = whole.find(BLOCK_MAGIC, found + 1)
    return None
