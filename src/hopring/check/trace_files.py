"""The trace as flat rows, and rows as files: JSON lines, and Parquet for the audit with SQL.

One row per event, the same columns for every kind, empty where a kind has none; `docs/trace.md` has the table.
Ids are text that sorts as the ids do. Parquet needs pyarrow, the extra `trace`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from hopring.check.trace import (
    Counters,
    Crash,
    Delivered,
    Event,
    Installed,
    MessageId,
    Ord,
    Process,
    Recover,
    Sent,
    Signal,
    ViewName,
)
from hopring.errors import HopError
from hopring.services import Service

SCHEMA_VERSION = 1
NAMES_CACHED_MAX = 4096

T = TypeVar("T")


class TraceError(HopError, ValueError):
    """A trace that cannot be read or written."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event as a row. A column that its kind does not have is None."""

    schema: int
    kind: str
    process: str
    daemon: str
    position: int  # In the history of the process, from 0.
    time_us: int
    group: str = ""  # For the events of clients.
    view: str | None = None
    members: list[str] | None = None
    transitional_set: list[str] | None = None
    cause: str | None = None
    message: str | None = None
    sender: str | None = None
    service: str | None = None
    size: int | None = None
    ord_lts: int | None = None
    ord_site: int | None = None
    ord_view: str | None = None
    ord_place: int | None = None
    link: str | None = None
    sent: int | None = None
    received: int | None = None
    lost: int | None = None
    nacks: int | None = None
    retransmissions: int | None = None
    round_trip_us: int | None = None
    peer: str | None = None


COUNTS = Counters.__struct_fields__[2:-1]  # All but whose and when, and the peer, which old files do not have.


_LATER = ("peer",)  # Columns that older files of this schema do not have.


class Flattener:
    """Makes rows of events as they come; it counts the positions."""

    def __init__(self) -> None:
        self._positions: Counter[Process] = Counter()

    def row(self, event: Event) -> Row:
        """The row of the process's next event."""
        process = event.process
        position = self._positions[process]
        self._positions[process] += 1
        kind, columns = _columns(event)
        return Row(SCHEMA_VERSION, kind, _process(process), process.daemon, position, event.at_us, **columns)


def rows(history: Iterable[Event]) -> Iterator[Row]:
    """The rows of a history, in its order."""
    return map(Flattener().row, history)


def events(rows: Iterable[Row]) -> Iterator[Event]:
    """The events of rows. Those of one process must be complete and in their order; others may lie between."""
    expected: Counter[str] = Counter()
    for row in rows:
        if row.schema != SCHEMA_VERSION:
            raise TraceError(f"row of schema {row.schema}, this is schema {SCHEMA_VERSION}")
        place = f"position {row.position} of {row.process}"
        if row.position != expected[row.process]:
            raise TraceError(f"{place}: rows are missing or out of order, {expected[row.process]} was next")
        expected[row.process] += 1
        try:
            event = _event(row)
        except (KeyError, ValueError) as error:
            raise TraceError(f"{place}: not a {row.kind} event of a daemon: {error}") from error
        yield event


def write_json_lines(history: Iterable[Event], file: IO[bytes]) -> None:
    """Writes a history, one row per line."""
    encoder = msgspec.json.Encoder()
    file.writelines(encoder.encode(row) + b"\n" for row in rows(history))


def read_json_lines(file: IO[bytes]) -> list[Event]:
    """Reads a history from lines."""
    decoder = msgspec.json.Decoder(Row)
    return list(events(_decoded(decoder, file)))


def _decoded(decoder: msgspec.json.Decoder[Row], file: IO[bytes]) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise TraceError(f"line {number}: {error}") from error


def write_parquet(history: Iterable[Event], file: Path | IO[bytes]) -> None:
    """Writes a history as Parquet: columns of plain types, text ids, compressed."""
    arrow, parquet = _arrow()
    number, text, texts = arrow.int64(), arrow.string(), arrow.list_(arrow.string())
    types = {int: number, int | None: number, str: text, str | None: text, list[str] | None: texts}
    schema = arrow.schema([(field.name, types[field.type]) for field in msgspec.structs.fields(Row)])
    columns = zip(*map(msgspec.structs.astuple, rows(history)), strict=True)
    arrays = [arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=False)]
    table = arrow.table(arrays, schema=schema) if arrays else schema.empty_table()
    parquet.write_table(table, file, compression="zstd")


def read_parquet(file: Path | IO[bytes]) -> list[Event]:
    """Reads a history from Parquet."""
    _core, parquet = _arrow()
    table = parquet.read_table(file)
    names = Row.__struct_fields__
    missing = [name for name in names if name not in table.column_names and name not in _LATER]
    if missing:
        raise TraceError(f"not a trace: there is no column {missing[0]}")
    empty = [None] * table.num_rows
    columns = [table.column(name).to_pylist() if name in table.column_names else empty for name in names]
    return list(events(Row(*values) for values in zip(*columns, strict=True)))


def _arrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise TraceError("Parquet needs pyarrow: pip install 'hopring[trace]'") from error


def _columns(event: Event) -> tuple[str, dict[str, Any]]:
    """The kind of an event and the columns that are its own."""
    match event:
        case Recover():
            return "recover", {}
        case Crash():
            return "crash", {}
        case Installed():
            sets = {"members": _processes(event.members), "transitional_set": _processes(event.together)}
            return "view", {"view": _view(event.view), "cause": event.cause, **sets}
        case Signal():
            return "transitional", {"view": _view(event.view), "transitional_set": _processes(event.together)}
        case Sent():
            return "send", {"size": event.size, **_message_columns(event)}
        case Delivered():
            return "deliver", _message_columns(event)
        case Counters():
            return "counters", {"peer": event.peer, **{name: getattr(event, name) for name in COUNTS}}


def _message_columns(event: Sent | Delivered) -> dict[str, Any]:
    sender = _process(event.message.sender)
    return {
        "view": _view(event.view),
        "message": f"{sender}:{event.message.number}",
        "sender": sender,
        "service": event.service.name.lower(),
        "ord_lts": event.ord.lts,
        "ord_site": event.ord.site,
        "ord_view": _view(event.ord.view),
        "ord_place": event.ord.place,
    }


def _event(row: Row) -> Event:
    if row.group:
        raise ValueError(f"it is in group {row.group}")
    process, at_us = _read_process(row.process), row.time_us
    match row.kind:
        case "recover":
            return Recover(process, at_us)
        case "crash":
            return Crash(process, at_us)
        case "view":
            sets = _read_processes(row.members), _read_processes(row.transitional_set)
            return Installed(process, at_us, _read_view(row.view), *sets, row.cause or "")
        case "transitional":
            return Signal(process, at_us, _read_view(row.view), _read_processes(row.transitional_set))
        case "send":
            return Sent(process, at_us, *_read_message(row), _some(row.size))
        case "deliver":
            return Delivered(process, at_us, *_read_message(row))
        case "counters":
            counts = {name: _some(getattr(row, name)) for name in COUNTS}
            return Counters(process, at_us, peer=row.peer or "", **counts)
        case _:
            raise ValueError("unknown kind")


def _read_message(row: Row) -> tuple[ViewName, MessageId, Service, Ord]:
    sender, _colon, number = _some(row.message).rpartition(":")
    daemon, incarnation, session = _read_process(sender)
    message = MessageId(daemon, incarnation, int(number), session)
    place = Ord(_some(row.ord_lts), _some(row.ord_site), _read_view(row.ord_view), _some(row.ord_place))
    return _read_view(row.view), message, Service[_some(row.service).upper()], place


@lru_cache(NAMES_CACHED_MAX)
def _process(process: Process) -> str:
    return f"{process.daemon}#{process.incarnation:016x}/{process.session}"


@lru_cache(NAMES_CACHED_MAX)
def _read_process(text: str) -> Process:
    start, _slash, session = text.rpartition("/")
    daemon, _sharp, incarnation = start.rpartition("#")
    return Process(daemon, int(incarnation, 16), int(session))


def _processes(processes: Iterable[Process]) -> list[str]:
    return [_process(process) for process in processes]


def _read_processes(texts: list[str] | None) -> tuple[Process, ...]:
    return tuple(_read_process(text) for text in _some(texts))


@lru_cache(NAMES_CACHED_MAX)
def _view(view: ViewName) -> str:
    return f"{view.counter:016x}.{view.representative:04x}.{view.nonce:016x}"


@lru_cache(NAMES_CACHED_MAX)
def _read_view(text: str | None) -> ViewName:
    counter, representative, nonce = (int(part, 16) for part in _some(text).split("."))
    return ViewName(counter, representative, nonce)


def _some(value: T | None) -> T:
    if value is None:
        raise ValueError("a column is empty that it needs")
    return value
