"""Events from the columns of an Arrow table: the rows of a trace, without a row object for each.

Nearly all rows are sends and deliveries, and nearly all of their values are names that many rows share. So each
distinct name is read once, and each event is made from its columns. The few other rows are read as in
`trace_files`. Rows may come in any order; the events of a process come out in theirs, and the processes in the
order of their first rows (`file`, `row`), which decides which start of a daemon is the earlier one.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeVar

from hopring.check.trace import (
    ClientDelivered,
    ClientSent,
    Counters,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ViewName,
)
from hopring.check.trace_files import SCHEMA_VERSION, TraceError, read_event
from hopring.check.trace_row import LATER, TraceRow, read_message_id, read_process, read_view
from hopring.services import Service

UNUSED: Final = ("link", "sent", "received", "lost", "nacks", "retransmissions", "round_trip_us", "peer")
"""Columns of counters, which no check looks at."""

COLUMNS: Final = tuple([name for name in TraceRow.__struct_fields__ if name not in UNUSED])
"""The columns that the checks need; `file` and `row` may be beside them."""

_BETWEEN: Final = "\0"  # Between the groups of a message, while they are one text.

T = TypeVar("T")


class RowsMissing(TraceError):
    """Rows of a process are missing, or are there twice."""


def events_of(table: Any) -> list[Event]:
    """The events of all rows; TraceError if rows of a process are missing, there twice, or foreign.

    The counts in events of counters are 0: they are there for their positions.
    """
    if not table.num_rows:
        return []
    _check_version(table)
    table = _in_order(table)
    compute = import_module("pyarrow.compute")
    kinds, groups, group = (table.column(name).combine_chunks() for name in ("kind", "groups", "group"))
    of_session = compute.is_valid(groups)
    of_daemon = compute.and_(compute.invert(of_session), compute.equal(group, ""))
    made: list[Event | None] = [None] * table.num_rows
    rest = compute.is_valid(kinds)
    for kind, whose, make in (
        ("deliver", of_daemon, _deliveries),
        ("deliver", of_session, _client_deliveries),
        ("send", of_daemon, _sends),
        ("send", of_session, _client_sends),
        ("counters", of_daemon, _counters),
    ):
        its = compute.and_(compute.equal(kinds, kind), whose)
        _fill(made, table, its, make)
        rest = compute.and_(rest, compute.invert(its))
    _fill(made, table, rest, _others)
    return [event for event in made if event is not None]


def _check_version(table: Any) -> None:
    compute = import_module("pyarrow.compute")
    bounds = compute.min_max(table.column("schema")).as_py()
    for version in (bounds["min"], bounds["max"]):
        if version != SCHEMA_VERSION:
            raise TraceError(f"row of schema {version}, this is schema {SCHEMA_VERSION}")


def _in_order(table: Any) -> Any:
    """The rows by process and position, with all columns that older files lack."""
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    for name in LATER:
        if name not in table.column_names and name not in UNUSED:
            kind = arrow.list_(arrow.string()) if name == "groups" else arrow.null()
            table = table.append_column(name, arrow.nulls(table.num_rows, kind))
    encoded = table.column("process").combine_chunks().dictionary_encode()
    rank = _ranks(table, encoded)
    keys = arrow.table(
        {"process": compute.take(arrow.array(rank), encoded.indices), "position": table.column("position")}
    )
    order = compute.sort_indices(keys, [("process", "ascending"), ("position", "ascending")])
    sorted_keys = keys.take(order)
    _check_positions(sorted_keys, _inverse(rank, encoded.dictionary.to_pylist()))
    return table.take(order)


def _ranks(table: Any, encoded: Any) -> list[int]:
    """By code of a process: which of them it is, in the order of their first rows."""
    compute = import_module("pyarrow.compute")
    codes = range(len(encoded.dictionary))
    if "row" not in table.column_names:
        return list(codes)  # As they appear.
    first = compute.equal(table.column("position"), 0)
    places = [table.column(name).filter(first).to_pylist() for name in ("file", "row")]
    seen: dict[int, tuple[str, int]] = {}
    for code, file, row in zip(
        encoded.indices.filter(first.combine_chunks()).to_pylist(), *places, strict=True
    ):
        seen[code] = min(seen.get(code, (file, row)), (file, row))
    names = encoded.dictionary.to_pylist()
    # A process without a first row is refused later.
    ordered = sorted(codes, key=lambda code: (seen.get(code, ("", 0)), names[code]))
    ranks = [0] * len(codes)
    for rank, code in enumerate(ordered):
        ranks[code] = rank
    return ranks


def _inverse(ranks: Sequence[int], names: Sequence[str]) -> list[str]:
    named = [""] * len(ranks)
    for code, rank in enumerate(ranks):
        named[rank] = names[code]
    return named


def _check_positions(keys: Any, names: Sequence[str]) -> None:
    """The positions of each process are 0, 1, 2 and so on."""
    expected, current = 0, -1
    for batch in keys.to_batches():
        processes, positions = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        for process, position in zip(processes, positions, strict=True):
            if process != current:
                expected, current = 0, process
            if position != expected:
                raise RowsMissing(f"rows of {names[process]} are missing or there twice")
            expected += 1


Make = Callable[[Any], Iterator[Event]]


def _fill(made: list[Event | None], table: Any, mask: Any, make: Make) -> None:
    compute = import_module("pyarrow.compute")
    rows = table.filter(mask)
    if rows.num_rows:
        indices = compute.indices_nonzero(mask).to_pylist()
        for at, event in zip(indices, make(rows), strict=True):
            made[at] = event


def _named(rows: Any, column: str, read: Callable[[Any], T]) -> list[T]:
    """The values of a column, each distinct text read once."""
    encoded = rows.column(column).combine_chunks().dictionary_encode()
    values = [_read(read, text, column) for text in encoded.dictionary.to_pylist()]
    try:
        return [values[code] for code in encoded.indices.to_pylist()]
    except TypeError:
        raise TraceError(f"a row without {column}, which its kind needs") from None


def _read(read: Callable[[Any], T], text: str, column: str) -> T:
    try:
        return read(text)
    except (KeyError, ValueError) as error:
        raise TraceError(f"{column} {text!r} cannot be read: {error}") from error


def _numbers(rows: Any, column: str) -> list[int]:
    found = rows.column(column)
    if found.null_count:
        raise TraceError(f"a row without {column}, which its kind needs")
    values: list[int] = found.to_pylist()
    return values


def _service(name: str) -> Service:
    return Service[name.upper()]


def _groups(rows: Any) -> list[tuple[str, ...]]:
    compute = import_module("pyarrow.compute")
    joined = compute.binary_join(rows.column("groups").combine_chunks(), _BETWEEN).dictionary_encode()
    known = [tuple(text.split(_BETWEEN)) if text else () for text in joined.dictionary.to_pylist()]
    return [known[code] for code in joined.indices.to_pylist()]


def _stamps(rows: Any, messages: Sequence[MessageId]) -> Iterator[Ord]:
    """The stamps; those of one message are one value where they are equal."""
    known: dict[MessageId, Ord] = {}
    parts = [_numbers(rows, name) for name in ("ord_lts", "ord_site")]
    views, places = _named(rows, "ord_view", read_view), _numbers(rows, "ord_place")
    for message, lts, site, view, place in zip(messages, *parts, views, places, strict=True):
        ord = known.get(message)
        if ord is None or ord[0] != lts or ord[1] != site or ord[2] is not view or ord[3] != place:
            ord = known[message] = Ord(lts, site, view, place)
        yield ord


def _who_and_when(rows: Any) -> tuple[list[Any], list[int]]:
    return _named(rows, "process", read_process), _numbers(rows, "time_us")


def _of_daemon(rows: Any) -> tuple[list[Any], list[int], list[ViewName], list[MessageId], list[Service]]:
    messages = _named(rows, "message", read_message_id)
    views, services = _named(rows, "view", read_view), _named(rows, "service", _service)
    return *_who_and_when(rows), views, messages, services


def _deliveries(rows: Any) -> Iterator[Event]:
    parts = _of_daemon(rows)
    return map(MessageDelivered, *parts, _stamps(rows, parts[3]))


def _sends(rows: Any) -> Iterator[Event]:
    parts = _of_daemon(rows)
    return map(MessageSent, *parts, _stamps(rows, parts[3]), _numbers(rows, "size"))


def _client_deliveries(rows: Any) -> Iterator[Event]:
    messages, services = _named(rows, "message", read_message_id), _named(rows, "service", _service)
    return map(
        ClientDelivered, *_who_and_when(rows), _groups(rows), messages, services, _stamps(rows, messages)
    )


def _client_sends(rows: Any) -> Iterator[Event]:
    messages, services = _named(rows, "message", read_message_id), _named(rows, "service", _service)
    discards = map(bool, _numbers(rows, "self_discard"))
    parts = (*_who_and_when(rows), _groups(rows), messages, services, _numbers(rows, "size"))
    return map(ClientSent, *parts, discards)


def _counters(rows: Any) -> Iterator[Event]:
    names_and_times = zip(*_who_and_when(rows), strict=True)
    return (Counters(process, at_us, "", 0, 0, 0, 0, 0, 0) for process, at_us in names_and_times)


def _others(rows: Any) -> Iterator[Event]:
    """Views, signals, requests, starts and ends: few, and read row by row."""
    columns = [rows.column(name).to_pylist() for name in COLUMNS]
    for values in zip(*columns, strict=True):
        row = TraceRow(**dict(zip(COLUMNS, values, strict=True)))
        try:
            yield read_event(row)
        except (KeyError, ValueError) as error:
            place = f"position {row.position} of {row.process}"
            raise TraceError(f"{place}: not a {row.kind} event: {error}") from error
