"""The trace as flat rows, and rows as files: JSON lines, and Parquet for the audit with SQL.

One row per event, the same columns for every kind, empty where a kind has none; `docs/trace.md` has the table.
Ids are text that sorts as the ids do. Parquet needs pyarrow, the extra `arrow`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec

from hopring.check.trace import (
    BlockNoted,
    Counters,
    Crash,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.check.trace_row import (
    COUNTS,
    LATER,
    TraceRow,
    client_columns,
    is_of_client,
    message_text,
    ord_columns,
    process_text,
    process_texts,
    read_client_event,
    read_message_id,
    read_ord,
    read_process,
    read_processes,
    read_view,
    some,
    view_text,
)
from hopring.errors import HopError
from hopring.services import Service

__all__ = [
    "SCHEMA_VERSION",
    "Flattener",
    "TraceError",
    "TraceRow",
    "events",
    "read_json_lines",
    "read_parquet",
    "rows",
    "write_json_lines",
    "write_parquet",
]

SCHEMA_VERSION = 1


class TraceError(HopError, ValueError):
    """A trace that cannot be read or written."""


class Flattener:
    """Makes rows of events as they come; it counts the positions."""

    def __init__(self) -> None:
        self._positions: Counter[ProcessName] = Counter()

    def row(self, event: Event) -> TraceRow:
        """The row of the process's next event."""
        process = event.process
        position = self._positions[process]
        self._positions[process] += 1
        kind, columns = _columns(event)
        return TraceRow(
            SCHEMA_VERSION, kind, process_text(process), process.daemon, position, event.at_us, **columns
        )


def rows(history: Iterable[Event]) -> Iterator[TraceRow]:
    """The rows of a history, in its order."""
    return map(Flattener().row, history)


def events(rows: Iterable[TraceRow]) -> Iterator[Event]:
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
            event = read_event(row)
        except (KeyError, ValueError) as error:
            raise TraceError(f"{place}: not a {row.kind} event: {error}") from error
        yield event


def write_json_lines(history: Iterable[Event], file: IO[bytes]) -> None:
    """Writes a history, one row per line."""
    encoder = msgspec.json.Encoder()
    file.writelines(encoder.encode(row) + b"\n" for row in rows(history))


def read_json_lines(file: IO[bytes]) -> list[Event]:
    """Reads a history from lines."""
    decoder = msgspec.json.Decoder(TraceRow)
    return list(events(_decoded(decoder, file)))


def _decoded(decoder: msgspec.json.Decoder[TraceRow], file: IO[bytes]) -> Iterator[TraceRow]:
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
    schema = arrow.schema([(field.name, types[field.type]) for field in msgspec.structs.fields(TraceRow)])
    columns = zip(*map(msgspec.structs.astuple, rows(history)), strict=True)
    arrays = [arrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=False)]
    table = arrow.table(arrays, schema=schema) if arrays else schema.empty_table()
    parquet.write_table(table, file, compression="zstd")


def read_parquet(file: Path | IO[bytes]) -> list[Event]:
    """Reads a history from Parquet."""
    _core, parquet = _arrow()
    table = parquet.read_table(file)
    names = TraceRow.__struct_fields__
    missing = [name for name in names if name not in table.column_names and name not in LATER]
    if missing:
        raise TraceError(f"not a trace: there is no column {missing[0]}")
    empty = [None] * table.num_rows
    columns = [table.column(name).to_pylist() if name in table.column_names else empty for name in names]
    return list(events(TraceRow(*values) for values in zip(*columns, strict=True)))


def _arrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise TraceError("Parquet needs pyarrow: pip install 'hopring[arrow]'") from error


def _columns(event: Event) -> tuple[str, dict[str, Any]]:
    """The kind of an event and the columns that are its own."""
    match event:
        case Recover():
            return "recover", {"wall_us": event.wall_us} if event.wall_us else {}
        case Crash():
            return "crash", {}
        case ViewInstalled():
            sets = {"members": process_texts(event.members), "transitional_set": process_texts(event.together)}
            why = {"cause": event.cause, "primary": event.primary or None}
            return "view", {"view": view_text(event.view), **why, **sets}
        case Signalled():
            return "transitional", {
                "view": view_text(event.view),
                "transitional_set": process_texts(event.together),
            }
        case MessageSent():
            resilience = {"resilience": event.resilience} if event.resilience else {}
            return "send", {"size": event.size, **resilience, **_message_columns(event)}
        case MessageDelivered():
            withheld = {"withheld": 1} if event.withheld else {}
            return "deliver", {**withheld, **_message_columns(event)}
        case Counters():
            return "counters", {"peer": event.peer, **{name: getattr(event, name) for name in COUNTS}}
        case BlockNoted():
            return event.kind, {"fields": event.fields}
        case _:
            return client_columns(event)


def _message_columns(event: MessageSent | MessageDelivered) -> dict[str, Any]:
    return {
        "view": view_text(event.view),
        "message": message_text(event.message),
        "sender": process_text(event.message.sender),
        "service": event.service.name.lower(),
        **ord_columns(event.ord),
    }


def read_event(row: TraceRow) -> Event:
    """The event of one row; KeyError or ValueError if a column that it needs is empty or wrong."""
    if is_of_client(row):
        return read_client_event(row)
    process, at_us = read_process(row.process), row.time_us
    if row.fields is not None:
        return BlockNoted(process, at_us, row.kind, row.fields)
    match row.kind:
        case "recover":
            return Recover(process, at_us, row.wall_us or 0)
        case "crash":
            return Crash(process, at_us)
        case "view":
            sets = read_processes(row.members), read_processes(row.transitional_set)
            return ViewInstalled(process, at_us, read_view(row.view), *sets, row.cause or "", row.primary or "")
        case "transitional":
            return Signalled(process, at_us, read_view(row.view), read_processes(row.transitional_set))
        case "send":
            return MessageSent(process, at_us, *_read_message(row), some(row.size), row.resilience or 0)
        case "deliver":
            return MessageDelivered(process, at_us, *_read_message(row), bool(row.withheld))
        case "counters":
            counts = {name: some(getattr(row, name)) for name in COUNTS}
            return Counters(process, at_us, peer=row.peer or "", **counts)
        case _:
            raise ValueError("unknown kind")


def _read_message(row: TraceRow) -> tuple[ViewName, MessageId, Service, Ord]:
    service = Service[some(row.service).upper()]
    return read_view(row.view), read_message_id(row.message), service, read_ord(row)
