"""Staged rows: a task's rows in Arrow's file format, which wait until the driver publishes their batch.

A few rows travel inside the task's commit message; more go to a file that the driver can read. Nothing is
synced: after a crash of the machine Spark repeats the batch.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

import msgspec

from hopring.errors import HopError
from hopring.groups.names import is_legal_group
from hopring.ids import GroupName
from hopring.spark.errors import ForeignInput, SparkError, is_private
from hopring.spark.sink.options import GROUP_COLUMN
from hopring.spool.arrow import load_arrow, run_of_array
from hopring.spool.errors import FULL
from hopring.spool.files import safe_name
from hopring.spool.record import RecordHeader, RecordRun

STAGING: Final = "staging"
GROUPS_MAX: Final = 1000
"""The most groups that the rows of one batch may name; each is an append or a stream of messages of its own."""

TEMPORARY: Final = "hopring-staging-"
INLINE_BYTES_MAX: Final = 256 * 1024
ABANDONED_SECONDS: Final = 3600.0
"""Files of a killed run are removed after this time."""


class Staged(msgspec.Struct, frozen=True):
    """The staged rows of a task: the bytes themselves, or the file that has them."""

    rows: int = 0
    inline: bytes = b""
    file: str = ""


def staging_directory(directory: Path | None, app: str) -> Path:
    """The staging directory of one run of an application, unique to that run; it is made when it is needed.

    Without a directory it is in the temporary one, which all users share: its name cannot be guessed.
    """
    if directory is None:
        return Path(gettempdir()) / f"{TEMPORARY}{uuid.uuid4().hex}"
    return directory / STAGING / safe_name(app) / uuid.uuid4().hex


def make_private(place: Path) -> None:
    """Makes a directory that only this user can enter; SparkError if another one is there."""
    if not is_private(place):
        remedy = "run the driver and its executors as one user, or give another directory as option staging"
        raise SparkError(f"{place} belongs to another user, or others can write to it", remedy)


@contextmanager
def on_disk(place: Path) -> Iterator[None]:
    """Turns errors of the disk inside the block into one line with a remedy; our own pass unchanged."""
    try:
        yield
    except HopError:
        raise
    except OSError as error:
        remedy = "check its permissions and its disk, then start the query again"
        if error.errno in FULL:
            remedy = "free some space there, then start the query again: nothing of the batch is lost"
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SparkError(f"{error.filename or place}: {reason}", remedy) from None


def stage(batches: Iterable[Any], place: Path, group: str = "") -> Staged:
    """Stages all rows of a task, in order; the group is that of rows that name none."""
    arrow = load_arrow(str(place))
    waiting: list[Any] = []
    size_bytes = rows = 0
    rest = (plain(arrow, batch, group) for batch in batches)
    for batch in rest:
        waiting.append(batch)
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if size_bytes > INLINE_BYTES_MAX:
            return _to_file(arrow, waiting, rest, place, rows)
    if not rows:
        return Staged()
    sink = arrow.BufferOutputStream()
    _write(sink, waiting)
    return Staged(rows, sink.getvalue().to_pybytes())


def plain(arrow: Any, batch: Any, group: str = "") -> Any:
    """The batch with payloads as binary and types as unsigned 16 bits; ForeignInput if that is impossible."""
    payload = batch.column("payload")
    if payload.null_count:
        raise ForeignInput("a payload is null", "filter those rows out: .where('payload is not null')")
    columns = {"payload": payload.cast(arrow.binary())}
    if "type" in batch.schema.names:
        try:
            columns["type"] = batch.column("type").fill_null(0).cast(arrow.uint16())
        except arrow.ArrowInvalid:
            raise ForeignInput("a type is not from 0 to 65535", "types have 16 bits") from None
    if GROUP_COLUMN in batch.schema.names:
        columns[GROUP_COLUMN] = _groups(arrow, batch.column(GROUP_COLUMN), group)
    return arrow.RecordBatch.from_pydict(columns)


def _groups(arrow: Any, column: Any, group: str) -> Any:
    """The groups of the rows; ForeignInput if a row has none, or one with an illegal name."""
    if column.null_count and not group:
        raise ForeignInput("a group is null", "filter those rows out, or give the option group for them")
    found = column.fill_null(group).cast(arrow.string())
    for name in found.unique().to_pylist():
        if not is_legal_group(GroupName(name)):
            raise ForeignInput(
                f"{name!r} in the column group is not a legal name of a group",
                "name groups that sessions can join",
            )
    return found


def _to_file(arrow: Any, waiting: list[Any], rest: Iterator[Any], place: Path, rows: int) -> Staged:
    make_private(place)
    path = place / f"{uuid.uuid4().hex}.arrow"
    more = [0]

    def counted() -> Iterator[Any]:
        for batch in rest:
            more[0] += batch.num_rows
            yield batch

    with arrow.OSFile(str(path), "wb") as sink:
        _write(sink, [*waiting], counted())
    return Staged(rows + more[0], file=str(path))


def _write(sink: Any, first: list[Any], rest: Iterable[Any] = ()) -> None:
    with import_module("pyarrow.ipc").new_file(sink, first[0].schema) as file:
        for batch in first:
            file.write_batch(batch)
        for batch in rest:
            file.write_batch(batch)


def groups_of(staged: Iterable[Staged], group: str) -> list[str]:
    """The groups that the rows name, sorted; SparkError if they are too many. Without a column, this group."""
    found: set[str] = set()
    for one in staged:
        for batch in opened(one):
            by_row = GROUP_COLUMN in batch.schema.names
            found |= set(batch.column(GROUP_COLUMN).unique().to_pylist()) if by_row else {group}
            if len(found) > GROUPS_MAX:
                raise SparkError(
                    f"a batch has more than {GROUPS_MAX} groups", "make batches smaller, or use fewer"
                )
    return sorted(found)


def of_group(batch: Any, group: str) -> Any:
    """The rows of a batch that are for this group."""
    if GROUP_COLUMN not in batch.schema.names:
        return batch
    return batch.filter(import_module("pyarrow.compute").equal(batch.column(GROUP_COLUMN), group))


def staged_runs(staged: Iterable[Staged], header: RecordHeader) -> Iterator[RecordRun]:
    """The rows of all tasks for the header's group as runs, in the order of the tasks.

    They are not copied, unless rows name their groups.
    """
    for one in staged:
        if one.rows:
            yield from _runs(one, header)


def opened(staged: Staged) -> Iterator[Any]:
    """The staged record batches, mapped and not copied."""
    if not staged.rows:
        return
    arrow = load_arrow(staged.file)
    source = arrow.memory_map(staged.file) if staged.file else arrow.BufferReader(staged.inline)
    file = import_module("pyarrow.ipc").open_file(source)
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _runs(staged: Staged, header: RecordHeader) -> Iterator[RecordRun]:
    for whole in opened(staged):
        batch = of_group(whole, header.groups[0])
        if not batch.num_rows:
            continue
        types = None
        if "type" in batch.schema.names:
            column = batch.column("type")
            types = (
                memoryview(column.buffers()[1]).cast("B").cast("H")[column.offset : column.offset + len(column)]
            )
        yield run_of_array(header, batch.column("payload"), types)


def clear(place: Path, staged: Iterable[Staged] = ()) -> None:
    """Removes the staged files of a run, and those of runs that were killed long ago.

    Spark makes another writer for the end of a stream's batch, so `place` is not where its tasks have staged.
    """
    for used in {place, *[Path(one.file).parent for one in staged if one.file]}:
        shutil.rmtree(used, ignore_errors=True)
    # The temporary directory has files of other programs.
    pattern = f"{TEMPORARY}*" if place.name.startswith(TEMPORARY) else "*"
    with contextlib.suppress(OSError):
        for other in [*place.parent.glob(pattern)]:
            status = other.lstat()
            if time.time() - status.st_mtime > ABANDONED_SECONDS and status.st_uid == os.geteuid():
                shutil.rmtree(other, ignore_errors=True)
