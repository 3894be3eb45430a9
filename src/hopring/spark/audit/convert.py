"""JSON lines as Parquet: what `hopd --trace` writes, made ready for Spark, piece by piece."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from hopring.check.trace_row import Row
from hopring.spark.errors import ForeignInput
from hopring.spark.schema import TRACE

ROWS_AT_ONCE: Final = 100_000
LINES: Final = "*.jsonl"


@contextmanager
def as_parquet(trace: Path, inside: Path | None = None) -> Iterator[Path | None]:
    """A directory with the lines of a trace as Parquet, for as long as the block lasts; None if it has none.

    The files keep their names and their directories, and with them their order. Where a history is there in
    both forms, as `hop sim --trace` writes it, only the Parquet file counts. `inside` is where the directory is
    made, for workers on other machines; without it, where temporary files are.
    """
    files = [trace] if trace.is_file() and trace.suffix == ".jsonl" else sorted(trace.rglob(LINES))
    lines = [file for file in files if not file.with_suffix(".parquet").exists()]
    if not lines:
        yield None
        return
    directory = Path(tempfile.mkdtemp(prefix="hopring-trace-", dir=inside))
    root = trace.parent if trace.is_file() else trace
    try:
        for file in lines:
            convert(file, (directory / file.relative_to(root)).with_suffix(".parquet"))
        for file in sorted(trace.rglob("*.parquet")):
            target = directory / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file.resolve())
        yield directory
    finally:
        shutil.rmtree(directory)


def convert(lines: Path, target: Path) -> None:
    """One file; its rows keep their order."""
    import pyarrow as pa  # noqa: PLC0415  An extra.
    import pyarrow.parquet as pq  # noqa: PLC0415

    types = {"bigint": pa.int64(), "string": pa.string(), "array<string>": pa.list_(pa.string())}
    schema = pa.schema([(name, types[kind]) for name, kind in TRACE.items()])
    target.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in _pieces(lines):
            columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))


def _pieces(lines: Path) -> Iterator[list[Row]]:
    decoder = msgspec.json.Decoder(Row)
    rows: list[Row] = []
    with lines.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    break  # A daemon is in the middle of writing it, or ended there.
                raise ForeignInput(
                    f"{lines}, line {number}: not a row of a trace ({error})",
                    "give what hop sim --trace or hopd --trace wrote",
                ) from None
            if len(rows) == ROWS_AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows
