"""Reads the gold tables, the gaps and the audit of a run as values, with times in microseconds.

Below       Parquet files as Spark writes them; any may be missing: a run without clients has no group views.
Invariant   rows are sorted, so equal tables give equal pages, whatever the order in which Spark wrote the rows.
Limit       at most ROWS_MAX rows of each table become values; throughput and gaps stay Arrow tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopring.spark.errors import ForeignInput
from hopring.spark.schema import RUN

ALL_GROUPS: Final = ""


class StayRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/membership: the stay of a daemon in a view."""

    daemon: str
    begin_us: int
    view: str
    end_us: int | None  # None if its end is not in the trace.
    members: tuple[str, ...]
    transitional: tuple[str, ...] = ()
    cause: str = ""
    signalled_us: int | None = None


class LatencyRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/latency: percentiles for a service, a pair of sites, and a group or all."""

    service: str
    from_site: str
    to_site: str
    group: str
    messages: int
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    max_us: float | None
    mean_us: float | None
    negative: int  # Messages that arrived before they were sent, because clocks differ.
    run: str = ""  # The history, if the trace has several.


class BucketRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/latency_histogram: the messages in a range of latencies."""

    service: str
    from_site: str
    to_site: str
    low_us: int
    high_us: int
    messages: int


class LinkRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/links: a daemon's counters of its link to a peer."""

    daemon: str
    peer: str
    link: str
    sent: int
    received: int
    lost: int
    nacks: int
    retransmissions: int
    loss_ratio: float | None
    round_trip_us: float | None


class GroupStayRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/group_views: the stay of a session in a view of a group."""

    group: str
    begin_us: int
    view: str
    session: str
    end_us: int | None
    members: tuple[str, ...]
    cause: str


class FindingRow(msgspec.Struct, frozen=True):
    """A broken property of one history, from audit.json."""

    run: str
    property: str
    violations: int
    witness: str


class AuditVerdicts(msgspec.Struct, frozen=True):
    """The content of the file audit.json."""

    holds: bool
    runs: tuple[str, ...]
    broken: tuple[FindingRow, ...]
    judged: Mapping[str, tuple[str, ...]]


class LateRow(msgspec.Struct, frozen=True, order=True):
    """A row of gold/late: rows of a stream that came after the watermark had passed their minute."""

    minute_us: int
    source: str
    name: str
    group: str
    run: str
    rows: int
    late_seconds: float
    reason: str


class StreamState(msgspec.Struct, frozen=True):
    """The content of the file stream.json: how far a stream has come."""

    running: bool
    watermark_us: int | None = None  # Of records.
    closed: int = 0  # Views that are closed, and so audited.
    views: int = 0


@dataclass(slots=True)
class GoldTables:
    """All tables of a run. None means that a table does not exist, which differs from an empty one."""

    throughput: Any = None  # A pyarrow.Table with `second_us`; it may be long, so Arrow computes the sums.
    latency: list[LatencyRow] | None = None
    histogram: list[BucketRow] | None = None
    links: list[LinkRow] | None = None
    membership: list[StayRow] | None = None
    group_views: list[GroupStayRow] | None = None
    summary: dict[str, float] = field(default_factory=dict)
    gaps: Any = None  # A pyarrow.Table with any columns.
    audit: AuditVerdicts | None = None
    late: list[LateRow] | None = None
    stream: StreamState | None = None  # None if the tables are not those of a stream.
    left_out: dict[str, int] = field(default_factory=dict)  # By table, the rows above ROWS_MAX.


AUDIT_FILE: Final = "audit.json"
STREAM_FILE: Final = "stream.json"
ROWS_MAX: Final = 50_000
REMEDY: Final = "make the tables again: hop pipeline run"

COLUMNS: Final = {
    "throughput": ("second", "daemon", "site", "service", "sent", "delivered", "bytes"),
    "latency": LatencyRow.__struct_fields__,
    "latency_histogram": BucketRow.__struct_fields__,
    "links": LinkRow.__struct_fields__,
    "membership": (*("daemon", "installed", "view", "ended", "members", "transitional", "cause", "signalled"),),
    "group_views": ("group", "installed", "view", "session", "ended", "members", "cause"),
    "late": ("minute", "source", "name", "group", "run", "rows", "late_seconds", "reason"),
    "summary": ("name", "value"),
}
"""The columns of each table, in the order of the fields, which is also the sort order of the rows."""

WHEN: Final = {"throughput": "second_us", "membership": "installed_us", "group_views": "installed_us"}

Row = TypeVar("Row")


def read_gold(out: Path) -> GoldTables:
    """Reads all tables that exist; ForeignInput if one has other columns or values."""
    gold = GoldTables()
    gold.throughput = _table(out, "throughput")
    gold.latency = _rows(out, "latency", LatencyRow, gold)
    gold.histogram = _rows(out, "latency_histogram", BucketRow, gold)
    gold.links = _rows(out, "links", LinkRow, gold)
    gold.membership = _rows(out, "membership", StayRow, gold)
    gold.group_views = _rows(out, "group_views", GroupStayRow, gold)
    summary = _table(out, "summary")
    if summary is not None:
        pairs = zip(summary["name"].to_pylist(), summary["value"].to_pylist(), strict=True)
        gold.summary = {name: value for name, value in pairs if value is not None}
    gold.gaps = _read(out / "silver" / "gaps")
    gold.audit = _audit(out / AUDIT_FILE)
    gold.late = _rows(out, "late", LateRow, gold)
    gold.stream = _stream(out / STREAM_FILE)
    return gold


def _table(out: Path, name: str) -> Any:
    """A gold table with its columns, sorted, with times as numbers; None if it does not exist."""
    place = out / "gold" / name
    table = _read(place)
    if table is None:
        return None
    columns = COLUMNS[name]
    if RUN in columns and RUN not in table.column_names:  # Of an earlier version.
        table = table.append_column(RUN, pa.nulls(table.num_rows, pa.string()))
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ForeignInput(f"{place} has no column {', '.join(missing)}", REMEDY)
    table = table.select(list(columns))
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(at, f"{column.name}_us", _micros(table[column.name]))
    if name in WHEN:
        table = table.filter(pc.is_valid(table[WHEN[name]]))  # Rows without a time cannot be drawn.
    keys = [(field.name, "ascending") for field in table.schema if not pa.types.is_nested(field.type)]
    return table.sort_by(keys)


def _read(place: Path) -> Any:
    if not place.is_dir() or not any(place.rglob("*.parquet")):
        return None
    try:
        return pq.read_table(place)
    except (pa.ArrowException, OSError) as error:
        raise ForeignInput(f"{place} is no table ({str(error).splitlines()[0]})", REMEDY) from None


def _micros(column: Any) -> Any:
    """Timestamps as integers in UTC; older files of Spark have nanoseconds."""
    return pc.cast(column, pa.timestamp("us"), safe=False).cast(pa.int64())


def _rows(out: Path, name: str, kind: type[Row], gold: GoldTables) -> list[Row] | None:
    table = _table(out, name)
    if table is None:
        return None
    if table.num_rows > ROWS_MAX:
        gold.left_out[name] = table.num_rows - ROWS_MAX
        table = table.slice(0, ROWS_MAX)
    fields = msgspec.structs.fields(kind)  # type: ignore[arg-type]
    columns = [_filled(table[at].to_pylist(), field.type) for at, field in enumerate(fields)]
    names = [field.name for field in fields]
    try:
        rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        return msgspec.convert(rows, list[kind], strict=False)  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise ForeignInput(f"{out / 'gold' / name} has a value of another kind ({error})", REMEDY) from None


def _filled(values: list[Any], kind: Any) -> list[Any]:
    """Replaces a null by an empty value where the field allows none, and an infinite float or NaN by a null."""
    values = [None if isinstance(value, float) and not isfinite(value) else value for value in values]
    empty = {str: "", int: 0, tuple[str, ...]: ()}.get(kind)
    return values if empty is None else [empty if value is None else value for value in values]


def _audit(file: Path) -> AuditVerdicts | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=AuditVerdicts)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise ForeignInput(
            f"{file} is no audit ({error})", "make it again: hop pipeline audit --json"
        ) from None


def _stream(file: Path) -> StreamState | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=StreamState)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise ForeignInput(f"{file} does not describe a stream ({error})", REMEDY) from None
