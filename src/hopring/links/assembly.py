"""Assembly: stores the segments of incomplete packets until the last one arrives.

Below       segments in any order, with duplicates (wire.data).
Above       a link, which wants whole packets and requests missing segments.
Invariants  all stored segments of one packet are of one cut; every stored packet is incomplete.
Limit       none of its own: a link adds only segments of packets in its receive window.
"""

from dataclasses import dataclass, field
from typing import final

from hopring.errors import Drop, PeerError
from hopring.value import Mutable
from hopring.wire.data import Segment


@final
class _Part(Mutable):
    """The segments of one packet that have arrived, and the sizes of their cut."""

    def __init__(
        self, count: int, packet_bytes: int, chunk_bytes: int, chunks: dict[int, bytes] | None = None
    ) -> None:
        self.count = count
        self.packet_bytes = packet_bytes
        self.chunk_bytes = chunk_bytes
        self.chunks = {} if chunks is None else chunks  # By index; never all of them.


@dataclass(slots=True)
class Assembly:
    """The incomplete packets of a link, by sequence."""

    _parts: dict[int, _Part] = field(default_factory=dict)

    def __contains__(self, seq: int) -> bool:
        return seq in self._parts

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, segment: Segment) -> bytes | None:
        """Stores a segment; returns the payload if this completes the packet, and then no longer stores it."""
        part = self._parts.get(segment.seq)
        if part is None:
            part = _Part(segment.count, segment.packet_bytes, _chunk_bytes_of(segment))
        elif not _same_cut(part, segment):
            raise PeerError(Drop.INCONSISTENT, f"segments of packet {segment.seq} come from different cuts")
        part.chunks.setdefault(segment.index, segment.chunk)
        if len(part.chunks) < part.count:
            self._parts[segment.seq] = part
            return None
        self._parts.pop(segment.seq, None)
        return b"".join([part.chunks[index] for index in range(part.count)])

    def missing_segments(self, seq: int) -> int:
        """A bit for each missing segment; 0 if no segment of this packet has arrived."""
        part = self._parts.get(seq)
        if part is None:
            return 0
        return sum(1 << index for index in range(part.count) if index not in part.chunks)

    def forget_oldest(self) -> None:
        """Drops the segments of the packet that was begun first."""
        del self._parts[next(iter(self._parts))]

    def forget(self, seq: int) -> None:
        """Drops the segments of a packet, if there are any, because it has arrived as a whole."""
        self._parts.pop(seq, None)


def _chunk_bytes_of(segment: Segment) -> int:
    """The length of all chunks but the last, computed from one segment."""
    if segment.count == 1 or segment.index < segment.count - 1:
        return len(segment.chunk)
    return (segment.packet_bytes - len(segment.chunk)) // (segment.count - 1)


def _same_cut(part: _Part, segment: Segment) -> bool:
    # Count and size alone do not fix the cut: 100 bytes in two are 60 and 40, or 70 and 30.
    return (part.count, part.packet_bytes, part.chunk_bytes) == (
        segment.count,
        segment.packet_bytes,
        _chunk_bytes_of(segment),
    )
