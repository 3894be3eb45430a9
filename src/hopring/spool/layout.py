"""File names of a spool: one directory per group below a root, with a pair of files per segment.

    ROOT/trades.eu/lock                        locked by the writer
    ROOT/trades.eu/00000000000000000000.log    blocks; the name is the offset of the first record
    ROOT/trades.eu/00000000000000000000.idx    the positions of the blocks
    ROOT/trades.eu/consumers/NAME              the offset up to which a consumer is done
    ROOT/trades.eu/archive/*.parquet           sealed segments as tables

The directory has the name of its group, escaped and cut to a limit; the head of every segment has the full
name.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from hopring.spool.errors import NoSpool

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

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def safe_name(name: str) -> str:
    """The name with all but plain characters escaped as %XX; distinct names stay distinct."""
    encoded = name.encode()
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
        names = [path.stem for path in directory.iterdir() if path.suffix == LOG]
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(directory, "there is no spool", "list the spools with `hop spool ls`") from None
    return sorted([int(name) for name in names if len(name) == DIGITS and name.isdecimal()])


def spools(root: Path) -> Iterator[Path]:
    """The directories below a root that have segments, sorted by name."""
    try:
        found = sorted(root.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        raise NoSpool(root, "there is no such directory", "name the root of spools") from None
    return (path for path in found if path.is_dir() and bases(path))
