"""The schemas of the pipeline, in one place.

The trace's columns are those of `check/trace_row`, in their order, those of records are of `spool/arrow`; tests
hold them together. A trace comes from outside, so `check_trace` looks at it before any job does.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.check.trace_files import SCHEMA_VERSION
from hopring.check.trace_row import LATER, Row
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

TRACE: Final = {field.name: _TYPES[field.type] for field in msgspec.structs.fields(Row)}
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


def records_ddl(*, payload: bool) -> str:
    """The schema of a spool; without payload there are only sizes."""
    return ", ".join(f"`{name}` {kind}" for name, kind in RECORDS.items() if payload or name != "payload")


def check_records(columns: Iterable[str]) -> None:
    """Whether a schema that was given to a reader is what spools have; raises ForeignInput if not."""
    if tuple(columns) not in (tuple(RECORDS), tuple(name for name in RECORDS if name != "payload")):
        raise ForeignInput(
            "a schema was given, and that of spools is another", "leave .schema() out, and select"
        )


def trace_schema() -> "StructType":
    """The same as Spark's value."""
    from pyspark.sql.types import StructType  # noqa: PLC0415  An extra, and slow to load.

    return StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in TRACE.items()))


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
