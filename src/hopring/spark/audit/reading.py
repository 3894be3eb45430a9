"""The input of an audit: rows of a trace, of daemons and of sessions, and how the histories ended.

Lines of JSON, as `hopd --trace` writes them, are converted to Parquet first.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hopring.check.trace_row import SESSION_KINDS, TraceRow
from hopring.spark.errors import ForeignInput, readable
from hopring.spark.schema import KINDS, RUN, TRACE, check_columns, check_version, ddl, with_later_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, ROW = "file", "row"

FILES_MAX: Final = 10_000
"""Files of a trace whose footers are read here; for more files Spark does that."""


def read_trace(spark: "SparkSession", where: str) -> "DataFrame":
    """Parquet files of one history, or of many in directories `run=NAME`, with their places in the files.

    Of the starts of one daemon the earlier is the one whose rows come first: in the files by their names,
    and in a file by the row.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    must_be_there(where)
    reader = spark.read.option("pathGlobFilter", "*.parquet")  # Other files are passed over.
    files = _local_files(where)
    with readable(where):
        if files is None:
            found = reader.parquet(where)
            check_columns([(name, kind) for name, kind in found.dtypes if name != RUN], where)
        else:
            # Their schemas are looked at here: Spark would start a job for that.
            for file in files:
                check_columns(columns_of(file), where)
            found = reader.schema(ddl({**TRACE, RUN: "string"})).parquet(where)
    trace = with_later_columns(found.select("*", F.col("_metadata.file_path"), F.col("_metadata.row_index")))
    trace = trace.withColumnRenamed("file_path", FILE).withColumnRenamed("row_index", ROW)
    if RUN not in trace.columns:
        trace = trace.withColumn(RUN, F.lit(""))
    return trace.withColumn(RUN, F.coalesce(F.col(RUN).cast("string"), F.lit("")))


def _local_files(where: str) -> list[Path] | None:
    """The files of a trace on this machine; None if it is elsewhere, or has very many files."""
    if ":" in where.partition("/")[0]:
        return None
    path = Path(where)
    files = [path] if path.is_file() else list(islice(path.rglob("*.parquet"), FILES_MAX + 1))
    files = [file for file in files if not file.name.startswith((".", "_"))]
    return files if 0 < len(files) <= FILES_MAX else None


def columns_of(file: Path) -> list[tuple[str, str]]:
    """The names and types of the columns of a file, as Spark writes types."""
    import pyarrow as pa  # noqa: PLC0415  An extra.
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        schema = pq.read_schema(file)
    except (OSError, pa.ArrowException):
        remedy = "give a directory that holds only traces, as hop sim --trace or hopd --trace writes them"
        raise ForeignInput(f"{file}: not a Parquet file, or an incomplete one", remedy) from None
    return [(field.name, _kind(field.type)) for field in schema if field.name != RUN]


def _kind(kind: Any) -> str:
    import pyarrow as pa  # noqa: PLC0415  An extra.

    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_kind(kind.value_type)}>"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    return {"int64": "bigint", "int32": "int", "bool": "boolean"}.get(str(kind), str(kind))


def must_be_there(where: str) -> None:
    """Whether there is anything to read; of another file system Spark itself will say so."""
    if ":" in where.partition("/")[0]:
        return
    path = Path(where)
    if not path.exists():
        raise ForeignInput(f"{where}: not there", "give a directory of traces, or one file")
    if path.is_dir() and not any(file.suffix in (".parquet", ".jsonl") for file in path.rglob("*")):
        raise ForeignInput(
            f"{where}: holds no trace, neither *.parquet nor *.jsonl", "give a directory of traces"
        )
    if path.is_file() and path.suffix not in (".parquet", ".jsonl"):
        raise ForeignInput(f"{where}: neither *.parquet nor *.jsonl", "give a directory of traces, or one file")


def of_daemons(trace: "DataFrame") -> "DataFrame":
    """The events of daemons themselves; those of sessions are judged by other properties."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    by_group = (F.col("group") == "") & F.col("groups").isNull()
    return trace.where(by_group & ~F.col("kind").isin(*SESSION_KINDS) & F.col("fields").isNull())


EXTENT: Final = f"""
SELECT run, process, regexp_extract(process, '^(.*)#', 1) AS daemon, sum(events) AS events,
       min(low) AS low, max(high) AS high,
       sum(positions) AS positions, min(oldest) AS oldest, max(newest) AS newest,
       bool_or(kind NOT IN {KINDS!r}) AS foreign_kind
FROM (SELECT run, process, kind, count(*) AS events, min(position) AS low, max(position) AS high,
             sum(position) AS positions, min(schema) AS oldest, max(schema) AS newest
      FROM audit_trace GROUP BY run, process, kind)
GROUP BY run, process
"""
"""By process: how many rows, and whether they are all there.

Grouped by kind first, so that each kind is checked once. A minimum of texts would need a sort.
"""


HALF: Final = "give all files of a history, each once; half a history gives wrong verdicts"
WRITTEN: Final = "give what hop sim --trace or hopd --trace wrote"


def unknown_kind(where: str, kind: str) -> tuple[str, str]:
    """The problem of an event of an unknown kind, and its remedy."""
    return (
        f"{where}: an event of the kind {kind}, which is not known here",
        "read it with the hopring that wrote it",
    )


def check_extent(spark: "SparkSession", where: str) -> int:
    """Refuses another version, unknown kinds and half a history; says how many rows there are."""
    flaws = spark.sql(
        """
        SELECT min(oldest) AS oldest, max(newest) AS newest, bool_or(foreign_kind) AS foreign_kind,
               sum(events) AS events,
               min(CASE WHEN low <> 0 OR high + 1 <> events OR positions <> high * (high + 1) DIV 2
                   THEN process END) AS incomplete
        FROM audit_extent
        """
    ).first()
    assert flaws is not None, "a sum over nothing is a row too"
    if flaws["events"] is None:
        raise ForeignInput(f"{where}: the trace has no events of daemons", "give a trace of daemons")
    check_version([flaws["oldest"], flaws["newest"]], where)
    if flaws["foreign_kind"]:
        foreign = spark.table("audit_trace").where(f"kind NOT IN {KINDS!r}").select("kind").first()
        kind = "?" if foreign is None else foreign["kind"]
        raise ForeignInput(*unknown_kind(where, kind))
    if flaws["incomplete"] is not None:
        raise ForeignInput(
            f"{where}: rows of {flaws['incomplete']} are missing or there twice",
            HALF,
        )
    return int(flaws["events"])


class Ends(msgspec.Struct, frozen=True):
    """The known facts of the end of a history; the meaning is that of `check_evs`."""

    quiet: bool = False
    components: tuple[frozenset[str], ...] | None = None
    counters_survive: bool = True
    many_sessions: bool = False  # 2.11 is promised to each session, not to all of a daemon taken together.


def rows_of(
    runs: Iterable[str], ends: Mapping[str, Ends], otherwise: Ends
) -> tuple[list[tuple[str, bool, bool]], list[tuple[str, int, str]]]:
    """The same as rows: flags by run, and the daemons of each component."""
    flags, components = [], []
    for run in runs:
        one = ends.get(run, otherwise)
        flags.append((run, one.quiet, one.counters_survive))
        for number, component in enumerate(one.components or ()):
            components += [(run, number, daemon) for daemon in sorted(component)]
    return flags, components


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


def _pieces(lines: Path) -> Iterator[list[TraceRow]]:
    decoder = msgspec.json.Decoder(TraceRow)
    rows: list[TraceRow] = []
    with lines.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                rows.append(decoder.decode(line))
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    break  # A daemon is in the middle of writing it, or ended there.
                raise ForeignInput(
                    f"{lines}, line {number}: not a row of a trace ({error})",
                    WRITTEN,
                ) from None
            if len(rows) == ROWS_AT_ONCE:
                yield rows
                rows = []
    if rows:
        yield rows


def of_sessions(trace: "DataFrame") -> "DataFrame":
    """All events of sessions; `group` is a keyword of SQL, so the column has another name here."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    by_group = (F.col("group") != "") | F.col("groups").isNotNull()
    return trace.where(by_group | F.col("kind").isin(*SESSION_KINDS)).withColumnRenamed("group", "group_name")


def starts_and_ends(trace: "DataFrame") -> "DataFrame":
    """The lives of the daemons."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    return of_daemons(trace).where(F.col("kind").isin("recover", "crash"))


def of_blocks(trace: "DataFrame") -> "DataFrame":
    """The events in records of blocks."""
    return trace.where("fields IS NOT NULL")


def runs_with_blocks(trace: "DataFrame") -> set[str]:
    """The histories that have records of blocks."""
    return {row["run"] for row in of_blocks(trace).select("run").distinct().collect()}


def runs_with_sessions(trace: "DataFrame") -> set[str]:
    """The histories that have clients in them."""
    return {row["run"] for row in of_sessions(trace).select("run").distinct().collect()}


def has_daemons(trace: "DataFrame") -> bool:
    """Whether the trace has events of daemons themselves."""
    return not of_daemons(trace).select("run").isEmpty()
