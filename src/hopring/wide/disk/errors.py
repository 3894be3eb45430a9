"""Errors of what a member has beside its log; each has the path, the reason and a remedy."""

from pathlib import Path

from hopring.spool.errors import SpoolError, WriterClosed
from hopring.spool.files import Disk


class StoreUnsure(WriterClosed):
    """A sync has failed: it is not known what the disk has. Nothing more is written by this process."""

    def __init__(self, path: Path | str, reason: str) -> None:
        SpoolError.__init__(self, path, f"a sync has failed: {reason}", "check the disk")


def sync(disk: Disk, file: int, path: Path) -> None:
    """Returns when a file is on the disk; StoreUnsure if that fails."""
    try:
        disk.sync(file)
    except OSError as error:
        raise StoreUnsure(path, error.strerror or str(error)) from error


class ContentDamaged(SpoolError):
    """What was stored has changed; it is out of the way, so that another member gives it."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(
            path, reason, "check the disk; the member gets it from the others when it starts again"
        )
