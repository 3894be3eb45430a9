"""Events from the columns of an Arrow table: the rows of a trace, without a row object for each.

Nearly all rows are sends and deliveries, and nearly all of their values are names that many rows share. So each
distinct name is read once, and each event is made from its columns. The few other rows are read as in
`trace_files`. Rows may come in any order; the events of a process come out in theirs, and processes and sends
in the order of their rows (`file`, `row`): it decides which start of a daemon is the earlier one, and which
message comes first of two that have one stamp.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import repeat
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
    ProcessName,
    ViewName,
)
from hopring.check.trace_files import SCHEMA_VERSION, TraceError, read_event
from hopring.check.trace_row import LATER, TraceRow, read_message_id, read_process, read_view
from hopring.services import Service

UNUSED: Final = (
    *("link", "sent", "received", "lost", "nacks", "retransmissions", "round_trip_us", "peer"),
    *("daemon", "sender", "wall_us"),
)
"""Columns that no check looks at: those of counters, and names that are parts of other names."""

COLUMNS: Final = tuple([name for name in TraceRow.__struct_fields__ if name not in UNUSED])
"""The columns that the checks need; `file` and `row` may be beside them, at least of first rows and sends."""

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
    read = _Reader()
    pieces = [piece for rows in _by_process(table) for piece in _pieces(rows, read.events(rows))]
    pieces.sort(key=lambda piece: piece[0])
    return [event for _place, events in pieces for event in events]


Place = tuple[str, int]  # A file, and a row in it.


def _pieces(rows: Any, events: list[Event]) -> Iterator[tuple[Place, list[Event]]]:
    """The events of a process, cut before each send: the order of all sends breaks ties of stamps."""
    if "row" not in rows.column_names:
        yield ("", 0), events  # Sorting keeps the order in which processes appear.
        return
    cuts = [at for at, event in enumerate(events) if not at or isinstance(event, MessageSent | ClientSent)]
    files, numbers = (rows.column(name).to_pylist() for name in ("file", "row"))
    last: Place = ("", 0)
    for at, end in zip(cuts, [*cuts[1:], len(events)], strict=True):
        last = max(last, (files[at], numbers[at]))  # Whatever the rows say, a process keeps its order.
        yield last, events[at:end]


def _check_version(table: Any) -> None:
    compute = import_module("pyarrow.compute")
    bounds = compute.min_max(table.column("schema")).as_py()
    for version in (bounds["min"], bounds["max"]):
        if version != SCHEMA_VERSION:
            raise TraceError(f"row of schema {version}, this is schema {SCHEMA_VERSION}")


def _by_process(table: Any) -> Iterator[Any]:
    """The rows of each process in their order, as a table; so only one of them is there twice in memory."""
    arrow, compute = import_module("pyarrow"), import_module("pyarrow.compute")
    encoded = table.column("process").combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    ranks = _ranks(table, encoded)
    keys = arrow.table(
        {"process": compute.take(arrow.array(ranks), encoded.indices), "position": table.column("position")}
    )
    order = compute.sort_indices(keys, [("process", "ascending"), ("position", "ascending")])
    counts = {one["values"]: one["counts"] for one in compute.value_counts(encoded.indices).to_pylist()}
    wanted = (*COLUMNS, "file", "row")
    table = _with_all_columns(table.select([name for name in table.column_names if name in wanted]))
    start = 0
    for _rank, code in sorted(zip(ranks, range(len(ranks)), strict=True)):
        rows = table.take(order.slice(start, counts[code]))
        if rows.column("position").to_pylist() != list(range(counts[code])):
            raise RowsMissing(f"rows of {names[code]} are missing or there twice")
        start += counts[code]
        yield rows


def _with_all_columns(table: Any) -> Any:
    """The table with the columns that older files lack."""
    arrow = import_module("pyarrow")
    for name in LATER:
        if name not in table.column_names and name not in UNUSED:
            kind = arrow.list_(arrow.string()) if name == "groups" else arrow.null()
            table = table.append_column(name, arrow.nulls(table.num_rows, kind))
    return table


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


class _Reader:
    """Makes events of rows; names that it has read before are read no more."""

    def __init__(self) -> None:
        self._messages: dict[str, MessageId] = {}
        self._stamps: dict[MessageId, Ord] = {}

    def events(self, table: Any) -> list[Event]:
        """The events of one process, in their order."""
        compute = import_module("pyarrow.compute")
        kinds, groups, group = (table.column(name).combine_chunks() for name in ("kind", "groups", "group"))
        of_session = compute.is_valid(groups)
        of_daemon = compute.and_(compute.invert(of_session), compute.equal(group, ""))
        made: list[Event | None] = [None] * table.num_rows
        rest = compute.is_valid(kinds)
        for kind, whose, make in (
            ("deliver", of_daemon, self._deliveries),
            ("deliver", of_session, self._client_deliveries),
            ("send", of_daemon, self._sends),
            ("send", of_session, self._client_sends),
            ("counters", of_daemon, self._counters),
        ):
            its = compute.and_(compute.equal(kinds, kind), whose)
            _fill(made, table, its, make)
            rest = compute.and_(rest, compute.invert(its))
        _fill(made, table, rest, _others)
        return [event for event in made if event is not None]

    def _deliveries(self, rows: Any) -> Iterator[Event]:
        messages = self._named_messages(rows)
        parts = (_views(rows, "view"), messages, _services(rows), self._ords(rows, messages))
        return map(MessageDelivered, *_who_and_when(rows), *parts, map(bool, _or_zero(rows, "withheld")))

    def _sends(self, rows: Any) -> Iterator[Event]:
        messages = self._named_messages(rows)
        parts = (_views(rows, "view"), messages, _services(rows), self._ords(rows, messages))
        more = _numbers(rows, "size"), _or_zero(rows, "resilience")
        return map(MessageSent, *_who_and_when(rows), *parts, *more)

    def _client_deliveries(self, rows: Any) -> Iterator[Event]:
        messages = self._named_messages(rows)
        parts = (_groups(rows), messages, _services(rows), self._ords(rows, messages))
        return map(ClientDelivered, *_who_and_when(rows), *parts)

    def _client_sends(self, rows: Any) -> Iterator[Event]:
        parts = (_groups(rows), self._named_messages(rows), _services(rows), _numbers(rows, "size"))
        more = map(bool, _numbers(rows, "self_discard")), _or_zero(rows, "resilience")
        return map(ClientSent, *_who_and_when(rows), *parts, *more)

    def _counters(self, rows: Any) -> Iterator[Event]:
        names_and_times = zip(*_who_and_when(rows), strict=True)
        return (Counters(process, at_us, "", 0, 0, 0, 0, 0, 0) for process, at_us in names_and_times)

    def _named_messages(self, rows: Any) -> list[MessageId]:
        known = self._messages
        texts = _complete(rows, "message").to_pylist()
        for text in texts:
            if text not in known:
                known[text] = _read(read_message_id, text, "message")
        return [known[text] for text in texts]

    def _ords(self, rows: Any, messages: Sequence[MessageId]) -> Iterator[Ord]:
        """The stamps; those of one message are one value where they are equal."""
        known = self._stamps
        lts, sites, places = (_numbers(rows, name) for name in ("ord_lts", "ord_site", "ord_place"))
        for message, ord in zip(messages, map(Ord, lts, sites, _views(rows, "ord_view"), places), strict=True):
            first = known.setdefault(message, ord)
            yield first if first == ord else ord


Make = Callable[[Any], Iterator[Event]]


def _fill(made: list[Event | None], table: Any, mask: Any, make: Make) -> None:
    compute = import_module("pyarrow.compute")
    rows = table.filter(mask)
    if rows.num_rows:
        indices = compute.indices_nonzero(mask).to_pylist()
        for at, event in zip(indices, make(rows), strict=True):
            made[at] = event


def _complete(rows: Any, column: str) -> Any:
    """A column that has a value in every row."""
    found = rows.column(column)
    if found.null_count:
        raise TraceError(f"a row without {column}, which its kind needs")
    return found.combine_chunks()


def _named(rows: Any, column: str, read: Callable[[Any], T]) -> list[T]:
    """The values of a column with few names, each read once."""
    encoded = _complete(rows, column).dictionary_encode()
    values = [_read(read, text, column) for text in encoded.dictionary.to_pylist()]
    return [values[code] for code in encoded.indices.to_pylist()]


def _read(read: Callable[[Any], T], text: str, column: str) -> T:
    try:
        return read(text)
    except (KeyError, ValueError) as error:
        raise TraceError(f"{column} {text!r} cannot be read: {error}") from error


def _numbers(rows: Any, column: str) -> list[int]:
    values: list[int] = _complete(rows, column).to_pylist()
    return values


def _or_zero(rows: Any, column: str) -> Iterable[int]:
    """The numbers of a column that may be empty."""
    found = rows.column(column)
    if found.null_count == rows.num_rows:
        return repeat(0, rows.num_rows)
    return [value or 0 for value in found.to_pylist()]


def _views(rows: Any, column: str) -> list[ViewName]:
    return _named(rows, column, read_view)


def _services(rows: Any) -> list[Service]:
    return _named(rows, "service", _service)


def _service(name: str) -> Service:
    return Service[name.upper()]


def _groups(rows: Any) -> list[tuple[str, ...]]:
    compute = import_module("pyarrow.compute")
    joined = compute.binary_join(rows.column("groups").combine_chunks(), _BETWEEN).dictionary_encode()
    known = [tuple(text.split(_BETWEEN)) if text else () for text in joined.dictionary.to_pylist()]
    return [known[code] for code in joined.indices.to_pylist()]


def _who_and_when(rows: Any) -> tuple[Iterator[ProcessName], list[int]]:
    """The process, which is that of all rows, and the times."""
    process = _read(read_process, rows.column("process")[0].as_py(), "process")
    return repeat(process, rows.num_rows), _numbers(rows, "time_us")


def _others(rows: Any) -> Iterator[Event]:
    """Views, signals, requests, starts and ends: few, and read row by row."""
    columns = [rows.column(name).to_pylist() for name in COLUMNS]
    for values in zip(*columns, strict=True):
        row = TraceRow(daemon="", **dict(zip(COLUMNS, values, strict=True)))
        try:
            yield read_event(row)
        except (KeyError, ValueError) as error:
            place = f"position {row.position} of {row.process}"
            raise TraceError(f"{place}: not a {row.kind} event: {error}") from error
