"""The input of an audit: rows of a trace, of daemons and of sessions, and how the histories ended.

Lines of JSON, as `hopd --trace` writes them, are converted to Parquet first.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.check.trace_row import SESSION_KINDS, TraceRow
from hopring.spark.errors import ForeignInput, readable
from hopring.spark.schema import KINDS, RUN, TRACE, check_columns, check_version, with_later_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, ROW = "file", "row"


def read_trace(spark: "SparkSession", where: str) -> "DataFrame":
    """Parquet files of one history, or of many in directories `run=NAME`, with their places in the files.

    Of the starts of one daemon the earlier is the one whose rows come first: in the files by their names,
    and in a file by the row.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    must_be_there(where)
    with readable(where):
        # Other files, such as the same history as lines, are passed over.
        found = spark.read.option("pathGlobFilter", "*.parquet").parquet(where)
    check_columns([(name, kind) for name, kind in found.dtypes if name != RUN], where)
    trace = with_later_columns(found.select("*", F.col("_metadata.file_path"), F.col("_metadata.row_index")))
    trace = trace.withColumnRenamed("file_path", FILE).withColumnRenamed("row_index", ROW)
    if RUN not in trace.columns:
        trace = trace.withColumn(RUN, F.lit(""))
    return trace.withColumn(RUN, F.col(RUN).cast("string"))


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
    return trace.where(by_group & ~F.col("kind").isin(*SESSION_KINDS))


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
        raise ForeignInput(
            f"{where}: an event of the kind {kind}, which is not known here",
            "read it with the hopring that wrote it",
        )
    if flaws["incomplete"] is not None:
        raise ForeignInput(
            f"{where}: rows of {flaws['incomplete']} are missing or there twice",
            "give all files of a history, each once; half a history gives wrong verdicts",
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
                    "give what hop sim --trace or hopd --trace wrote",
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


def runs_with_sessions(trace: "DataFrame") -> set[str]:
    """The histories that have clients in them."""
    return {row["run"] for row in of_sessions(trace).select("run").distinct().collect()}


def has_daemons(trace: "DataFrame") -> bool:
    """Whether the trace has events of daemons themselves."""
    return not of_daemons(trace).select("run").isEmpty()
