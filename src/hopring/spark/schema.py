"""The schemas of all tables of the pipeline.

The columns of the trace are those of `check/trace_row`, those of records are those of `spool/arrow`; tests
compare them. A trace is foreign input, so `check_columns` and `check_version` examine it before any job does.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.check.block_kinds import BLOCK_OF
from hopring.check.trace_files import SCHEMA_VERSION
from hopring.check.trace_row import LATER, TraceRow
from hopring.spark.errors import ForeignInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RUN: Final = "run"
"""The column that names a row's history; many can be audited at once, each separately."""

_TYPES: Final = {
    int: "bigint",
    int | None: "bigint",
    str: "string",
    str | None: "string",
    list[str] | None: "array<string>",
}

TRACE: Final = {field.name: _TYPES[field.type] for field in msgspec.structs.fields(TraceRow)}
"""The columns of a trace with their SQL types."""

KINDS: Final = (
    *("recover", "crash", "view", "transitional", "send", "deliver", "counters"),
    *("connect", "join", "leave", "disconnect", "left", "gone"),
    *BLOCK_OF,
)

_VIEW: Final = "counter:bigint,representative:int,nonce:bigint"

RECORDS: Final = {
    "group": "string",
    "offset": "bigint",
    "timestamp": "timestamp",
    "kind": "string",
    "sender": "string",
    "groups": "array<string>",
    "service": "string",
    "type": "int",
    "view": f"struct<{_VIEW},step:bigint>",
    "place": f"struct<{_VIEW},lts:bigint,site:int>",
    "number": "int",
    "size": "int",
    "payload": "binary",
    "headers": "map<string,string>",
    "key": "string",
}
"""The columns of a spool's records with their SQL types."""

Columns = Mapping[str, str]

BRONZE: Final[Mapping[str, Columns]] = {
    "records": {"spool": "string", **RECORDS},
    "trace": {RUN: "string", **TRACE, "file": "string", "row": "bigint"},
}
"""Bronze tables: the input unchanged, with the spool of each record and the file and row of each trace row."""

BODIES: Final = {
    "spool": "string",
    "group": "string",
    "offset": "bigint",
    "timestamp": "timestamp",
    "kind": "string",
    "view": "string",
    "members": "array<string>",
    "cause": "string",
    "since": "timestamp",
    "until": "timestamp",
    "messages": "bigint",
}
"""The decoded bodies of views, transitions and gaps: members, causes, reasons."""

SILVER: Final[Mapping[str, Columns]] = {
    "messages": {
        "message": "string",
        "view": "string",
        "lts": "bigint",
        "site": "int",
        "number": "int",
        "sender": "string",
        "groups": "array<string>",
        "service": "string",
        "type": "int",
        "size": "int",
        "received": "timestamp",
        "received_last": "timestamp",
        "copies": "bigint",
        "spools": "array<string>",
        "payload": "binary",
        "headers": "map<string,string>",
        "key": "string",
    },
    "gaps": {
        "spool": "string",
        "group": "string",
        "kind": "string",
        "view": "string",
        "from_offset": "bigint",
        "to_offset": "bigint",
        "since": "timestamp",
        "until": "timestamp",
        "messages": "bigint",
        "others": "array<string>",
        "explained": "boolean",
        "explanation": "string",
    },
}
"""Silver tables: each message once across all spools, and the gaps of each spool."""

_WHERE: Final = {"service": "string", "from_site": "string", "to_site": "string"}
_STAY: Final = {"view": "string", "installed": "timestamp", "ended": "timestamp"}

GOLD: Final[Mapping[str, Columns]] = {
    "throughput": {
        RUN: "string",
        "second": "timestamp",
        "daemon": "string",
        "site": "string",
        "service": "string",
        "sent": "bigint",
        "delivered": "bigint",
        "bytes": "bigint",
    },
    "latency": {
        RUN: "string",
        **_WHERE,
        "group": "string",
        "messages": "bigint",
        "p50_us": "double",
        "p90_us": "double",
        "p99_us": "double",
        "max_us": "double",
        "mean_us": "double",
        "negative": "bigint",
    },
    "latency_by_minute": {
        RUN: "string",
        "minute": "timestamp",
        **_WHERE,
        "messages": "bigint",
        "p50_us": "double",
        "p90_us": "double",
        "p99_us": "double",
        "max_us": "double",
        "mean_us": "double",
        "negative": "bigint",
    },
    "latency_histogram": {
        RUN: "string",
        **_WHERE,
        "low_us": "bigint",
        "high_us": "bigint",
        "messages": "bigint",
    },
    "links": {
        RUN: "string",
        "daemon": "string",
        "peer": "string",
        "link": "string",
        "sent": "bigint",
        "received": "bigint",
        "lost": "bigint",
        "nacks": "bigint",
        "retransmissions": "bigint",
        "loss_ratio": "double",
        "round_trip_us": "double",
    },
    "membership": {
        RUN: "string",
        "daemon": "string",
        **_STAY,
        "seconds": "double",
        "members": "array<string>",
        "transitional": "array<string>",
        "cause": "string",
        "signalled": "timestamp",
    },
    "group_views": {
        RUN: "string",
        "group": "string",
        "session": "string",
        **_STAY,
        "members": "array<string>",
        "cause": "string",
    },
    "violations": {
        RUN: "string",
        "property": "string",
        "rank": "bigint",
        "witness": "string",
        "facts": "string",
    },
    "late": {
        RUN: "string",
        "source": "string",
        "name": "string",
        "group": "string",
        "minute": "timestamp",
        "rows": "bigint",
        "late_seconds": "double",
        "reason": "string",
    },
    "summary": {"name": "string", "value": "double"},
}
"""Gold tables: measurements. `docs/pipeline.md` explains the columns."""

MOVES: Final = {
    RUN: "string",
    "kind": "string",
    "message": "string",
    "service": "string",
    "ord_view": "string",
    "ord_lts": "bigint",
    "ord_site": "bigint",
    "at_us": "bigint",
    "daemon": "string",
}
"""Sends and deliveries of daemons, as a stream keeps those that still wait for the other half."""

LATENCIES: Final = {
    RUN: "string",
    "minute": "timestamp",
    **_WHERE,
    "latency_us": "bigint",
    "deliveries": "bigint",
}
"""How often each latency occurred, by the minute of the send: these counts can be added, percentiles cannot."""

LAYERS: Final = {"bronze": BRONZE, "silver": SILVER, "gold": GOLD}


def ddl(columns: Columns, comments: Mapping[str, str] | None = None) -> str:
    """The columns as a DDL string for Spark, with comments by column."""
    return ", ".join(f"`{name}` {kind}{_comment((comments or {}).get(name))}" for name, kind in columns.items())


def _comment(text: str | None) -> str:
    escaped = (text or "").replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{escaped}'" if text else ""


def shaped(table: "DataFrame", columns: Columns) -> "DataFrame":
    """The table with exactly these columns, in order and cast to their types.

    It asks nothing of the table: stages also run where none may be analyzed yet, as in declarative pipelines.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    return table.select(*[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in columns.items()])


def records_ddl(*, payload: bool, comment: str = "") -> str:
    """The schema of a spool's records, with or without payloads; the comment is that of the first column."""
    columns = {name: kind for name, kind in RECORDS.items() if payload or name != "payload"}
    return ddl(columns, {next(iter(columns)): comment})


def check_records(columns: Iterable[str]) -> None:
    """Checks a schema that was given to a reader; ForeignInput if it is not that of records."""
    if tuple(columns) not in (tuple(RECORDS), tuple(name for name in RECORDS if name != "payload")):
        raise ForeignInput("the given schema is not that of spools", "leave .schema() out, and select columns")


def check_columns(columns: Iterable[tuple[str, str]], where: str) -> None:
    """Checks names and types of columns; ForeignInput if they are not those of a trace."""
    found = dict(columns)
    for name, kind in TRACE.items():
        if name not in found and name not in LATER:
            raise ForeignInput(
                f"{where}: this is not a trace, it has no column {name}",
                "give what hop sim --trace or hopd --trace wrote",
            )
        if found.get(name, kind) != kind:
            raise ForeignInput(
                f"{where}: this is not a trace, its column {name} is {found[name]} and not {kind}",
                "give what hop sim --trace or hopd --trace wrote",
            )


def check_version(versions: Iterable[int | None], where: str) -> None:
    """Checks that all rows have the schema version of this hopring; ForeignInput if not."""
    for version in versions:
        if version != SCHEMA_VERSION:
            raise ForeignInput(
                f"{where}: a trace of schema {version}, and this hopring reads schema {SCHEMA_VERSION}",
                "read it with the hopring that wrote it, or write it again with this one",
            )


def with_later_columns(trace: "DataFrame") -> "DataFrame":
    """The trace with the columns that files of older versions lack, as nulls."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    missing = {name: F.lit(None).cast(TRACE[name]) for name in LATER if name not in trace.columns}
    return trace.withColumns(missing) if missing else trace
