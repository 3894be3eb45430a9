"""The content of files on the disk of one member, and the places where local groups find them.

Implements  Makpangou and Birman, 3.1 and 5.3: a file is appended to as it arrives; the receiver copies it to
            the fixed place, or to a spooling area.
Below       the file system.
Above       member_disk.py, which has one thread that writes.
Invariants  a file grows at its end. What is placed has the digest of the file, is synced, and has its name
            only then. No link is followed on the way to a place, and nothing above it is touched.

    STATE/contents/DIGEST.ATTEMPT     as far as it has come
    FILES/SET/NAME                    the copy for the local group
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from hopring.haul.stored.names import CHOSEN_DIRECTORY, PART_SUFFIX
from hopring.haul.stored.shelf import FileKey
from hopring.spool.files import Disk, make_directory
from hopring.wide.disk.errors import ContentDamaged, sync

COPY_BYTES: Final = 256 * 1024
EMPTY: Final = sha256().digest()
"""Of a file without content, which is on no disk."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY: Final = frozenset([errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG])
"""Errors of a place that cannot be had as long as something else is there."""


class FilesDisk(Disk):
    """The file system of this machine, with files that are named below an open directory."""

    def make_at(self, directory: int, name: str) -> int:
        """Makes a file that is not there, for writing; what a crash has left of it goes."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o640, dir_fd=directory)

    def rename_at(self, directory: int, old: str, new: str) -> None:
        """Renames atomically within a directory, and returns when that is on disk."""
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)


class FileContents:
    """All files of one member, as far as they have come."""

    def __init__(self, directory: Path, places: Path, owner: str, disk: FilesDisk) -> None:
        """`places` has a directory for each set, with the files that are whole; other members may share it."""
        self._owner = owner
        self.directory = directory
        self.places = places
        self._disk = disk
        make_directory(directory, disk)

    @property
    def sizes(self) -> dict[FileKey, int]:
        """How much of each file is on the disk."""
        found: dict[FileKey, int] = {}
        for path in self.directory.iterdir():
            key = _key_of(path.name)
            if key is not None:
                found[key] = path.stat().st_size
        return found

    def path(self, key: FileKey) -> Path:
        """Where the content of a file is."""
        return self.directory / f"{key.digest.hex()}.{key.attempt}"

    def read(self, key: FileKey, offset: int, size_bytes: int) -> bytes:
        """Some of a file; less than was asked for if it ends before."""
        file = os.open(self.path(key), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size_bytes, offset)
        finally:
            os.close(file)

    # In the thread that writes.

    def write(self, key: FileKey, pieces: list[tuple[int, bytes]]) -> None:
        """Writes pieces and syncs them; OSError if that fails, and the same may be written again."""
        path = self.path(key)
        begins = pieces[0][0] == 0
        file = self._disk.open(path, create=begins)
        try:
            for offset, data in pieces:
                self._disk.write(file, [data], offset)
            sync(self._disk, file, path)
        finally:
            os.close(file)
        if begins:
            self._disk.sync_directory(self.directory)

    def remove(self, key: FileKey) -> None:
        """Nobody needs a file any more."""
        with suppress(FileNotFoundError):  # Nothing of it came, or it was put aside.
            self._disk.remove(self.path(key))

    # In other threads, while the file is there.

    def fits(self, key: FileKey) -> bool:
        """Whether the content has the digest of the file."""
        digest = sha256()
        for piece in self._pieces(key):
            digest.update(piece)
        return digest.digest() == key.digest

    def place(self, key: FileKey, directory: str, place: str) -> Path | None:
        """Puts a copy in its place and returns that; it is another one if something is in the way there.

        None if the content is not here any more; ContentDamaged if it is not that of the file, OSError if the
        disk does not take the copy.
        """
        if key.digest != EMPTY and not self.path(key).exists():
            return None
        try:
            return self._put(key, directory, place)
        except OSError as error:
            chosen = f"{CHOSEN_DIRECTORY}/{key.digest.hex()}"
            if error.errno not in _IN_THE_WAY or place == chosen:
                raise
            return self._put(key, directory, chosen)

    def _put(self, key: FileKey, directory: str, place: str) -> Path:
        *above, name = (directory, *place.split("/"))
        with self._walk(above) as parent:
            if not self._is_there(key, parent, name):
                self._copy(key, parent, name)
        return self.places.joinpath(directory, place)

    def _copy(self, key: FileKey, parent: int, name: str) -> None:
        digest, at = sha256(), 0
        part = f"{name}.{self._owner}{PART_SUFFIX}"
        file = self._disk.make_at(parent, part)
        try:
            for piece in self._pieces(key):
                digest.update(piece)
                self._disk.write(file, [piece], at)
                at += len(piece)
            sync(self._disk, file, self.places / part)
        finally:
            os.close(file)
        if digest.digest() != key.digest:
            os.unlink(part, dir_fd=parent)
            self.put_aside(key)
            raise ContentDamaged(self.path(key), "its content has not the digest of the file any more")
        self._disk.rename_at(parent, part, name)

    def put_aside(self, key: FileKey) -> None:
        """The content is wrong: the next process does not find it."""
        path = self.path(key)
        path.rename(path.with_name(f"{path.name}.damaged"))

    @contextmanager
    def _walk(self, names: list[str]) -> Iterator[int]:
        """The directory of these names below the places, made if it is not there; no link is followed."""
        make_directory(self.places, self._disk)
        at = os.open(self.places, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o750, dir_fd=at)
                    os.fsync(at)
                below = os.open(name, _DIRECTORY, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    def _is_there(self, key: FileKey, parent: int, name: str) -> bool:
        """Whether this very file is in its place already; IsADirectoryError for a directory."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(found.st_mode) or found.st_size != self._size_of(key):
            return False
        digest = sha256()
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent), "rb") as file:
            while piece := file.read(COPY_BYTES):
                digest.update(piece)
        return digest.digest() == key.digest

    def _size_of(self, key: FileKey) -> int:
        return 0 if key.digest == EMPTY else self.path(key).stat().st_size

    def _pieces(self, key: FileKey) -> Iterator[bytes]:
        if key.digest != EMPTY:
            with self.path(key).open("rb") as file:
                while piece := file.read(COPY_BYTES):
                    yield piece


def _key_of(name: str) -> FileKey | None:
    digest, _, attempt = name.partition(".")
    if not attempt.isdecimal():
        return None
    try:
        return FileKey(bytes.fromhex(digest), int(attempt))
    except ValueError:
        return None
