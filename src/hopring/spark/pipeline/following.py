"""Follows the files of a trace while daemons write them. No pyspark.

Lines are read as far as they are complete; a Parquet file is read once it is complete, which is when its footer
is there. Where a history is there in both forms, the form that was read first counts. Rows keep their file and
their number in it, as in a run that is not a stream.

Limit       a file only grows. One that is shorter than before, or begins otherwise, is refused.
            From each file at most BYTES_MAX are read at once, so that memory does not grow with a backlog.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopring.check.trace_row import TraceRow
from hopring.spark.audit.reading import WRITTEN, columns_of
from hopring.spark.errors import ForeignInput
from hopring.spark.pipeline import swapping
from hopring.spark.pipeline.files import LocalFiles
from hopring.spark.pipeline.ledger import FilePlace
from hopring.spark.schema import BRONZE, RUN, TRACE, check_columns

BYTES_MAX: Final = 16 << 20
HEAD_BYTES: Final = 256
PIECES_MAX: Final = 64
"""Small files of one daemon in the bronze table after which they are merged: five minutes of a busy stream."""

PIECE_BYTES: Final = 64 << 20
"""Files of this size are not small."""

_NO_RUN: Final = "__HIVE_DEFAULT_PARTITION__"  # So Spark names the directory of an empty value.
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}
_ARROW: Final = {"bigint": pa.int64(), "string": pa.string(), "array<string>": pa.list_(pa.string())}
_DAEMON: Final = "daemon"
_KEPT: Final = tuple(name for name in BRONZE["trace"] if name not in (RUN, _DAEMON))
_SCHEMA: Final = pa.schema([(name, _ARROW[BRONZE["trace"][name]]) for name in _KEPT])
_READ: Final = pa.schema([(name, _ARROW[kind]) for name, kind in TRACE.items()])


class NewRows(msgspec.Struct):
    """Rows that were read: Arrow tables by directory of the bronze table, and what they say of clocks."""

    tables: dict[str, list[Any]]
    files: dict[str, FilePlace]  # How far all files have been read now.
    clocks: dict[str, dict[str, int]]  # By run and life: wall clock minus its own.
    lives: dict[str, set[str]]
    rows: int = 0


class TraceFollower:
    """Reads what is new in the files of a trace: a directory, or one file."""

    def __init__(self, trace: Path, bytes_max: int = BYTES_MAX) -> None:
        self.trace = trace.absolute()
        self.bytes_max = bytes_max
        self._root = self.trace.parent if self.trace.is_file() else self.trace

    def sizes(self) -> dict[str, int]:
        """The size of each file now: a stream that ends reads up to there."""
        return {self._name(path): path.stat().st_size for path in self._paths()}

    def read(self, done: Mapping[str, FilePlace], ends: Mapping[str, int] | None = None) -> NewRows | None:
        """What is new since then, up to these sizes; None if nothing is.

        Something of every file is read at once: its first row has the clock for rows of other files.
        """
        found = NewRows({}, dict(done), {}, {})
        for path in self._paths():
            name = self._name(path)
            if ends is not None and name not in ends:
                continue
            if self._is_there_otherwise(path, found.files):
                continue
            before = done.get(name, FilePlace(0, 0, ""))
            if path.suffix == ".parquet":
                self._read_parquet(path, before, found)
            else:
                self._read_lines(path, before, found, None if ends is None else ends[name])
        return found if found.rows else None

    def _paths(self) -> Iterator[Path]:
        paths = [self.trace] if self.trace.is_file() else sorted(self.trace.rglob("*"))
        for path in paths:
            if path.suffix in (".jsonl", ".parquet") and not path.name.startswith((".", "_")):
                yield path

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def _is_there_otherwise(self, path: Path, done: Mapping[str, FilePlace]) -> bool:
        """Whether the same history is read from another file, of the other form."""
        if self._name(path) in done:
            return False
        other = path.with_suffix(".jsonl" if path.suffix == ".parquet" else ".parquet")
        return self._name(other) in done or (path.suffix == ".jsonl" and other.exists())

    def _read_lines(self, path: Path, before: FilePlace, found: NewRows, end: int | None) -> None:
        size = path.stat().st_size
        if size == before.done and before.done:
            return
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            self._check_same(path, size, before, head)
            file.seek(before.done)
            most = self.bytes_max if end is None else min(self.bytes_max, end - before.done)
            data = file.read(max(0, most))
            whole = data.rfind(b"\n") + 1
            if not whole and len(data) == self.bytes_max:
                raise ForeignInput(f"{path}: a line of more than {self.bytes_max} bytes", WRITTEN)
        rows = self._decoded(path, data[:whole], before.rows)
        if not rows:
            return
        columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _READ, strict=True)]
        self._add(path, pa.table(arrays, schema=_READ), before.rows, found)
        head_text = before.head or _digest(head, min(HEAD_BYTES, whole))
        found.files[self._name(path)] = FilePlace(before.done + whole, before.rows + len(rows), head_text)

    def _check_same(self, path: Path, size: int, before: FilePlace, head: bytes) -> None:
        if not before.head:
            return
        count = int(before.head.partition(":")[0])
        if size < before.done or _digest(head, count) != before.head:
            raise ForeignInput(
                f"{path}: not the file that was read before, which only grows",
                "give new histories new names, or start with another directory for --out",
            )

    def _decoded(self, path: Path, data: bytes, before: int) -> list[TraceRow]:
        decoder = msgspec.json.Decoder(TraceRow)
        rows: list[TraceRow] = []
        for line in data[:-1].split(b"\n") if data else ():
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                number = before + len(rows) + 1
                raise ForeignInput(f"{path}, line {number}: not a row of a trace ({error})", WRITTEN) from None
        return rows

    def _read_parquet(self, path: Path, before: FilePlace, found: NewRows) -> None:
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException):
            return  # It is being written.
        with file:
            if before.done >= file.num_row_groups:
                return
            check_columns(columns_of(path), str(path))
            done, rows, read_bytes = before.done, before.rows, 0
            while done < file.num_row_groups and read_bytes < self.bytes_max:
                table = file.read_row_group(done)
                read_bytes += file.metadata.row_group(done).total_byte_size
                self._add(path, _shaped(table), rows, found)
                done, rows = done + 1, rows + table.num_rows
        found.files[self._name(path)] = FilePlace(done, rows, "")

    def _add(self, path: Path, table: Any, first: int, found: NewRows) -> None:
        """Adds rows of a file, by daemon, with their places."""
        raw_run = self._run(path)
        run = unquote(raw_run)
        self._note_clocks(table, run, found)
        file = pa.array([f"file://{path.with_suffix('.parquet')}"] * table.num_rows, pa.string())
        row = pa.array(range(first, first + table.num_rows), pa.int64())
        table = table.append_column("file", file).append_column("row", row)
        daemons = table.column(_DAEMON)
        for daemon in daemons.unique().to_pylist():
            its = table.filter(pc.equal(daemons, daemon)).select(list(_KEPT))
            directory = f"{RUN}={raw_run or _NO_RUN}/{_DAEMON}={escaped(daemon)}"
            found.tables.setdefault(directory, []).append(its)
        found.rows += table.num_rows

    def _run(self, path: Path) -> str:
        """The name of its history, as the directory has it; empty if there is none."""
        parts = path.relative_to(self._root).parts[:-1]
        return next((part.partition("=")[2] for part in parts if part.startswith(f"{RUN}=")), "")

    def _note_clocks(self, table: Any, run: str, found: NewRows) -> None:
        lives = found.lives.setdefault(run, set())
        lives |= {process.partition("/")[0] for process in table.column("process").unique().to_pylist()}
        starts = table.filter(pc.equal(table.column("kind"), "recover"))
        for row in starts.select(["process", "wall_us", "time_us"]).to_pylist():
            if row["wall_us"] is not None:
                life = row["process"].partition("/")[0]
                shift = row["wall_us"] - row["time_us"]
                its = found.clocks.setdefault(run, {})
                its[life] = min(shift, its.get(life, shift))


def write_rows(rows: NewRows, place: Path, name: str) -> list[Path]:
    """Writes the rows as one file in each directory; returns the files, relative to the place."""
    written = []
    for directory, tables in sorted(rows.tables.items()):
        (place / directory).mkdir(parents=True, exist_ok=True)
        relative = Path(directory) / f"{name}.parquet"
        pq.write_table(pa.concat_tables(tables), place / relative, compression="zstd")
        written.append(relative)
    return written


def merge_pieces(place: Path, out: Path, workshop: Path, pieces_max: int = PIECES_MAX) -> int:
    """Merges the small files of each directory of the bronze table that has many; returns how many it merged.

    A directory is replaced as a whole, so whoever lists it finds every row once. Its rows stay the same, so it
    does not matter when this is killed.
    """
    merged = 0
    for directory in sorted(place.glob(f"{RUN}=*/{_DAEMON}=*")):
        files = sorted(directory.glob("*.parquet"))
        small = [file for file in files if file.stat().st_size < PIECE_BYTES]
        if len(small) < pieces_max:
            continue
        new = workshop / "trace-merged"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for file in files:
            if file not in small:
                os.link(file, new / file.name)
        # By the name of the last one, which goes: no later piece has that name.
        with pq.ParquetWriter(new / small[-1].name, _SCHEMA, compression="zstd") as writer:
            for file in small:
                writer.write_table(pq.read_table(file, schema=_SCHEMA, partitioning=None))
        swapping.replace(LocalFiles(out), *[str(one.relative_to(out)) for one in (new, directory, workshop)])
        merged += len(small)
    return merged


def escaped(name: str) -> str:
    """A value in the name of a directory, as Spark writes it."""
    return "".join([f"%{ord(one):02X}" if one in _ESCAPED else one for one in name]) or _NO_RUN


def _shaped(table: Any) -> Any:
    """The table with all columns of a trace, in order; older files lack the last ones."""
    empty = {name: pa.nulls(table.num_rows, _READ.field(name).type) for name in TRACE}
    arrays = [
        table.column(name).cast(_READ.field(name).type) if name in table.column_names else empty[name]
        for name in TRACE
    ]
    return pa.table(arrays, schema=_READ)


def _digest(head: bytes, count: int) -> str:
    return f"{count}:{hashlib.sha256(head[:count]).hexdigest()[:16]}"
