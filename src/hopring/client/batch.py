"""Batches: many events at once, in their order, and as a table of Arrow.

A row is an event of whatever kind, so that a view stands between the messages that it came between. The schema
is in docs/api.md. Bodies of a bundle lie in Arrow's layout already: long runs are mapped where they are, and
not copied; the others are copied together. Arrow is the extra `arrow`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import groupby
from typing import Any, Final, NamedTuple

from hopring.client.errors import MissingExtra
from hopring.client.events import Event, Gap, Message, Reconnected, Transition, View, groups_of
from hopring.session.place import Place
from hopring.wire.bundle import Bundle


class Origin(NamedTuple):
    """Where a message came in: its bundle, whose messages have rising numbers from the first on."""

    bundle: Bundle
    first: int


@dataclass(frozen=True, slots=True)
class Taken:
    """An event as it came."""

    event: Event
    order: int  # Its number among all events of the session, from 1.
    received_at_us: int  # When the library read it; microseconds since 1970.
    origin: Origin | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in their order; iterate over it, or make a table of it."""

    taken: tuple[Taken, ...]

    def __len__(self) -> int:
        return len(self.taken)

    def __iter__(self) -> Iterator[Event]:
        return iter([one.event for one in self.taken])

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages among the events."""
        return tuple([one.event for one in self.taken if isinstance(one.event, Message)])

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each event; MissingExtra if pyarrow is not installed."""
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            raise MissingExtra("to_arrow", "pyarrow", "arrow") from None
        rows = [_row(one) for one in self.taken]
        columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
        types = _types(arrow)
        arrays = [
            _bodies(arrow, self.taken) if name == "data" else arrow.array(column, types[name])
            for name, column in zip(COLUMNS, columns, strict=True)
        ]
        fields = [arrow.field(name, types[name], nullable=name not in NEVER_NULL) for name in COLUMNS]
        return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))


COLUMNS: Final = (
    *("order", "received_at", "kind", "groups", "sender", "service", "type", "data"),
    *("place", "members", "cause", "in_doubt", "missing"),
)
NEVER_NULL: Final = frozenset({"order", "received_at", "kind", "groups"})
MAPPED_MIN: Final = 16
"""Messages of one bundle in a row that are worth a chunk of their own."""


def _bodies(arrow: Any, taken: Sequence[Taken]) -> Any:
    chunks: list[Any] = []
    copied: list[bytes | None] = []
    for _, some in groupby(taken, lambda one: id(one.origin)):
        run = list(some)
        origin = run[0].origin
        if origin is None or len(run) < MAPPED_MIN:
            copied += [one.event.data if isinstance(one.event, Message) else None for one in run]
            continue
        if copied:
            chunks.append(arrow.array(copied, arrow.binary()))
            copied = []
        assert run[-1].order - run[0].order == len(run) - 1, "who takes some of a bundle takes the next ones"
        chunks.append(_mapped(arrow, run[0].order - origin.first, len(run), origin.bundle))
    if copied or not chunks:
        chunks.append(arrow.array(copied, arrow.binary()))
    return arrow.chunked_array(chunks, arrow.binary())


def _mapped(arrow: Any, first: int, length: int, bundle: Bundle) -> Any:
    buffers = [None, arrow.py_buffer(bundle.offsets), arrow.py_buffer(bundle.bodies)]
    return arrow.Array.from_buffers(arrow.binary(), length, buffers, offset=first)


def _types(arrow: Any) -> dict[str, Any]:
    place = {
        "view_counter": arrow.uint64(),
        "view_representative": arrow.uint16(),
        "view_nonce": arrow.uint64(),
        "lts": arrow.uint64(),
        "site": arrow.uint16(),
    }
    return {
        "order": arrow.uint64(),
        "received_at": arrow.timestamp("us", tz="UTC"),
        "kind": arrow.string(),
        "groups": arrow.list_(arrow.string()),
        "sender": arrow.string(),
        "service": arrow.string(),
        "type": arrow.uint16(),
        "data": arrow.binary(),
        "place": arrow.struct(list(place.items())),
        "members": arrow.list_(arrow.string()),
        "cause": arrow.string(),
        "in_doubt": arrow.uint64(),
        "missing": arrow.uint64(),
    }


def _row(one: Taken) -> tuple[object, ...]:
    event = one.event
    head = (one.order, one.received_at_us, type(event).__name__.lower(), groups_of(event))
    match event:
        case Message():
            service = event.service.name.lower()
            return (*head, event.sender, service, event.type, event.data, _place(event.place), *[None] * 4)
        case View():
            return (*head, None, None, None, None, None, _names(event), event.cause, None, None)
        case Transition():
            return (*head, None, None, None, None, None, _names(event), None, None, None)
        case Reconnected(gap=gap):
            return (*head, None, None, None, None, _place(gap.last), None, gap.reason, gap.in_doubt, None)
        case Gap():
            return (*head, *[None] * (len(COLUMNS) - len(head) - 1), event.messages)
        case _:
            return (*head, *[None] * (len(COLUMNS) - len(head)))


def _names(event: View | Transition) -> list[str]:
    return [member.private_group for member in event.members]


def _place(place: Place | None) -> dict[str, int] | None:
    if place is None:
        return None
    return {
        "view_counter": place.view.counter,
        "view_representative": place.view.representative,
        "view_nonce": place.view.nonce,
        "lts": place.lts,
        "site": place.site,
    }
