"""Where the files of a spool are: one directory per group in a root, and in it a pair of files per segment.

    ROOT/trades.eu/lock                        held by the writer
    ROOT/trades.eu/00000000000000000000.log    blocks; the name is the offset of the first record
    ROOT/trades.eu/00000000000000000000.idx    where they are
    ROOT/trades.eu/consumers/NAME              what a consumer has done with
    ROOT/trades.eu/archive/*.parquet           sealed segments as tables

A group's name is the directory's as far as it fits; the head of every segment has it in full.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from hopring.spool.errors import NoSpool

LOG: Final = ".log"
INDEX: Final = ".idx"
NEW: Final = ".new"
"""A file that is being made; left behind by a crash it means nothing."""

PARQUET: Final = ".parquet"
LOCK: Final = "lock"
CONSUMERS: Final = "consumers"
ARCHIVE: Final = "archive"
DIGITS: Final = 20
NAME_BYTES_MAX: Final = 120
"""Of a directory; a longer one is cut and ends in a digest of the whole."""

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def safe_name(name: str) -> str:
    """A name as a file may have it: other bytes than plain ones as %XX; no two names give the same."""
    encoded = name.encode()
    safe = "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in encoded])
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    if len(safe) <= NAME_BYTES_MAX:
        return safe
    # A tilde is in no name that was not cut.
    return f"{safe[: NAME_BYTES_MAX - 33]}~{sha256(encoded).hexdigest()[:32]}"


def directory_of(root: Path, group: str) -> Path:
    """Where the spool of a group is."""
    return root / safe_name(group)


def log_path(directory: Path, base: int) -> Path:
    """The blocks of a segment."""
    return directory / f"{base:0{DIGITS}}{LOG}"


def index_path(directory: Path, base: int) -> Path:
    """The index of a segment."""
    return directory / f"{base:0{DIGITS}}{INDEX}"


def archive_path(directory: Path, base: int) -> Path:
    """The table of a segment."""
    return directory / ARCHIVE / f"{base:0{DIGITS}}{PARQUET}"


def bases(directory: Path) -> list[int]:
    """The segments, by the offset of their first record, in their order."""
    try:
        names = [path.stem for path in directory.iterdir() if path.suffix == LOG]
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(directory, "there is no spool", "look with `hop spool ls` which there are") from None
    return sorted([int(name) for name in names if len(name) == DIGITS and name.isdecimal()])


def spools(root: Path) -> Iterator[Path]:
    """The directories in a root that have segments, by name."""
    try:
        found = sorted(root.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(root, "there is no such directory", "name the root of spools") from None
    return (path for path in found if path.is_dir() and bases(path))
