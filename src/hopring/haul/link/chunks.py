"""Files on one connection: pieces that this end asks for, and pieces that it sends, beside the messages.

Implements  Makpangou and Birman, 3.1 and 5.3.
Below       a connection, which lives for minutes.
Above       `Connection`, which sends messages first and hands what arrives to the log.
Invariants  the receiver says how much of a file its log has, and the sender goes on from there: at most
            `CHUNK_WINDOW_BYTES` of a file go again on the next connection, and no more of all files together
            are under way on one.
Deviations  the paper appends the bytes of a file to its message, and everything behind it waits.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.haul.link.frames import CHUNK_BYTES_MAX, FILES_MAX, ChunkFrame, ChunkReceived, FileOffset
from hopring.ids import NEVER

CHUNK_WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of files under way on a connection."""

ASK_AGAIN_US: Final = 10_000_000
"""A file of which nothing comes is asked for again after this time."""


@dataclass(slots=True)
class FilePush:
    """A file that the other end has asked for."""

    at: int  # What was sent last ends here.
    acked: int  # The other end has logged all before this.


@dataclass(slots=True)
class FilePull:
    """A file that this end has asked for."""

    told: int  # The offset that was asked for.
    again_at_us: int


@dataclass(slots=True)
class ChunkLine:
    """The files on one connection, in both directions."""

    window_bytes: int = CHUNK_WINDOW_BYTES
    piece_bytes: int = CHUNK_BYTES_MAX
    held: deque[ChunkFrame] = field(default_factory=deque)  # Arrived, for the log.
    held_bytes: int = 0
    pushes: dict[bytes, FilePush] = field(default_factory=dict)
    pulls: dict[bytes, FilePull] = field(default_factory=dict)

    @property
    def wake_at_us(self) -> int:
        """When a file is asked for again."""
        return min([one.again_at_us for one in self.pulls.values()], default=NEVER)

    @property
    def under_way_bytes(self) -> int:
        """What was sent and is not logged at the other end."""
        return sum([one.at - one.acked for one in self.pushes.values()])

    def arrive(self, frame: ChunkFrame, now_us: int) -> None:
        """A piece of a file."""
        pull = self.pulls.get(frame.digest)
        if pull is not None:
            pull.again_at_us = now_us + ASK_AGAIN_US
        # What was asked for again may come twice.
        if self.held_bytes + len(frame.data) > 2 * self.window_bytes:
            raise PeerError(Drop.LIMIT, f"more than {2 * self.window_bytes} bytes of files")
        self.held.append(frame)
        self.held_bytes += len(frame.data)

    def for_log(self) -> list[ChunkFrame]:
        """The next piece for the log, if there is one."""
        if not self.held:
            return []
        frame = self.held.popleft()
        self.held_bytes -= len(frame.data)
        return [frame]

    def asked(self, digest: bytes, offset: int) -> None:
        """The other end has a file up to this offset, and wants the rest."""
        push = self.pushes.get(digest)
        if push is None:
            if len(self.pushes) >= FILES_MAX:
                raise PeerError(Drop.LIMIT, f"more than {FILES_MAX} files")
            self.pushes[digest] = FilePush(offset, offset)
        elif offset <= push.acked:
            push.at = push.acked = offset  # Asked for again: something was lost there, or begins anew.
        else:
            push.acked, push.at = offset, max(push.at, offset)

    def next_pieces(self, digest: bytes, end: int) -> list[tuple[int, int]]:
        """Offset and size of the pieces of a file that may go now, up to its end or what is here of it."""
        push, out = self.pushes[digest], []
        room = self.window_bytes - self.under_way_bytes
        while push.at < end and room > 0:
            size = min(self.piece_bytes, end - push.at, room)
            out.append((push.at, size))
            push.at += size
            room -= size
        return out

    def asks(self, wanted: list[tuple[bytes, int]], now_us: int) -> list[ChunkReceived]:
        """What this end tells of the files that it wants: when they have grown, and again after a while."""
        out: list[ChunkReceived] = []
        for digest in self.pulls.keys() - {digest for digest, _ in wanted}:
            del self.pulls[digest]
        for digest, offset in wanted:
            pull = self.pulls.get(digest)
            if pull is None or pull.told != offset or now_us >= pull.again_at_us:
                self.pulls[digest] = FilePull(offset, now_us + ASK_AGAIN_US)
                out.append(ChunkReceived(FileOffset(digest, offset)))
        return out
