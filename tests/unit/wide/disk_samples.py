"""Bodies and files of parcels, and disks that fail or end the process at a chosen call."""

import os
import signal
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tests.unit.spool.spool_samples import FailingDisk

from hopring.blocks.log.records import FoundRecord, LogRecord, PromiseRecord
from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.stored.bodies import BodyKey
from hopring.haul.stored.shelf import FileKey, StoreFilePiece
from hopring.wide.disk.file_contents import FilesDisk
from hopring.wide.disk.member_disk import MemberDisk

RECORDS: list[LogRecord] = [FoundRecord("log"), PromiseRecord(1)]


def key(number: int) -> BodyKey:
    return "tickets", ParcelId(ClusterId(1), number)


def bodies(*numbers: int, size: int = 100) -> tuple[tuple[BodyKey, bytes], ...]:
    return tuple([(key(one), bytes([one % 256]) * size) for one in numbers])


def file_of(content: bytes) -> FileKey:
    return FileKey(sha256(content).digest(), 1)


def opened(root: Path, disk: FilesDisk | None = None) -> MemberDisk:
    return MemberDisk(root / "state", "m", ("m",), root / "files", disk=disk)


def with_file(member: MemberDisk, content: bytes, piece_bytes: int = 1000) -> FileKey:
    """The file of this content, brought in pieces."""
    file = file_of(content)
    for at in range(0, len(content), piece_bytes):
        member.store_piece(StoreFilePiece(file, at, content[at : at + piece_bytes]))
    return file


class FailingFilesDisk(FailingDisk, FilesDisk):
    """Fails at a chosen call; those of placing a file count as well."""

    def heal(self) -> None:
        """No further call fails."""
        self.failing.clear()

    def make_at(self, directory: int, name: str) -> int:
        if self._count("make"):
            raise self._fail()
        return super().make_at(directory, name)

    def rename_at(self, directory: int, old: str, new: str) -> None:
        if self._count("put"):
            raise self._fail()
        super().rename_at(directory, old, new)


class KillingFilesDisk(FailingFilesDisk):
    """Ends the process at the chosen call; a write is half done then."""

    def _fail(self) -> OSError:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")


def calls_of(
    root: Path, story: Callable[[MemberDisk], None], prepare: Callable[[MemberDisk], None]
) -> list[str]:
    """The system calls that a story makes."""
    disk = FailingFilesDisk()
    member = opened(root, disk)
    prepare(member)
    disk.calls.clear()
    story(member)
    calls = list(disk.calls)
    member.close()
    return calls


def killed_at(
    root: Path,
    nth: int,
    calls: list[str],
    story: Callable[[MemberDisk], None],
    prepare: Callable[[MemberDisk], None],
) -> int:
    """A process that is killed at the nth call of a story; returns its exit code."""
    child = os.fork()
    if not child:
        disk = KillingFilesDisk()
        member = opened(root, disk)
        prepare(member)
        disk.failing = {calls[nth]: calls[:nth].count(calls[nth])}
        story(member)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
