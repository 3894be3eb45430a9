"""The system calls by which a spool is written, in one place: what goes wrong there is the writer's business.

Tests put a disk in its place that fails where they say; it does what the real one would have done up to there.
"""

import fcntl
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from hopring.spool.errors import SpoolOwned
from hopring.spool.layout import LOCK

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


class BackgroundSync:
    """One sync at a time, in a thread of its own that is there once it is needed."""

    def __init__(self, disk: Disk) -> None:
        """Nothing is under way."""
        self._disk = disk
        self._thread: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether one is under way, or has ended and nobody has asked."""
        return self._job is not None

    def start(self, file: int) -> None:
        """Begins one; what is written to the file from now on may be in it or not."""
        assert not self.busy, "one at a time"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool-sync")
        self._job = self._thread.submit(self._disk.sync, file)

    def has_ended(self, *, wait: bool) -> bool:
        """Whether one has ended since it was started, which is told once; OSError if it failed."""
        if self._job is None or not (wait or self._job.done()):
            return False
        job, self._job = self._job, None
        job.result()
        return True

    def close(self) -> None:
        """Waits for what is under way; its result is not asked for any more."""
        self._job = None
        if self._thread is not None:
            self._thread.shutdown()


def make_directory(directory: Path, disk: Disk) -> None:
    """Its name is on disk, too, when this returns, and those of all that it is in; OSError if not."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
        disk.sync_directory(path.parent)


def take_lock(directory: Path) -> int:
    """The open file that holds the lock; SpoolOwned if another writer has it."""
    file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(file, 64, 0).decode(errors="replace").strip()
        os.close(file)
        raise SpoolOwned(directory, owner or "it has not said which") from None
    except BaseException:
        os.close(file)
        raise
    os.ftruncate(file, 0)
    os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
    return file
