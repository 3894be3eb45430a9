"""The rows that sessions wrote, and of daemons their starts and ends: those are ends of their sessions."""

from typing import TYPE_CHECKING

from hopring.check.trace_clients import KINDS
from hopring.spark.audit.read import of_daemons

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def of_sessions(trace: "DataFrame") -> "DataFrame":
    """All that sessions did and saw; `group` is a word of SQL, so the column has another name here."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    by_group = (F.col("group") != "") | F.col("groups").isNotNull()
    return trace.where(by_group | F.col("kind").isin(*KINDS)).withColumnRenamed("group", "group_name")


def starts_and_ends(trace: "DataFrame") -> "DataFrame":
    """The lives of the daemons."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    return of_daemons(trace).where(F.col("kind").isin("recover", "crash"))


def runs_with_sessions(trace: "DataFrame") -> set[str]:
    """The histories that have clients in them."""
    return {row["run"] for row in of_sessions(trace).select("run").distinct().collect()}


def has_daemons(trace: "DataFrame") -> bool:
    """Whether there is anything of daemons to judge."""
    return not of_daemons(trace).select("run").isEmpty()
