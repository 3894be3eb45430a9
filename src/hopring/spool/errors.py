"""Errors of spools. Each carries the path, the reason, a remedy, and fields of its own."""

import errno
from pathlib import Path
from typing import Final

from hopring.errors import HopError

FULL: Final = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
"""Errors of system calls that mean that there is no room for more bytes."""


class SpoolError(HopError):
    """Base class of the errors of spools."""

    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}; {remedy}")
        self.path = Path(path)
        self.reason = reason
        self.remedy = remedy


class NotASpool(SpoolError):
    """The file or directory is not a spool, or is the spool of another group."""


class NoSpool(SpoolError, FileNotFoundError):
    """There is no spool in this directory."""


class OtherVersion(SpoolError):
    """The spool was written in another version of the format."""

    def __init__(self, path: Path | str, version: int, ours: int) -> None:
        newer = (
            "read it with a newer hopring" if version > ours else "archive it with the hopring that wrote it"
        )
        super().__init__(path, f"a spool of format {version}, this hopring has {ours}", newer)
        self.version = version


class SpoolDamaged(SpoolError):
    """Stored bytes have changed or are gone; the records from `start` to before `end` are lost."""

    def __init__(self, path: Path | str, reason: str, start: int, end: int | None = None) -> None:
        named = f"records from {start}" + ("" if end is None else f" to {end - 1}")
        remedy = "the others can be read: `hop spool verify` lists all damage, `--skip-damaged` skips it"
        super().__init__(path, f"{named} are damaged ({reason})", remedy)
        self.start = start
        self.end = end


class OffsetMissing(SpoolError, LookupError):
    """Retention has removed the offset, or it is not written yet."""

    def __init__(self, path: Path | str, offset: int, start: int, end: int) -> None:
        if offset < start:
            reason, remedy = "was removed by retention", f"begin at {start}, the oldest offset"
        else:
            reason, remedy = "is not written yet", f"the spool ends before {end}"
        super().__init__(path, f"offset {offset} {reason}", remedy)
        self.offset = offset
        self.start = start
        self.end = end


class SpoolOwned(SpoolError):
    """Another process is the writer of the spool."""

    def __init__(self, path: Path | str, owner: str) -> None:
        super().__init__(
            path, f"another process writes to it ({owner})", "stop that process first: a spool has one writer"
        )
        self.owner = owner


class SpoolFull(SpoolError):
    """The disk is full. Nothing of the append is kept, and the writer stays usable."""

    def __init__(self, path: Path | str, reason: str) -> None:
        remedy = "free some space or tighten the retention, then append again"
        super().__init__(path, f"not appended: {reason}", remedy)


class AppendFailed(SpoolError):
    """The disk reported an error. Nothing of the append is kept, and the writer stays usable."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(path, f"not appended: {reason}", "check the disk, then append again")


class SyncFailed(SpoolError):
    """Records appended since the last sync are not acknowledged and may be lost; the writer is closed."""

    def __init__(self, path: Path | str, reason: str, start: int) -> None:
        remedy = "check the disk, then open the spool again: its end says which records are there"
        super().__init__(path, f"records from {start} on are not acknowledged: {reason}", remedy)
        self.start = start


class WriterClosed(SpoolError):
    """The writer was closed, or a failure has ended it."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(path, reason, "open the spool again")


class AppendTooLarge(SpoolError, ValueError):
    """The append is above a limit of size or number."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(path, what, "append it in smaller parts")


def refusal(path: Path | str, error: OSError) -> SpoolError:
    """The error of an append for an error of the disk."""
    reason = f"disk error: {error.strerror or error}"
    return SpoolFull(path, reason) if error.errno in FULL else AppendFailed(path, reason)
