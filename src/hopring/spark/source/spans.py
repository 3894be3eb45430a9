"""Spans: the records that one task reads, planned on the driver and read on an executor. No pyspark.

Invariant   a span returns each of its offsets once, in order, or an error names the lost ones; it skips lost
            records only if that is requested. The files of a span may change after the plan (an archive is
            made, retention removes the segment), its records do not.
"""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.spark.errors import DataLost
from hopring.spark.source.inventory import Part, archived_facts, checked, id_of, parts_of
from hopring.spool.arrow import load_arrow, read_batches, schema
from hopring.spool.errors import OffsetMissing, SpoolDamaged
from hopring.spool.files import archive_path, log_path
from hopring.spool.reading import Slice, bounds, read_head

SPAN_RECORDS: Final = 50_000
"""The most records that one task reads."""

BATCH_ROWS: Final = 65_536


class ReadSpan(msgspec.Struct, frozen=True):
    """A range of records of one segment, and whether the archive is tried first."""

    directory: str
    base: int
    start: int
    end: int
    spool: str  # The id of the spool: another one may have taken its place since the plan was made.
    archived: bool = False


def spans_of(
    wanted: dict[Path, range], *, fail: bool, partitions_min: int = 1, records_max: int = SPAN_RECORDS
) -> list[ReadSpan]:
    """The spans for these offsets; OffsetMissing if some are gone and `fail` is set."""
    parts = {directory: parts_of(directory, its.start) for directory, its in wanted.items() if its}
    there = {
        directory: checked(directory, wanted[directory], parts[directory], fail=fail) for directory in parts
    }
    total = sum([len(its) for its in there.values()])
    step = max(1, min(records_max, -(-total // partitions_min)))
    return [
        span
        for directory, its in there.items()
        for span in cut(directory, id_of(directory), parts[directory], its, step)
    ]


def cut(directory: Path, spool: str, parts: list[Part], wanted: range, step: int) -> Iterator[ReadSpan]:
    """Cuts offsets at the borders of segments and into equal spans of at most `step` records."""
    for part in parts:
        low, high = max(part.base, wanted.start), min(part.end, wanted.stop)
        pieces = -(-(high - low) // step)
        for piece in range(pieces):
            start = low + (high - low) * piece // pieces
            end = low + (high - low) * (piece + 1) // pieces
            yield ReadSpan(str(directory), part.base, start, end, spool, part.archived)


def read_span(span: ReadSpan, *, payload: bool, fail: bool) -> Iterator[Any]:
    """The records of a span as record batches with the columns of a spool."""
    arrow = load_arrow(span.directory)
    wanted = relaxed(arrow, payload=payload)
    expected = span.start
    for batch in _batches(span, payload, fail):
        if batch.num_rows:
            expected = _followed(span, batch, expected, fail)
            yield arrow.RecordBatch.from_arrays(batch.columns, schema=wanted)
    if fail and expected < span.end:
        raise SpoolDamaged(span.directory, "they are not in its files", expected, span.end)


def relaxed(arrow: Any, *, payload: bool) -> Any:
    """The schema with every column nullable, as Spark has it."""
    return arrow.schema([field.with_nullable(True) for field in schema(arrow, payload=payload)])


def _followed(span: ReadSpan, batch: Any, expected: int, fail: bool) -> int:
    """The offset after a batch. SpoolDamaged if offsets are missing, since an archive may have holes.

    Offsets that go back or repeat are damage even if lost records may be skipped.
    """
    compute = import_module("pyarrow.compute")
    offsets = batch.column(1)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    steps = compute.less(offsets.slice(0, batch.num_rows - 1), offsets.slice(1))
    rises = compute.all(steps, min_count=0).as_py()
    if first < expected or not rises:
        raise SpoolDamaged(span.directory, "its files have records twice or out of order", expected, span.end)
    if fail and (first != expected or last - first + 1 != batch.num_rows):
        raise SpoolDamaged(span.directory, "they are not in its files", expected, last + 1)
    return int(last) + 1


def _batches(span: ReadSpan, payload: bool, fail: bool) -> Iterator[Any]:
    """Reads from the archive or the log, whichever exists and is of this spool."""
    directory = Path(span.directory)
    archived = archive_path(directory, span.base)
    has_log = log_path(directory, span.base).exists()
    has_archive = archived.exists() and archived_facts(directory, span.base).spool in ("", span.spool)
    if has_archive and (span.archived or not has_log):
        return _archived(archived, span, payload)
    portion = Slice(span.directory, span.base, span.start, span.end)
    return _logged(portion, span.spool, payload, fail)


def _logged(portion: Slice, spool: str, payload: bool, fail: bool) -> Iterator[Any]:
    directory = Path(portion.directory)
    try:
        if read_head(directory, portion.base).spool_id.hex() == spool:
            yield from read_batches(portion, payload=payload, skip_damaged=not fail)
            return
    except (OffsetMissing, FileNotFoundError):
        # Retention removed the segment after the plan was made.
        if fail:
            raise OffsetMissing(portion.directory, portion.start, *bounds(directory)) from None
        return
    if fail:
        raise DataLost(f"{directory}: another spool took its place while it was read", "start the query again")


def _archived(path: Path, span: ReadSpan, payload: bool) -> Iterator[Any]:
    """The rows of a span from an archive file; row groups without such rows are not read."""
    compute = import_module("pyarrow.compute")
    arrow = load_arrow(span.directory)
    wanted = schema(arrow, payload=payload)
    with import_module("pyarrow.parquet").ParquetFile(path, memory_map=True) as file:
        groups = [
            number for number in range(file.num_row_groups) if _touches(file.metadata.row_group(number), span)
        ]
        for found in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=wanted.names, use_threads=False):
            batch = with_all_columns(arrow, found, wanted)
            offsets = batch.column(1)
            inside = compute.and_(compute.greater_equal(offsets, span.start), compute.less(offsets, span.end))
            rows = inside.true_count
            if rows == batch.num_rows:
                yield batch
            elif rows:
                low = compute.index(inside, True).as_py()
                yield batch.slice(low, rows)  # Rows are sorted by offset.


def with_all_columns(arrow: Any, batch: Any, wanted: Any) -> Any:
    """The batch with all columns; files of older versions have no headers, which are null then."""
    if batch.schema.names == wanted.names:
        return batch
    has = set(batch.schema.names)
    columns = [
        batch.column(one.name) if one.name in has else arrow.nulls(batch.num_rows, one.type) for one in wanted
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=wanted)


def _touches(group: Any, span: ReadSpan) -> bool:
    its = group.column(1).statistics
    return its is None or not its.has_min_max or (its.max >= span.start and its.min < span.end)
