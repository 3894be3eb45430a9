"""Runs of messages and a disk that fails at a chosen call, for tests of spools."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.files import Disk
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, run_of

VIEW = ViewId(7, DaemonId(1), Incarnation(99))


def messages(*bodies: bytes, lts: int = 1) -> list[RecordRun]:
    """A bundle of these messages."""
    header = RecordHeader(
        RecordKind.MESSAGE, 1_000_000 + lts, "#anna#eu1", ("trades",), Service.AGREED, Place(VIEW, lts, 0)
    )
    return [run_of(header, list(bodies))]


def bodies_in(directory: Path) -> list[bytes]:
    """All bodies that a reader sees."""
    known = bounds(directory)
    records = list(read(directory, known.start, known.end))
    assert [record.offset for record in records] == list(range(known.start, known.end))
    return [record.data for record in records]


class FailingDisk(Disk):
    """Behaves like a real disk up to the call that fails; a write that fails is half done."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        # By kind of call: how many more succeed; then it fails until it is healed.
        self.failing: dict[str, int] = {}
        self.number = errno.EIO

    def _count(self, call: str) -> bool:
        self.calls.append(call)
        left = self.failing.get(call)
        if left is None:
            return False
        self.failing[call] = max(0, left - 1)
        return left == 0

    def _fail(self) -> OSError:
        return OSError(self.number, os.strerror(self.number))

    def write(self, file: int, buffers: Sequence[bytes | memoryview], position: int) -> None:
        if not self._count("write"):
            return super().write(file, buffers, position)
        whole = b"".join(buffers)
        super().write(file, [whole[: len(whole) // 2]], position)
        raise self._fail()

    def sync(self, file: int) -> None:
        if self._count("sync"):
            raise self._fail()
        super().sync(file)

    def cut(self, file: int, size_bytes: int) -> None:
        if self._count("cut"):
            raise self._fail()
        super().cut(file, size_bytes)

    def open(self, path: Path, *, create: bool = False) -> int:
        if self._count("open"):
            raise self._fail()
        return super().open(path, create=create)

    def rename(self, old: Path, new: Path) -> None:
        if self._count("rename"):
            raise self._fail()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if self._count("remove"):
            raise self._fail()
        super().remove(path)
