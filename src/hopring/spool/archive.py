"""The archive of a spool: each finished segment as a Parquet file.

A file gets its name when it is complete and on disk, so readers of the directory see complete files only, and
an interrupted archiving starts again with the same segment. The segment itself stays; retention may wait for
the archive.
"""

import contextlib
import os
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from hopring.spool.arrow import load_arrow, read_batches, schema
from hopring.spool.errors import NotASpool, SpoolDamaged, refusal
from hopring.spool.files import NEW, Disk, archive_path, bases, log_path, make_directory
from hopring.spool.reading import Slice, read_head
from hopring.spool.verify import Progress, unwatched

ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
COMPRESSION: Final = "zstd"
SPOOL_KEY: Final = b"hopring.spool"
"""The key in a file's footer under which the id of its spool stands, in hexadecimal."""


class Archived(NamedTuple):
    """A segment that was added to the archive."""

    base: int
    end: int
    path: Path
    size_bytes: int


def waiting_bytes(directory: Path) -> int:
    """The size of the logs of finished segments that are not archived yet."""
    waiting = [base for base in bases(directory)[:-1] if not archive_path(directory, base).exists()]
    return sum([log_path(directory, base).stat().st_size for base in waiting])


def archive(
    directory: Path,
    *,
    skip_damaged: bool = False,
    disk: Disk | None = None,
    progress: Progress = unwatched,
) -> Iterator[Archived]:
    """Archives the finished segments that are missing there, the oldest first; yields each when it is on disk.

    SpoolDamaged if a segment has damaged records, unless those are skipped. NotASpool if the archive has a file
    of another spool in its place: that spool was removed without its archive.
    """
    arrow = load_arrow(str(directory))
    disk = disk or Disk()
    there = bases(directory)
    for base, end in pairwise(there):
        path = archive_path(directory, base)
        spool = _spool_of(directory, base)
        if path.exists():
            if base == there[0]:
                _check_owner(path, spool)  # One is enough: the others came later.
            continue
        make_directory(path.parent, disk)
        fresh = path.with_suffix(NEW)
        try:
            _write(arrow, fresh, Slice(str(directory), base, base, end), spool, skip_damaged, progress)
            _make_safe(fresh, path, disk)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise refusal(path, error) from error
        yield Archived(base, end, path, path.stat().st_size)


def _spool_of(directory: Path, base: int) -> bytes:
    """The id of the spool in hexadecimal; empty if the head of this segment is damaged."""
    try:
        return read_head(directory, base).spool_id.hex().encode()
    except SpoolDamaged:
        return b""


def _check_owner(path: Path, spool: bytes) -> None:
    """Raises NotASpool if a file of the archive is from another spool; files of earlier versions have no id."""
    known = (import_module("pyarrow.parquet").read_metadata(path).metadata or {}).get(SPOOL_KEY, b"")
    if known and spool and known != spool:
        remedy = "move the directory to another place: it is all that is left of that spool"
        raise NotASpool(path.parent, "it is the archive of another spool of this group", remedy)


def _write(
    arrow: Any, path: Path, portion: Slice, spool: bytes, skip_damaged: bool, progress: Progress
) -> None:
    parquet = import_module("pyarrow.parquet")
    batches = read_batches(portion, skip_damaged=skip_damaged, batch_bytes=ROW_GROUP_BYTES)
    # Progress in bytes is estimated: a batch has the same share of the bytes as of the records.
    left_bytes = log_path(Path(portion.directory), portion.base).stat().st_size
    left_records = portion.end - portion.start
    columns = schema(arrow).with_metadata({SPOOL_KEY: spool} if spool else None)
    with parquet.ParquetWriter(path, columns, compression=COMPRESSION) as file:
        for batch in batches:
            file.write_batch(batch)
            share_bytes = left_bytes * batch.num_rows // max(1, left_records)
            progress(share_bytes, batch.num_rows)
            left_bytes, left_records = left_bytes - share_bytes, left_records - batch.num_rows
    progress(left_bytes, 0)


def _make_safe(fresh: Path, path: Path, disk: Disk) -> None:
    file = disk.open(fresh)
    try:
        disk.sync(file)
    finally:
        os.close(file)
    disk.rename(fresh, path)
