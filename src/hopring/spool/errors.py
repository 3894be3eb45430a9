"""What can go wrong with a spool: each error says what happened and what to do, and carries fields."""

import errno
from pathlib import Path
from typing import Final

from hopring.errors import HopError

_FULL: Final = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])


class SpoolError(HopError):
    """Root of what spools raise."""

    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}; {remedy}")
        self.path = Path(path)
        self.reason = reason
        self.remedy = remedy


class NotASpool(SpoolError):
    """The file or directory is something else."""


class NoSpool(SpoolError, FileNotFoundError):
    """There is no spool at this place."""


class OtherVersion(SpoolError):
    """Written by a hopring with another format."""

    def __init__(self, path: Path | str, version: int, ours: int) -> None:
        newer = (
            "read it with a newer hopring" if version > ours else "archive it with the hopring that wrote it"
        )
        super().__init__(path, f"a spool of format {version}, this hopring has {ours}", newer)
        self.version = version


class SpoolDamaged(SpoolError):
    """Bytes that were written are not what they were; the records from `start` to before `end` are lost."""

    def __init__(self, path: Path | str, reason: str, start: int, end: int | None = None) -> None:
        named = f"records from {start}" + ("" if end is None else f" to {end - 1}")
        remedy = "the others can be read: `hop spool verify` names all damage, `--skip-damaged` passes over it"
        super().__init__(path, f"{named} are damaged ({reason})", remedy)
        self.start = start
        self.end = end


class OffsetMissing(SpoolError, LookupError):
    """An offset that retention has removed, or that is not written yet."""

    def __init__(self, path: Path | str, offset: int, start: int, end: int) -> None:
        if offset < start:
            reason, remedy = "was removed by retention", f"begin at {start}, the oldest there is"
        else:
            reason, remedy = "is not there yet", f"the spool ends before {end}"
        super().__init__(path, f"offset {offset} {reason}", remedy)
        self.offset = offset
        self.start = start
        self.end = end


class SpoolOwned(SpoolError):
    """Another process writes to the spool."""

    def __init__(self, path: Path | str, owner: str) -> None:
        super().__init__(
            path, f"another process writes to it ({owner})", "stop that one first: a spool has one writer"
        )
        self.owner = owner


class SpoolFull(SpoolError):
    """The disk takes no more. Nothing of the append is kept, and the writer can be used on."""

    def __init__(self, path: Path | str, reason: str) -> None:
        remedy = "make room or tighten the retention, then append again"
        super().__init__(path, f"not appended: {reason}", remedy)


class AppendFailed(SpoolError):
    """The disk refused. Nothing of the append is kept, and the writer can be used on."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(path, f"not appended: {reason}", "look at the disk, then append again")


class SyncFailed(SpoolError):
    """What was appended since the last sync is not acknowledged and may be lost; the writer is at its end."""

    def __init__(self, path: Path | str, reason: str, start: int) -> None:
        remedy = "look at the disk, then open the spool again and see from its end what is there"
        super().__init__(path, f"records from {start} on are not acknowledged: {reason}", remedy)
        self.start = start


class WriterClosed(SpoolError):
    """The writer was closed, or has failed."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(path, reason, "open the spool again")


class AppendTooLarge(SpoolError, ValueError):
    """An append above the limits."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(path, what, "append it in smaller parts")


def refusal(path: Path | str, error: OSError) -> SpoolError:
    """What a disk that refuses means for an append."""
    reason = f"the disk said: {error.strerror or error}"
    return SpoolFull(path, reason) if error.errno in _FULL else AppendFailed(path, reason)
