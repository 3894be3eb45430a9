"""What the report is about: rows of the gold tables as values, with times in microseconds."""

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

ALL_GROUPS: Final = ""


class StayRow(msgspec.Struct, frozen=True, order=True):
    """A daemon in a view."""

    daemon: str
    begin_us: int
    view: str
    end_us: int | None  # None: nobody saw it end.
    members: tuple[str, ...]
    transitional: tuple[str, ...] = ()
    cause: str = ""
    signalled_us: int | None = None


class LatencyRow(msgspec.Struct, frozen=True, order=True):
    """How long messages of one service took from one site to another."""

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
    negative: int  # Clocks that differ: so many seemed to arrive before they were sent.


class BucketRow(msgspec.Struct, frozen=True, order=True):
    """How many of them took so long."""

    service: str
    from_site: str
    to_site: str
    low_us: int
    high_us: int
    messages: int


class LinkRow(msgspec.Struct, frozen=True, order=True):
    """What a daemon counted of its link to a peer."""

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
    """A session in a view of a group."""

    group: str
    begin_us: int
    view: str
    session: str
    end_us: int | None
    members: tuple[str, ...]
    cause: str


class FindingRow(msgspec.Struct, frozen=True):
    """A property that is broken in one history."""

    run: str
    property: str
    violations: int
    witness: str


class AuditVerdicts(msgspec.Struct, frozen=True):
    """What the audit says."""

    holds: bool
    runs: tuple[str, ...]
    broken: tuple[FindingRow, ...]
    judged: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class GoldTables:
    """All that there is. None is a table that was not made; an empty one has nothing in it."""

    throughput: Any = None  # A pyarrow.Table with `second_us`: it may be long, so Arrow adds it up.
    latency: list[LatencyRow] | None = None
    histogram: list[BucketRow] | None = None
    links: list[LinkRow] | None = None
    membership: list[StayRow] | None = None
    group_views: list[GroupStayRow] | None = None
    summary: dict[str, float] = field(default_factory=dict)
    gaps: Any = None  # A pyarrow.Table of whatever columns.
    audit: AuditVerdicts | None = None
    left_out: dict[str, int] = field(default_factory=dict)  # By table: rows past the limit of what is read.


AUDIT_FILE: Final = "audit.json"
ROWS_MAX: Final = 50_000
REMEDY: Final = "make the tables again: hop pipeline run"

COLUMNS: Final = {
    "throughput": ("second", "daemon", "site", "service", "sent", "delivered", "bytes"),
    "latency": LatencyRow.__struct_fields__,
    "latency_histogram": BucketRow.__struct_fields__,
    "links": LinkRow.__struct_fields__,
    "membership": (*("daemon", "installed", "view", "ended", "members", "transitional", "cause", "signalled"),),
    "group_views": ("group", "installed", "view", "session", "ended", "members", "cause"),
    "summary": ("name", "value"),
}
"""In the order of the values' fields, by which rows are sorted too."""

WHEN: Final = {"throughput": "second_us", "membership": "installed_us", "group_views": "installed_us"}

Row = TypeVar("Row")


def read_gold(out: Path) -> GoldTables:
    """All tables that are there; ForeignInput if one is not what its name says."""
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
    return gold


def _table(out: Path, name: str) -> Any:
    """A table with its columns, sorted, times as numbers; None if it was not made."""
    place = out / "gold" / name
    table = _read(place)
    if table is None:
        return None
    columns = COLUMNS[name]
    missing = [column for column in columns if column not in table.column_names]
    if missing:
        raise ForeignInput(f"{place} has no column {', '.join(missing)}", REMEDY)
    table = table.select(list(columns))
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(at, f"{column.name}_us", _micros(table[column.name]))
    if name in WHEN:
        table = table.filter(
            pc.is_valid(table[WHEN[name]])
        )  # What happened at no time has no place on the page.
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
    """Old files of Spark have nanoseconds; all of them mean UTC."""
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
    """A null where no null is meant is an empty text, nobody, or none; a number that is none is a null."""
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
