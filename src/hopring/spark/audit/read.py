"""The trace as the audit takes it: rows of daemons, each with its run and its place among all rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopring.spark.errors import ForeignInput, readable
from hopring.spark.schema import KINDS, RUN, check_columns, check_version, with_later_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE, ROW = "file", "row"
_SESSIONS_ONLY: Final = ("connect", "join", "leave", "disconnect", "left", "gone")


def read_trace(spark: "SparkSession", where: str) -> "DataFrame":
    """Parquet files of one history, or of many in directories `run=NAME`, with their places in the files.

    Of the starts of one daemon the earlier is the one whose rows come first: in the files by their names,
    and in a file by the row.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    must_be_there(where)
    with readable(where):
        # What else lies there, such as the same history as lines, is none of our business.
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
    """The rows that daemons wrote of themselves; what sessions did is judged by other properties."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    by_group = (F.col("group") == "") & F.col("groups").isNull()
    return trace.where(by_group & ~F.col("kind").isin(*_SESSIONS_ONLY))


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

By kind first: so the kinds are looked at once for all rows of a kind. The least of texts would need a sort.
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
