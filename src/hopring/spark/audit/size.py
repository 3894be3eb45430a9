"""The size of a trace, from the footers of its files, and the engine that suits it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from hopring.spark.audit.reading import FILES_MAX
from hopring.spark.schema import RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Engine = Literal["auto", "kernel", "queries"]
ENGINES: Final[tuple[Engine, ...]] = ("auto", "kernel", "queries")

KERNEL_EVENTS_MAX: Final = 2_000_000
"""Events of one history up to which `auto` has the plain checkers judge it in one worker."""

_RUN: Final = re.compile(rf"/{RUN}=([^/]*)/")


class AuditSize(msgspec.Struct, frozen=True):
    """How long a trace is."""

    events: int
    runs: int
    largest: int  # The events of the longest history.

    @property
    def engine(self) -> Literal["kernel", "queries"]:
        """The engine that `auto` takes for a trace of this size."""
        return "kernel" if self.largest <= KERNEL_EVENTS_MAX else "queries"


def size_of(trace: "DataFrame") -> AuditSize:
    """The size of a trace: from footers if its files are in reach, without a job; counted by Spark otherwise.

    Rows that the table leaves out of its files are counted as well.
    """
    by_run = _from_footers(trace.inputFiles())
    if by_run is None:
        by_run = {row[RUN]: row["count"] for row in trace.groupBy(RUN).count().collect()}
    counts = by_run.values()
    return AuditSize(sum(counts), len(by_run), max(counts, default=0))


def _from_footers(files: list[str]) -> dict[str, int] | None:
    if not 0 < len(files) <= FILES_MAX:
        return None
    by_run: dict[str, int] = {}
    for file in files:
        rows = rows_in(file)
        if rows is None:
            return None
        found = _RUN.search(file)
        run = found[1] if found else ""
        by_run[run] = by_run.get(run, 0) + rows
    return by_run


def rows_in(file: str) -> int | None:
    """The number of rows in a Parquet file, given as a URI; None if it cannot be read here."""
    import pyarrow as pa  # noqa: PLC0415  An extra.
    import pyarrow.parquet as pq  # noqa: PLC0415

    address = urlsplit(file)
    if address.scheme not in ("", "file"):
        return None
    try:
        rows: int = pq.read_metadata(Path(unquote(address.path))).num_rows
    except (OSError, pa.ArrowException):
        return None
    return rows
