"""The system calls by which a spool is written, in one place: what goes wrong there is the writer's business.

Tests put a disk in its place that fails where they say; it does what the real one would have done up to there.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_BUFFERS_MAX: Final = 1024
"""That one gather write takes."""


class Disk:
    """The machine's own."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """A file to be read and written; with `create` a new and empty one."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        return os.open(path, flags, 0o640)

    def write(self, file: int, buffers: Sequence[bytes | memoryview], position: int) -> None:
        """All of these, end to end, at this place."""
        rest = [memoryview(one) for one in buffers if len(one)]
        while rest:
            size = os.pwritev(file, rest[:_BUFFERS_MAX], position)
            position += size
            while size:
                step = min(size, len(rest[0]))
                size -= step
                if step == len(rest[0]):
                    rest.pop(0)
                else:
                    rest[0] = rest[0][step:]

    def sync(self, file: int) -> None:
        """All that was written is on disk when this returns."""
        os.fdatasync(file)

    def cut(self, file: int, size_bytes: int) -> None:
        """Nothing is behind this size any more."""
        os.ftruncate(file, size_bytes)

    def rename(self, old: Path, new: Path) -> None:
        """At once or not at all; the directory is safe when this returns."""
        os.rename(old, new)
        self.sync_directory(new.parent)

    def remove(self, path: Path) -> None:
        """The file is gone."""
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """The names in it are on disk when this returns."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
