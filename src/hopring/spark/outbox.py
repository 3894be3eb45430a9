"""The outbox of a sink to a live group: its last batch, as it was sent first. No pyspark here.

A batch goes out as many messages, so a crash may leave a part of it delivered. Made again, its rows have to be
the same in the same order, or some would be missing and others there twice; behind a shuffle Spark does not
promise that. So the driver writes a batch down before it sends the first message, and sends what is written.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hopring.spark.errors import DataLost
from hopring.spark.staging import Staged, opened
from hopring.spool.encode import Mark
from hopring.spool.layout import safe_name

SUFFIX: Final = ".arrow"
ROWS_AT_ONCE: Final = 1024


def keep(directory: Path, mark: Mark, staged: Sequence[Staged]) -> Staged:
    """The batch as it is sent: what was kept of it before, or else what is staged now, from now on kept."""
    place = directory / "outbox" / safe_name(mark.app)
    path = place / f"{mark.batch}{SUFFIX}"
    known = _batches(place)
    if known and max(known) > mark.batch:
        # Receivers would drop it, and nobody would know.
        raise DataLost(
            f"{place}: batch {mark.batch} of {mark.app!r} comes behind batch {max(known)}",
            "a query with another checkpoint needs another txnAppId",
        )
    if mark.batch not in known:
        place.mkdir(parents=True, exist_ok=True)
        _write(path, [one for one in staged if one.rows])
    for older in known - {mark.batch}:
        (place / f"{older}{SUFFIX}").unlink(missing_ok=True)
    return Staged(sum([batch.num_rows for batch in opened(Staged(1, file=str(path)))]), file=str(path))


def _batches(place: Path) -> set[int]:
    with contextlib.suppress(FileNotFoundError):
        return {int(one.stem) for one in place.iterdir() if one.suffix == SUFFIX and one.stem.isdecimal()}
    return set()


def _write(path: Path, staged: Sequence[Staged]) -> None:
    """All of it under its name, or nothing."""
    half = path.with_suffix(".half")
    schema = next(iter(opened(staged[0]))).schema
    with half.open("wb") as file:
        with import_module("pyarrow.ipc").new_file(file, schema) as out:
            for one in staged:
                for batch in opened(one):
                    out.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    _sync_directory(path.parent)


def _sync_directory(place: Path) -> None:
    number = os.open(place, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def rows(staged: Staged) -> Iterator[tuple[bytes, int]]:
    """Payloads and types, a few of them in memory at a time."""
    for batch in opened(staged):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield from _rows(batch.slice(start, ROWS_AT_ONCE))


def _rows(batch: Any) -> Iterator[tuple[bytes, int]]:
    types = batch.column("type").to_pylist() if "type" in batch.schema.names else [0] * batch.num_rows
    return zip(batch.column("payload").to_pylist(), types, strict=True)


def longest_bytes(staged: Staged) -> int:
    """The size of the longest payload."""
    compute = import_module("pyarrow.compute")
    sizes = [compute.max(compute.binary_length(batch.column("payload"))).as_py() for batch in opened(staged)]
    return max([size or 0 for size in sizes], default=0)
