"""The schemas of the pipeline, in one place.

The trace's columns are those of `check/trace_row`, in their order, those of records are of `spool/arrow`; tests
hold them together. A trace comes from outside, so `check_trace` looks at it before any job does.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.check.trace_files import SCHEMA_VERSION
from hopring.check.trace_row import LATER, TraceRow
from hopring.spark.errors import ForeignInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RUN: Final = "run"
"""Which history a row is of, where many are audited at once; each is judged by itself."""

_TYPES: Final = {
    int: "bigint",
    int | None: "bigint",
    str: "string",
    str | None: "string",
    list[str] | None: "array<string>",
}

TRACE: Final = {field.name: _TYPES[field.type] for field in msgspec.structs.fields(TraceRow)}
"""The columns of a trace and their types, as SQL writes them."""

KINDS: Final = (
    *("recover", "crash", "view", "transitional", "send", "deliver", "counters"),
    *("connect", "join", "leave", "disconnect", "left", "gone"),
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
}
"""The columns of a spool's records and their types, as SQL writes them."""

Columns = Mapping[str, str]

BRONZE: Final[Mapping[str, Columns]] = {
    "records": {"spool": "string", **RECORDS},
    "trace": {RUN: "string", **TRACE, "file": "string", "row": "bigint"},
}
"""What came in, as it came: of which spool a record is, where in which file a row of the trace stood."""

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
"""What the records say that are no messages: views and their members, gaps and their reasons."""

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
"""One table of messages for all spools, and what is missing where."""

_WHERE: Final = {"service": "string", "from_site": "string", "to_site": "string"}
_STAY: Final = {"view": "string", "installed": "timestamp", "ended": "timestamp"}

GOLD: Final[Mapping[str, Columns]] = {
    "throughput": {
        "second": "timestamp",
        "daemon": "string",
        "site": "string",
        "service": "string",
        "sent": "bigint",
        "delivered": "bigint",
        "bytes": "bigint",
    },
    "latency": {
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
    "latency_histogram": {**_WHERE, "low_us": "bigint", "high_us": "bigint", "messages": "bigint"},
    "links": {
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
        "daemon": "string",
        **_STAY,
        "seconds": "double",
        "members": "array<string>",
        "transitional": "array<string>",
        "cause": "string",
        "signalled": "timestamp",
    },
    "group_views": {
        "group": "string",
        "session": "string",
        **_STAY,
        "members": "array<string>",
        "cause": "string",
    },
    "summary": {"name": "string", "value": "double"},
}
"""What was measured; `docs/pipeline.md` says what the columns mean."""

LAYERS: Final = {"bronze": BRONZE, "silver": SILVER, "gold": GOLD}


def ddl(columns: Columns) -> str:
    """Columns as Spark is given a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def shaped(table: "DataFrame", columns: Columns) -> "DataFrame":
    """A table with these columns in their order and of their types; a stage that lacks one is wrong."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    missing = [name for name in columns if name not in table.columns]
    assert not missing, f"no column {', '.join(missing)}"
    return table.select(*[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in columns.items()])


def records_ddl(*, payload: bool) -> str:
    """The schema of a spool; without payload there are only sizes."""
    return ddl({name: kind for name, kind in RECORDS.items() if payload or name != "payload"})


def check_records(columns: Iterable[str]) -> None:
    """Whether a schema that was given to a reader is what spools have; raises ForeignInput if not."""
    if tuple(columns) not in (tuple(RECORDS), tuple(name for name in RECORDS if name != "payload")):
        raise ForeignInput(
            "a schema was given, and that of spools is another", "leave .schema() out, and select"
        )


def trace_schema() -> "StructType":
    """The same as Spark's value."""
    from pyspark.sql.types import StructType  # noqa: PLC0415  An extra, and slow to load.

    return StructType.fromDDL(ddl(TRACE))


def check_columns(columns: Iterable[tuple[str, str]], where: str) -> None:
    """Whether these are the columns of a trace, by name and type; raises ForeignInput if not."""
    found = dict(columns)
    for name, kind in TRACE.items():
        if name not in found and name not in LATER:
            raise ForeignInput(
                f"{where}: this is no trace, it has no column {name}",
                "give what hop sim --trace or hopd --trace wrote",
            )
        if found.get(name, kind) != kind:
            raise ForeignInput(
                f"{where}: this is no trace, its column {name} is {found[name]} and not {kind}",
                "give what hop sim --trace or hopd --trace wrote",
            )


def check_version(versions: Iterable[int | None], where: str) -> None:
    """Whether all rows are of the version that is known here."""
    for version in versions:
        if version != SCHEMA_VERSION:
            raise ForeignInput(
                f"{where}: a trace of schema {version}, and this hopring reads schema {SCHEMA_VERSION}",
                "read it with the hopring that wrote it, or write it again with this one",
            )


def with_later_columns(trace: "DataFrame") -> "DataFrame":
    """A trace of an older file with the columns it does not have yet."""
    from pyspark.sql import functions as F  # noqa: PLC0415  An extra, and slow to load.

    missing = {name: F.lit(None).cast(TRACE[name]) for name in LATER if name not in trace.columns}
    return trace.withColumns(missing) if missing else trace
