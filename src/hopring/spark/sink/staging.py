"""Stages the rows of a task, in Arrow's file format, until the driver publishes the batch. No pyspark.

A few rows travel inside the task's commit message; more go to a file that the driver can read. Nothing is
synced: after a crash of the machine Spark repeats the batch.
"""

import contextlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.spark.errors import ForeignInput
from hopring.spool.arrow import load_arrow, run_of_array
from hopring.spool.layout import safe_name
from hopring.spool.record import RecordHeader, RecordRun

STAGING: Final = "staging"
INLINE_BYTES_MAX: Final = 256 * 1024
ABANDONED_SECONDS: Final = 3600.0
"""Files of a killed run are removed after this time."""


class Staged(msgspec.Struct, frozen=True):
    """The staged rows of a task: the bytes themselves, or the file that has them."""

    rows: int = 0
    inline: bytes = b""
    file: str = ""


def staging_directory(directory: Path, app: str) -> Path:
    """The staging directory of one run of an application, unique to that run."""
    return directory / STAGING / safe_name(app) / uuid.uuid4().hex


def stage(batches: Iterable[Any], place: Path) -> Staged:
    """Stages all rows of a task, in order."""
    arrow = load_arrow(str(place))
    waiting: list[Any] = []
    size_bytes = rows = 0
    rest = iter(batches)
    for batch in rest:
        waiting.append(plain(arrow, batch))
        size_bytes += waiting[-1].nbytes
        rows += batch.num_rows
        if size_bytes > INLINE_BYTES_MAX:
            return _to_file(arrow, waiting, rest, place, rows)
    if not rows:
        return Staged()
    sink = arrow.BufferOutputStream()
    _write(sink, waiting)
    return Staged(rows, sink.getvalue().to_pybytes())


def plain(arrow: Any, batch: Any) -> Any:
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
    return arrow.RecordBatch.from_pydict(columns)


def _to_file(arrow: Any, waiting: list[Any], rest: Iterator[Any], place: Path, rows: int) -> Staged:
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{uuid.uuid4().hex}.arrow"
    more = [0]

    def counted() -> Iterator[Any]:
        for batch in rest:
            more[0] += batch.num_rows
            yield plain(arrow, batch)

    with arrow.OSFile(str(path), "wb") as sink:
        _write(sink, [*waiting], counted())
    return Staged(rows + more[0], file=str(path))


def _write(sink: Any, first: list[Any], rest: Iterable[Any] = ()) -> None:
    with import_module("pyarrow.ipc").new_file(sink, first[0].schema) as file:
        for batch in first:
            file.write_batch(batch)
        for batch in rest:
            file.write_batch(batch)


def staged_runs(staged: Iterable[Staged], header: RecordHeader) -> Iterator[RecordRun]:
    """The rows of all tasks as runs, in the order of the tasks, without a copy."""
    for one in staged:
        if one.rows:
            yield from _runs(one, header)


def opened(staged: Staged) -> Iterator[Any]:
    """The staged record batches, mapped and not copied."""
    arrow = load_arrow(staged.file)
    source = arrow.memory_map(staged.file) if staged.file else arrow.BufferReader(staged.inline)
    file = import_module("pyarrow.ipc").open_file(source)
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _runs(staged: Staged, header: RecordHeader) -> Iterator[RecordRun]:
    for batch in opened(staged):
        if not batch.num_rows:
            continue
        types = None
        if "type" in batch.schema.names:
            column = batch.column("type")
            types = (
                memoryview(column.buffers()[1]).cast("B").cast("H")[column.offset : column.offset + len(column)]
            )
        yield run_of_array(header, batch.column("payload"), types)


def clear(place: Path) -> None:
    """Removes the staged files of a run, and those of runs that were killed long ago."""
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):
        for other in [*place.parent.iterdir()]:
            if time.time() - other.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
