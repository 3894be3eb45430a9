"""The files of a spool: their names, and the system calls that write them.

There is one directory per group below a root, with a pair of files per segment:

    ROOT/trades.eu/lock                        locked by the writer
    ROOT/trades.eu/00000000000000000000.log    blocks; the name is the offset of the first record
    ROOT/trades.eu/00000000000000000000.idx    the positions of the blocks
    ROOT/trades.eu/consumers/NAME              the offset up to which a consumer is done
    ROOT/trades.eu/archive/*.parquet           finished segments as tables

The directory has the name of its group, escaped and cut to a limit; the head of every segment has the full
name.

Errors of system calls are raised as OSError; the writer handles them. Tests replace `Disk` by one that fails at
a chosen call and behaves like the real one up to there.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from hopring.spool.errors import NoSpool, SpoolOwned

LOG: Final = ".log"
INDEX: Final = ".idx"
NEW: Final = ".new"
"""Suffix of a file that is not complete; a crash may leave one behind, and it is ignored."""

PARQUET: Final = ".parquet"
LOCK: Final = "lock"
CONSUMERS: Final = "consumers"
ARCHIVE: Final = "archive"
DIGITS: Final = 20
NAME_BYTES_MAX: Final = 120
"""Limit for the name of a directory; a longer one is cut and ends in a digest of the full name."""

READERS_WAIT_SECONDS: Final = 10.0
READERS_POLL_SECONDS: Final = 0.01
"""A writer that opens a spool waits for readers that look behind the index; each takes a moment."""

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def safe_name(name: str) -> str:
    """The name with all but plain characters escaped as %XX; distinct names stay distinct."""
    encoded = name.encode()
    if not encoded:
        return "%"  # Otherwise the directory itself would be meant.
    safe = "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in encoded])
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if len(safe) <= NAME_BYTES_MAX:
        return safe
    # Escaping replaces a tilde, so only cut names contain one.
    return f"{safe[: NAME_BYTES_MAX - 33]}~{sha256(encoded).hexdigest()[:32]}"


def directory_of(root: Path, group: str) -> Path:
    """The directory of a group's spool."""
    return root / safe_name(group)


def log_path(directory: Path, base: int) -> Path:
    """The log of the segment that begins with this offset."""
    return directory / f"{base:0{DIGITS}}{LOG}"


def index_path(directory: Path, base: int) -> Path:
    """The index of the segment that begins with this offset."""
    return directory / f"{base:0{DIGITS}}{INDEX}"


def archive_path(directory: Path, base: int) -> Path:
    """The Parquet file of the segment that begins with this offset."""
    return directory / ARCHIVE / f"{base:0{DIGITS}}{PARQUET}"


def bases(directory: Path) -> list[int]:
    """The offset of the first record of each segment, in ascending order."""
    try:
        with os.scandir(directory) as found:
            # A group may be called like a segment: its directory is none.
            names = [one.name.removesuffix(LOG) for one in found if one.name.endswith(LOG) and one.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(directory, "there is no spool", "list the spools with `hop spool ls`") from None
    return sorted([int(name) for name in names if is_base(name)])


def is_base(name: str) -> bool:
    """Whether this is an offset as it stands in the name of a file."""
    return len(name) == DIGITS and name.isascii() and name.isdecimal()


def spools(root: Path) -> Iterator[Path]:
    """The directories below a root that have segments, sorted by name."""
    try:
        found = sorted(root.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(root, "there is no such directory", "name the root of spools") from None
    return (path for path in found if path.is_dir() and bases(path))


_BUFFERS_MAX: Final = 1024
"""The number of buffers that one gather write takes (IOV_MAX)."""


class Disk:
    """The file system of this machine."""

    def open(self, path: Path, *, create: bool = False) -> int:
        """Opens a file for reading and writing; `create` makes it, or empties it."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_TRUNC if create else 0)
        return os.open(path, flags, 0o640)

    def write(self, file: int, buffers: Sequence[bytes | memoryview], position: int) -> None:
        """Writes all buffers, end to end, at this position."""
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
        """Returns when all that was written is on disk."""
        os.fdatasync(file)

    def cut(self, file: int, size_bytes: int) -> None:
        """Truncates the file to this size."""
        os.ftruncate(file, size_bytes)

    def rename(self, old: Path, new: Path) -> None:
        """Renames atomically, and returns when the directory is on disk."""
        os.rename(old, new)
        self.sync_directory(new.parent)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Returns when the names in this directory are on disk."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class BackgroundSync:
    """Syncs in a thread, one at a time, so that disk and processor work in parallel.

    The thread starts with the first sync.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._thread: ThreadPoolExecutor | None = None
        self._job: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a sync is running, or has ended and its result was not fetched yet."""
        return self._job is not None

    def start(self, file: int) -> None:
        """Starts a sync; it may or may not cover bytes that are written from now on."""
        assert not self.busy, "one at a time"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool-sync")
        self._job = self._thread.submit(self._disk.sync, file)

    def has_ended(self, *, wait: bool) -> bool:
        """Whether the sync has ended; true once for each. OSError if it failed."""
        if self._job is None or not (wait or self._job.done()):
            return False
        job, self._job = self._job, None
        job.result()
        return True

    def close(self) -> None:
        """Waits for a running sync and drops its result."""
        self._job = None
        if self._thread is not None:
            self._thread.shutdown()


def make_directory(directory: Path, disk: Disk) -> None:
    """Makes a directory and its parents, and returns when their names are on disk; OSError if that fails."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in missing:
        disk.sync_directory(path.parent)


def take_lock(directory: Path) -> int:
    """The open file that holds the writer's lock; SpoolOwned if another process has it.

    The kernel releases the lock when its holder ends, whatever ended it.
    """
    file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        if not _locked(file):
            owner = os.pread(file, 64, 0).decode(errors="replace").strip()
            raise SpoolOwned(directory, owner or "unknown")
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(file)
        raise
    return file


def _locked(file: int) -> bool:
    """Takes the exclusive lock, and waits for readers that hold it shared; false if another writer has it."""
    deadline = time.monotonic() + READERS_WAIT_SECONDS
    while not _flocked(file, fcntl.LOCK_EX):
        if not _flocked(file, fcntl.LOCK_SH) or time.monotonic() > deadline:
            return False
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(READERS_POLL_SECONDS)
    return True


def _flocked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def writer_excluded(directory: Path) -> Iterator[bool]:
    """Keeps writers out for a moment; false if one has the spool, or if that cannot be found out."""
    try:
        file = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield True  # No writer has ever opened this copy of the spool.
        return
    except OSError:
        yield False
        return
    try:
        yield _flocked(file, fcntl.LOCK_SH)
    finally:
        os.close(file)
