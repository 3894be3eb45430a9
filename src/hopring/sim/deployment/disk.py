"""A disk in virtual time, which loses what was not synced when its machine loses power.

Files and names are kept twice: as programs see them, and as they are on disk. A sync of a file puts its content
there, one of a directory its names. After a loss of power a file has its synced content, or, where more was
written since, some of that from its beginning on; a rename that was not synced may be there or not.
"""

import errno
import os
import stat
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from hopring.sim.deployment.kernel import Descriptor

if TYPE_CHECKING:
    from hopring.sim.deployment.kernel import SimProcess


@dataclass(slots=True)
class StoredFile:
    """Content, as programs see it and as it is on disk."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


class OpenFile(Descriptor):
    """A file or a directory that a process has open."""

    def __init__(self, process: "SimProcess", path: str, file: StoredFile | None) -> None:
        super().__init__(process)
        self.path: Final = path
        self.file: Final = file  # None: a directory.
        self.at = 0


class MachineDisk:
    """The files of one machine."""

    def __init__(self, dice: Random, kept: str = "/kept") -> None:
        """Files in the directory `kept` lose nothing: the world reads its history there."""
        self._dice = dice
        self._kept = f"{kept}/"
        self._names: dict[str, StoredFile] = {}
        self._synced: dict[str, StoredFile] = {}
        self._directories = {"/", kept}
        self.full = False
        self.fails = False

    def crash(self) -> None:
        """The machine of the disk loses power."""
        names = {**self._synced}
        for path, file in self._names.items():
            if path.startswith(self._kept):
                names[path] = file
                file.synced = bytes(file.content)
            elif self._synced.get(path) is not file and self._dice.random() < 0.5:
                names[path] = file
        for path in [path for path in names if path not in self._names and self._dice.random() < 0.5]:
            del names[path]
        for file in {id(file): file for file in names.values()}.values():
            whole = bytes(file.content)
            if whole != file.synced:
                kept = whole[: self._dice.randint(0, len(whole))] if whole.startswith(file.synced) else b""
                file.content = bytearray(max(file.synced, kept, key=len))
            file.synced = bytes(file.content)
        self._names, self._synced = dict(names), dict(names)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return path in self._names or path in self._directories

    def open(self, process: "SimProcess", path: str, flags: int) -> int:
        """Opens a file or a directory."""
        if path in self._directories:
            if flags & (os.O_WRONLY | os.O_RDWR):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            return OpenFile(process, path, None).number
        file = self._names.get(path)
        if file is None:
            if not flags & os.O_CREAT or os.path.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._refuse(path)
            file = self._names[path] = StoredFile()
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if flags & os.O_TRUNC:
            file.content.clear()
        opened = OpenFile(process, path, file)
        if flags & os.O_APPEND:
            opened.at = len(file.content)
        return opened.number

    def read(self, descriptor: Descriptor, length: int) -> bytes:
        """Reads from where the last read ended."""
        opened = _opened(descriptor)
        piece = self.pread(opened, length, opened.at)
        opened.at += len(piece)
        return piece

    def write(self, descriptor: Descriptor, data: bytes) -> int:
        """Writes where the last write ended."""
        opened = _opened(descriptor)
        size = self.pwrite(opened, data, opened.at)
        opened.at += size
        return size

    def pread(self, descriptor: Descriptor, length: int, offset: int) -> bytes:
        """Reads from a place of a file."""
        return bytes(_content(descriptor).content[offset : offset + length])

    def pwrite(self, descriptor: Descriptor, data: bytes, offset: int) -> int:
        """Writes to a place of a file."""
        self._refuse(_opened(descriptor).path)
        content = _content(descriptor).content
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
        return len(data)

    def seek(self, descriptor: Descriptor, position: int, whence: int) -> int:
        """Moves to a place of a file."""
        opened = _opened(descriptor)
        before = {os.SEEK_SET: 0, os.SEEK_CUR: opened.at, os.SEEK_END: len(_content(opened).content)}
        opened.at = before[whence] + position
        return opened.at

    def stat(self, descriptor: Descriptor) -> os.stat_result:
        """The kind and the size of a file; all else is 0."""
        opened = _opened(descriptor)
        kind = stat.S_IFDIR if opened.file is None else stat.S_IFREG
        size = 0 if opened.file is None else len(opened.file.content)
        return os.stat_result((kind | 0o600, 0, 0, 1, 0, 0, size, 0, 0, 0))

    def truncate(self, descriptor: Descriptor, length: int) -> None:
        """Cuts off what is behind this length."""
        del _content(descriptor).content[length:]

    def content_of(self, path: str) -> bytes:
        """What programs see of a file; nothing if there is none."""
        file = self._names.get(path)
        return b"" if file is None else bytes(file.content)

    def forget(self, path: str) -> None:
        """Somebody removes a file by hand, if there is one."""
        self._names.pop(path, None)
        self._synced.pop(path, None)

    def fsync(self, descriptor: Descriptor) -> None:
        """Puts content or names on disk."""
        opened = _opened(descriptor)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO), opened.path)
        if opened.file is not None:
            opened.file.synced = bytes(opened.file.content)
            return
        for names, others in ((self._synced, self._names), (self._names, self._synced)):
            for path in [path for path in names if os.path.dirname(path) == opened.path]:
                if names is self._synced and path not in others:
                    del names[path]
                elif names is self._names:
                    others[path] = names[path]

    def replace(self, source: str, target: str) -> None:
        """Gives a file another name."""
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self._names[target] = self._names.pop(source)

    def unlink(self, path: str) -> None:
        """Removes the name of a file."""
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        del self._names[path]

    def mkdir(self, path: str) -> None:
        """Makes a directory, at once on disk."""
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if os.path.dirname(path) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._directories.add(path)

    def listdir(self, path: str) -> list[str]:
        """The names in a directory."""
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted([os.path.basename(one) for one in self._names if os.path.dirname(one) == path])

    def _refuse(self, path: str) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _opened(descriptor: Descriptor) -> OpenFile:
    assert isinstance(descriptor, OpenFile), "a file"
    return descriptor


def _content(descriptor: Descriptor) -> StoredFile:
    file = _opened(descriptor).file
    if file is None:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), _opened(descriptor).path)
    return file
