"""Publishing to a spool, once: the rows of a batch and its number are one append. No pyspark here.

After a crash Spark makes its last batch again, under the same number. The spool says whether that one is in it,
since its mark is in the same blocks as its records: both are there or neither is.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hopring import sync
from hopring.client.errors import BatchInDoubt, MessageTooLarge, SessionClosed
from hopring.spark.errors import DataLost, SparkError
from hopring.spark.sink.options import WriteOptions
from hopring.spark.sink.staging import Staged, opened, staged_runs
from hopring.spool.encode import AppendMark
from hopring.spool.errors import AppendTooLarge, SpoolOwned
from hopring.spool.layout import safe_name
from hopring.spool.record import RecordHeader, RecordKind
from hopring.spool.writer import Appended, SpoolWriter, wall_us

OWNED_SECONDS_MAX: Final = 30.0
"""A run that was killed may still be at its last append; others wait so long for their turn."""

_RETRY_SECONDS: Final = 0.1


def publish(root: Path, group: str, sender: str, staged: Sequence[Staged], mark: AppendMark | None) -> Appended:
    """Appends what was staged, unless the batch is in the spool already."""
    with _opened(root, group) as writer:
        last = None if mark is None else writer.last_batch(mark.app)
        if mark is not None and last is not None and mark.batch < last:
            # Only the last batch is ever made again. Dropping this one would lose it in silence.
            raise DataLost(
                f"{writer.directory}: batch {mark.batch} of {mark.app!r} comes behind batch {last}",
                "a query with another checkpoint needs another txnAppId",
            )
        if mark is not None and mark.batch == last:
            return Appended(writer.end, writer.end, replayed=True)
        header = RecordHeader(RecordKind.MESSAGE, wall_us(), sender, (group,))
        try:
            return writer.append(list(staged_runs(staged, header)), mark)
        except AppendTooLarge as error:
            remedy = "make batches smaller, by maxBytesPerTrigger of the reader, or write in parts"
            raise SparkError(str(error.reason), remedy) from error


def _opened(root: Path, group: str) -> SpoolWriter:
    """The writer; waits for its turn if there is another one."""
    until = time.monotonic() + OWNED_SECONDS_MAX
    while True:
        try:
            return SpoolWriter(root, group)
        except SpoolOwned:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_SECONDS)


SUFFIX: Final = ".arrow"
ROWS_AT_ONCE: Final = 1024


def keep(directory: Path, mark: AppendMark, staged: Sequence[Staged]) -> Staged:
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


STILL_SECONDS_MAX: Final = 60.0
"""So long nothing may move, for instance because the daemons have no view."""

_AGAIN: Final = "start the query again: what is delivered is not delivered twice"


def multicast(
    options: WriteOptions, directory: Path | None, staged: Sequence[Staged], mark: AppendMark
) -> None:
    """Sends what was staged; returns when all of it is delivered. Without a directory nothing is kept."""
    full = [one for one in staged if one.rows]
    if not full:
        return
    with sync.connect(options.daemons, membership=False, reconnect=False) as session:
        # Before it is kept: what is kept is sent for good, and a query that was mended makes another batch.
        longest = max(map(longest_bytes, full))
        if longest > session.message_bytes_max:
            raise _too_large(MessageTooLarge(longest, session.message_bytes_max))
        _send(session, options, full if directory is None else [keep(directory, mark, full)], mark)


def _send(session: sync.Session, options: WriteOptions, batch: Sequence[Staged], mark: AppendMark) -> None:
    try:
        session.multicast_batch(
            options.group,
            (row for one in batch for row in rows(one)),
            app=mark.app,
            batch=mark.batch,
            service=options.service,
            timeout_seconds=STILL_SECONDS_MAX,
        )
    except BatchInDoubt as error:
        what = f"batch {mark.batch} of {mark.app!r} to {options.group}"
        raise SparkError(f"{what}: {error.reason}", _AGAIN) from error
    except SessionClosed as error:
        raise SparkError(f"daemon {session.daemon}: {error.reason}", _AGAIN) from error
    except MessageTooLarge as error:  # Of a batch that was kept for a daemon with another limit.
        raise _too_large(error) from error


def _too_large(error: MessageTooLarge) -> SparkError:
    problem = f"a payload of {error.size_bytes} bytes, and the daemon takes {error.limit_bytes} at most"
    return SparkError(problem, "split them, or leave them out: .where('octet_length(payload) <= ...')")
