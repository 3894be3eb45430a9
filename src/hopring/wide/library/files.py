"""Files with messages: taken into the service before they are sent, found by receivers, deleted at the source.

Implements  Makpangou and Birman, 3.1 and 5.3: the link software takes the file, the receiver is told the name
            that was used, and the source is deleted when all destinations have it.
Below       service.py, by which pieces go into the log of the cluster.
Above       sets.py.
Invariants  a file is sent with the digest that it had when it was read first; a file that has changed until all
            of it was taken in is refused. A source is deleted only while it is the file that was sent.
"""

import asyncio
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from hopring.haul.entries import SOURCE_BYTES_MAX, FilePieceRequest, FileTaken
from hopring.haul.link.frames import CHUNK_BYTES_MAX, WideFile
from hopring.haul.stored.names import PART_SUFFIX, name_problem
from hopring.wide.errors import FileRefused
from hopring.wide.library.service import WideService

PIECES: Final = 16
"""Pieces that are under way to the members at a time."""

READ_BYTES: Final = 1024 * 1024
ATTEMPTS: Final = 3
"""How often a file is brought again that the members lost in between, or found to be another one."""

LOOK_SECONDS: Final = 0.02
LOOK_SECONDS_MAX: Final = 0.5

_CHANGED: Final = "it has changed while it was taken in"


class FileStamp(NamedTuple):
    """By what a file on disk is known to be the same."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int


def _stamp_of(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """The file of a message, where the service has put it."""

    path: Path
    host: str  # Of the member that handed the message over: the path is one of that host.
    size_bytes: int
    sha256: str

    def open(self) -> BinaryIO:
        """Opens it for reading; OSError if this program runs on another host, or may not read it."""
        return self.path.open("rb")

    def save(self, to: Path | str) -> Path:
        """Copies it to a path of this program, where it is seen when it is whole and on disk."""
        place = Path(to)
        part = place.with_name(place.name + PART_SUFFIX)
        with self.open() as source, part.open("wb") as copy:
            shutil.copyfileobj(source, copy, READ_BYTES)
            copy.flush()
            os.fsync(copy.fileno())
        part.rename(place)
        return place


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that was sent, as its source is known."""

    path: Path  # Of the source.
    host: str
    size_bytes: int
    sha256: str
    stamp: FileStamp
    deletes: bool  # Whether it was sent with `delete_source`.

    def delete_source(self) -> bool:
        """Deletes the source, if it is on this host and still the file that was sent; whether it was."""
        if self.host != socket.gethostname():
            return False
        try:
            if _stamp_of(os.lstat(self.path)) != self.stamp:
                return False
            os.unlink(self.path)
        except FileNotFoundError:
            return False
        return True

    def source(self) -> str:
        """What the service tells with the completion."""
        return json.dumps([str(self.path), self.host, *self.stamp, self.deletes], separators=(",", ":"))


def sent_file(source: str, size_bytes: int, digest: bytes) -> SentFile | None:
    """The file of a completion; None if its sender calls it otherwise."""
    try:
        path, host, *stamp, deletes = json.loads(source)
        known = FileStamp(*[int(one) for one in stamp])
        return SentFile(Path(path), str(host), size_bytes, digest.hex(), known, bool(deletes))
    except (ValueError, TypeError):
        return None


def checked_name(what: str, name: str | None) -> str:
    """The place that the sender wants; FileRefused if it is none."""
    problem = None if name is None else name_problem(name)
    if problem is not None:
        reason = f"{name!r} is no name for a file: {problem}"
        raise FileRefused(what, reason, "give a relative name within the directory of the set, or none")
    return name or ""


class FileTaking:
    """Brings one file to the members of the cluster, in pieces."""

    def __init__(self, service: WideService, path: Path | str, name: str | None, *, deletes: bool) -> None:
        self.what = f"the file {path}"
        self.name = checked_name(self.what, name)
        self._service = service
        self._path = Path(path).absolute()
        self._deletes = deletes
        self._file: BinaryIO

    async def take(self, left: Callable[[], float | None]) -> tuple[WideFile, SentFile]:
        """Returns when the members have all of it; `left` are the seconds that remain.

        FileRefused if there is no such file, or if it changes.
        """
        try:
            self._file = await asyncio.to_thread(self._open)
            with self._file:
                sent = await asyncio.to_thread(self._read_facts)
                if len(sent.source().encode()) > SOURCE_BYTES_MAX:
                    raise FileRefused(self.what, "its path is too long", "move it to a shorter one")
                await self._bring(sent, left)
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileRefused(self.what, reason, "name a file that this program may read") from None
        return WideFile(self.name, sent.size_bytes, bytes.fromhex(sent.sha256)), sent

    def _open(self) -> BinaryIO:
        file = os.fdopen(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise FileRefused(self.what, "it is no file", "name a regular file")
        return file

    def _read_facts(self) -> SentFile:
        stamp, digest = _stamp_of(os.fstat(self._file.fileno())), sha256()
        while piece := self._file.read(READ_BYTES):
            digest.update(piece)
        sent = SentFile(
            self._path, socket.gethostname(), stamp.size_bytes, digest.hexdigest(), stamp, self._deletes
        )
        self._check_unchanged(sent)
        return sent

    def _check_unchanged(self, sent: SentFile) -> None:
        if _stamp_of(os.fstat(self._file.fileno())) != sent.stamp:
            raise FileRefused(self.what, _CHANGED, "send it when nobody writes to it")

    async def _bring(self, sent: SentFile, left: Callable[[], float | None]) -> None:
        """Brings what the members lack, until one of them has compared all of it with the digest."""
        began, wait_seconds = 0, LOOK_SECONDS
        taken = await self._piece(sent, left, 0, b"")
        reached = taken.offset
        while not taken.whole:
            if taken.offset < sent.size_bytes:
                pieces = await asyncio.to_thread(self._pieces, taken.offset)
                answers = [self._piece(sent, left, offset, data) for offset, data in pieces]
                taken = (await asyncio.gather(*answers))[-1]
            else:
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(LOOK_SECONDS_MAX, 2 * wait_seconds)
                taken = await self._piece(sent, left, sent.size_bytes, b"")
            if taken.offset < reached:  # They have found that it is another file, and begin anew.
                self._check_unchanged(sent)
                began += 1
                if began == ATTEMPTS:
                    reason = "what the members have got of it has not its digest"
                    raise FileRefused(self.what, reason, "check the disk of this host, and of the members")
            reached = taken.offset
        self._check_unchanged(sent)

    def _pieces(self, start: int) -> list[tuple[int, bytes]]:
        self._file.seek(start)
        data = self._file.read(PIECES * CHUNK_BYTES_MAX)
        if not data:
            raise FileRefused(self.what, _CHANGED, "send it when nobody writes to it")
        return [(start + at, data[at : at + CHUNK_BYTES_MAX]) for at in range(0, len(data), CHUNK_BYTES_MAX)]

    async def _piece(
        self, sent: SentFile, left: Callable[[], float | None], offset: int, data: bytes
    ) -> FileTaken:
        digest = bytes.fromhex(sent.sha256)

        def make(client: str, number: int, known: int) -> FilePieceRequest:
            return FilePieceRequest(client, number, known, digest, sent.size_bytes, offset, data)

        answer = await self._service.answer_to(self.what, make, left())
        assert isinstance(answer, FileTaken), "the answer to a piece"
        return answer
