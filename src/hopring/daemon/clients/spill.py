"""Spills: the backlogs of slow clients, in segment files of the state directory.

A client's frames are appended to segments and read back in their order; a segment is deleted when it has been
read, all of them when the session ends. Nothing is synced, because no spill outlives the process: files of an
earlier run are deleted at the start. Writes go to the page cache in pieces of a quarter of a megabyte.

A segment is opened for each piece that is written or read, so the spills of all clients together hold one
descriptor at most, and none between two pieces.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hopring.session.backlog import SpillFailed
from hopring.session.frames import split_frames
from hopring.system.kernel import kernel

PIECE_BYTES: Final = 256 * 1024
SEGMENT_BYTES: Final = 16 * 1024 * 1024
SPILLS_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
"""Bytes on disk for all clients of a daemon together."""

SUFFIX: Final = ".spill"


class SpillPlace:
    """The directory of one daemon's spills."""

    def __init__(self, directory: Path, bytes_max: int = SPILLS_BYTES_MAX) -> None:
        """Makes or empties the directory; OSError if that fails."""
        self.directory = directory
        self.bytes_max = bytes_max
        self.size_bytes = 0  # Of all files.
        files = kernel().files
        with contextlib.suppress(FileExistsError):
            files.mkdir(directory, 0o700)
        for left in files.listdir(directory):
            if left.endswith(SUFFIX):
                files.unlink(directory / left)

    def open(self, session: int) -> "SpillFile":
        """A spill for one client; its file is opened with the first write."""
        return SpillFile(self, session)


class SpillFile:
    """One client's frames on disk."""

    def __init__(self, place: SpillPlace, session: int) -> None:
        self.size_bytes = 0
        """Bytes of all frames that were put and not taken."""
        self._place = place
        self._session = session
        self._count = 0
        self._segments: deque[_Segment] = deque()
        self._unwritten: list[bytes] = []  # Not written yet.
        self._unwritten_bytes = 0
        self._torn = b""  # The beginning of a frame that was read.

    def put(self, frame: bytes) -> None:
        """Adds a frame; SpillFailed if it cannot be written."""
        self._unwritten.append(frame)
        self._unwritten_bytes += len(frame)
        self.size_bytes += len(frame)
        if self._unwritten_bytes >= PIECE_BYTES:
            self._write()

    def take(self) -> list[bytes]:
        """Removes and returns some of the oldest frames; SpillFailed if they are lost."""
        frames: list[bytes] = []
        while not frames and self._segments:
            piece = self._read()
            frames, self._torn = split_frames(self._torn + piece)
        if not frames:
            assert not self._torn, "frames were put as a whole"
            frames, self._unwritten, self._unwritten_bytes = self._unwritten, [], 0
        self.size_bytes -= sum(map(len, frames))
        return frames

    def close(self) -> None:
        """Deletes the files of this client."""
        while self._segments:
            self._place.size_bytes -= self._segments.popleft().delete()
        self._unwritten.clear()
        self.size_bytes = self._unwritten_bytes = 0

    def _write(self) -> None:
        piece = b"".join(self._unwritten)
        if self._place.size_bytes + len(piece) > self._place.bytes_max:
            raise SpillFailed(f"more than {self._place.bytes_max} bytes of all clients wait on disk")
        try:
            if not self._segments or self._segments[-1].written_bytes >= SEGMENT_BYTES:
                self._count += 1
                path = self._place.directory / f"{self._session}.{self._count}{SUFFIX}"
                self._segments.append(_Segment(path))
            self._segments[-1].write(piece)
        except OSError as error:
            raise SpillFailed(f"what waits cannot be written to disk ({error.strerror})") from error
        self._place.size_bytes += len(piece)
        self._unwritten.clear()
        self._unwritten_bytes = 0

    def _read(self) -> bytes:
        first = self._segments[0]
        try:
            piece = first.read()
        except OSError as error:
            raise SpillFailed(f"what waits cannot be read from disk ({error.strerror})") from error
        if not piece:
            raise SpillFailed("what waits on disk was cut short")
        if first.read_bytes == first.written_bytes:
            # Also if it is the last segment: the next write begins another.
            self._segments.popleft()
            self._place.size_bytes -= first.delete()
        return piece


class _Segment:
    """One file, written at its end and read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.written_bytes = 0
        self.read_bytes = 0
        self._path = path
        self._files = kernel().files
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._files.close(self._files.open(path, flags, 0o600))

    def write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with self._opened(os.O_WRONLY) as file:
            while rest:
                size = self._files.pwrite(file, rest, self.written_bytes)
                self.written_bytes += size
                rest = rest[size:]

    def read(self) -> bytes:
        with self._opened(os.O_RDONLY) as file:
            piece = self._files.pread(file, PIECE_BYTES, self.read_bytes)
        self.read_bytes += len(piece)
        return piece

    def delete(self) -> int:
        """Deletes the file; returns the bytes that were written to it."""
        with contextlib.suppress(OSError):
            self._files.unlink(self._path)
        return self.written_bytes

    @contextlib.contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        file = self._files.open(self._path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield file
        finally:
            self._files.close(file)
