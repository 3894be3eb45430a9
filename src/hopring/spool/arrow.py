"""Blocks as Arrow tables, without a Python loop over rows. The extra `arrow` is loaded on first use.

The columns of a block are in Arrow's layout already. Values that the records of a run share are stored once per
run; one list of indexes distributes them to the rows. Numbers are signed, because Spark has no others: a nonce
or a stamp above 2^63 keeps its bits and reads as negative.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final

from hopring.services import Service
from hopring.spool.decode import SpoolBlock
from hopring.spool.encode import NAMES_BETWEEN
from hopring.spool.errors import SpoolError
from hopring.spool.reading import Slice, read_head, slice_blocks
from hopring.spool.record import RecordHeader, RecordKind, RecordRun

BATCH_BYTES_DEFAULT: Final = 4 * 1024 * 1024
COLUMNS: Final = (
    *("group", "offset", "timestamp", "kind", "sender", "groups", "service", "type"),
    *("view", "place", "number", "size", "payload", "headers", "key"),
)
KEY_HEADER: Final = "key"
"""The header that is a column of its own: what the message is about, by the sender's choice."""


class ArrowMissing(SpoolError):
    """The call needs pyarrow, which is not installed."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "tables need pyarrow", "pip install 'hopring[arrow]'")


def load_arrow(path: str) -> Any:
    """The package pyarrow; ArrowMissing if it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError:
        raise ArrowMissing(path) from None


def schema(arrow: Any, *, payload: bool = True) -> Any:
    """The Arrow schema of tables of records."""
    view = [("counter", arrow.int64()), ("representative", arrow.int32()), ("nonce", arrow.int64())]
    types = {
        "group": arrow.string(),
        "offset": arrow.int64(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
        "kind": arrow.string(),
        "sender": arrow.string(),
        "groups": arrow.list_(arrow.string()),
        "service": arrow.string(),
        "type": arrow.int32(),
        "view": arrow.struct([*view, ("step", arrow.int64())]),
        "place": arrow.struct([*view, ("lts", arrow.int64()), ("site", arrow.int32())]),
        "number": arrow.int32(),
        "size": arrow.int32(),
        "payload": arrow.binary(),
        "headers": arrow.map_(arrow.string(), arrow.string()),
        "key": arrow.string(),
    }
    null = {"service", "sender", "headers", "key"}
    names = [name for name in COLUMNS if payload or name != "payload"]
    return arrow.schema([arrow.field(name, types[name], nullable=name in null) for name in names])


def read_batches(
    portion: Slice,
    *,
    payload: bool = True,
    skip_damaged: bool = False,
    batch_bytes: int = BATCH_BYTES_DEFAULT,
) -> Iterator[Any]:
    """The records of a slice as record batches of about `batch_bytes`; payloads can be left out."""
    arrow = load_arrow(portion.directory)
    group = read_head(Path(portion.directory), portion.base).group
    for blocks in _portions(slice_blocks(portion, skip_damaged=skip_damaged), batch_bytes):
        yield to_batch(arrow, blocks, group, portion.start, portion.end, payload=payload)


def _portions(blocks: Iterator[SpoolBlock], batch_bytes: int) -> Iterator[list[SpoolBlock]]:
    some: list[SpoolBlock] = []
    size_bytes = 0
    for block in blocks:
        if some and size_bytes + block.head.size_bytes > batch_bytes:
            yield some
            some, size_bytes = [], 0
        some.append(block)
        size_bytes += block.head.size_bytes
    if some:
        yield some


def to_batch(
    arrow: Any, blocks: Sequence[SpoolBlock], group: str, start: int, end: int, *, payload: bool = True
) -> Any:
    """The records of these blocks, with offsets from `start` to before `end`, as one record batch."""
    columns = _Columns(arrow, blocks)
    wanted = schema(arrow, payload=payload)
    arrays = [columns.one(name, group) for name in wanted.names]
    whole = arrow.RecordBatch.from_arrays(arrays, schema=wanted)
    first, last = blocks[0].head, blocks[-1].head
    low = max(0, start - first.first)
    return whole.slice(low, whole.num_rows - low - max(0, last.end - end))


def run_of_array(header: RecordHeader, payloads: Any, types: Sequence[int] | None = None) -> RecordRun:
    """A run with the bodies of a binary array, without a copy; a null is an empty body."""
    _, ends, bodies = payloads.buffers()
    count, at = len(payloads), payloads.offset
    column = memoryview(ends).cast("B").cast("i")[at : at + count + 1] if count else array("i", [0])
    whole = memoryview(b"") if bodies is None else memoryview(bodies)
    return RecordRun(header, array("H", bytes(2 * count)) if types is None else types, column, whole)


class _Columns:
    """Builds the Arrow columns of consecutive blocks."""

    def __init__(self, arrow: Any, blocks: Sequence[SpoolBlock]) -> None:
        self.arrow = arrow
        self.compute = import_module("pyarrow.compute")
        self.blocks = blocks
        self.rows = sum([block.head.records for block in blocks])
        shifts = accumulate([block.head.records for block in blocks], initial=0)
        ends = [
            end + shift
            for shift, block in zip(shifts, blocks, strict=False)
            for end in block.column("run_end").tolist()
        ]
        self.starts = [0, *ends[:-1]]
        places = arrow.RunEndEncodedArray.from_arrays(
            arrow.array(ends, arrow.int32()), self._numbers(range(len(ends)), "i")
        )
        self.run_of = self.compute.run_end_decode(places)  # The index of each row's run.

    def one(self, name: str, group: str) -> Any:
        """The column of the schema with this name."""
        arrow = self.arrow
        match name:
            case "group":
                return arrow.repeat(arrow.scalar(group), self.rows)
            case "offset":
                return self._numbers(
                    chain.from_iterable([range(b.head.first, b.head.end) for b in self.blocks])
                )
            case "timestamp":
                return self._of_runs("time_us", arrow.timestamp("us", tz="UTC"))
            case "kind" | "service":
                values = RecordKind if name == "kind" else Service
                return self._named(name, {one.value: one.name.lower() for one in values})
            case "sender":
                return self._by_row(self._strings("sender", lambda text: text or None), arrow.string())
            case "groups":
                lists = self._strings("groups", lambda text: text.split(NAMES_BETWEEN) if text else [])
                return self._by_row(lists, arrow.list_(arrow.string()))
            case "type":
                return self._of_records("types", arrow.uint16()).cast(arrow.int32())
            case "view":
                return self._struct(("view_counter", "view_representative", "view_nonce", "view_step"), "view")
            case "place":
                parts = ("place_counter", "place_representative", "place_nonce", "lts", "site")
                return self._struct(parts, "place")
            case "number":
                return self._number()
            case "headers" | "key":
                return self._of_headers(name)
            case _:
                bodies = [self._bodies(block) for block in self.blocks]
                return arrow.concat_arrays(
                    bodies if name == "payload" else map(self.compute.binary_length, bodies)
                )

    def _of_headers(self, name: str) -> Any:
        """All headers of messages, or the one that is a column; null for records without them."""
        kind = schema(self.arrow).field(name).type

        def value(headers: Mapping[str, str]) -> object:
            return list(headers.items()) if name == "headers" else headers.get(KEY_HEADER)

        parts = [
            self.arrow.array([value(one) if one else None for one in block.headers], kind)
            if block.head.enveloped
            else self.arrow.nulls(block.head.records, kind)
            for block in self.blocks
        ]
        return self.arrow.concat_arrays(parts)

    def _bodies(self, block: SpoolBlock) -> Any:
        """The bodies of a block, without a copy."""
        buffers = [None, self.arrow.py_buffer(block.section("ends")), self.arrow.py_buffer(block.bodies)]
        return self.arrow.Array.from_buffers(self.arrow.binary(), block.head.records, buffers)

    def _of_records(self, name: str, kind: Any) -> Any:
        joined = b"".join([block.section(name) for block in self.blocks])
        return self.arrow.Array.from_buffers(kind, self.rows, [None, self.arrow.py_buffer(joined)])

    def _values(self, name: str, kind: Any) -> Any:
        """A column with one value per run."""
        joined = b"".join([block.section(name) for block in self.blocks])
        runs = len(self.starts)
        return self.arrow.Array.from_buffers(kind, runs, [None, self.arrow.py_buffer(joined)])

    def _of_runs(self, name: str, kind: Any) -> Any:
        return self._values(name, kind).take(self.run_of)

    def _named(self, name: str, names: dict[int, str]) -> Any:
        texts = self.arrow.array([names.get(number) for number in range(max(names) + 1)], self.arrow.string())
        return texts.take(self._of_runs(name, self.arrow.uint8()))

    def _strings(self, name: str, shown: Any) -> list[object]:
        out: list[object] = []
        for block in self.blocks:
            strings = [shown(text) for text in block.strings]
            out += [strings[place] for place in block.column(name).tolist()]
        return out

    def _by_row(self, values: list[object], kind: Any) -> Any:
        return self.arrow.array(values, kind).take(self.run_of)

    def _struct(self, parts: tuple[str, ...], name: str) -> Any:
        kind = schema(self.arrow).field(name).type
        small = ("view_representative", "place_representative", "site")
        arrays = [
            self._values(part, self.arrow.uint16()).cast(self.arrow.int32())
            if part in small
            else self._values(part, self.arrow.int64())
            for part in parts
        ]
        return self.arrow.StructArray.from_arrays(arrays, fields=list(kind)).take(self.run_of)

    def _number(self) -> Any:
        """The index of each row in its bundle: that of its run's first record, plus its distance from there."""
        numbers = [number for block in self.blocks for number in block.column("number").tolist()]
        shifts = self._numbers(
            [number - start for number, start in zip(numbers, self.starts, strict=True)], "i"
        )
        return self.compute.add(shifts.take(self.run_of), self._numbers(range(self.rows), "i"))

    def _numbers(self, values: Any, code: Any = "q") -> Any:
        kind = self.arrow.int64() if code == "q" else self.arrow.int32()
        packed = array(code, values)
        return self.arrow.Array.from_buffers(kind, len(packed), [None, self.arrow.py_buffer(packed)])
