"""Many events at once, in their order, and as a table of Arrow.

A row is an event of any kind, so that a view stands between the messages before and after it. The schema is in
docs/api.md. Bodies of a bundle are in Arrow's layout already: long runs are not copied; the others are copied
together. Arrow is the extra `arrow`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain, repeat
from typing import Any, Final, Generic, cast

from hopring.client.errors import MissingExtra
from hopring.client.events import Event, Gap, Message, Reconnected, Transition, V, View, groups_of
from hopring.client.receiving.runs import MessageRun
from hopring.client.values.codecs import Codec, decoded
from hopring.ids import Place


@dataclass(frozen=True, slots=True)
class Taken:
    """An event with its number and time of arrival."""

    event: Event[Any]
    order: int  # Its number among all events of the session, from 1.
    received_at_seconds: float  # When the library read it; seconds since 1970.

    def __len__(self) -> int:
        return 1


Part = Taken | MessageRun
"""An event, or messages of one bundle."""


@dataclass(frozen=True, slots=True)
class EventSequence(Generic[V]):
    """Many events in their order, as `receive_many` takes them.

    Iterate over it, take its messages in columns (`runs`), or make a table of it.
    """

    parts: tuple[Part, ...]
    codec: Codec[V] | None = None  # Of the session; columns and tables have bodies as they are.

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[Event[V]]:
        return chain.from_iterable(map(self._events, self.parts))

    def decoded_by(self, codec: Codec[Any]) -> "EventSequence[Any]":
        """The same events, whose bodies a codec decodes."""
        return replace(self, codec=codec)

    def _events(self, part: Part) -> "Sequence[Event[V]]":
        events = _events(part)
        codec = self.codec
        return cast("Sequence[Event[V]]", events) if codec is None else [decoded(codec, one) for one in events]

    @property
    def taken(self) -> tuple[Taken, ...]:
        """The events one by one, with their numbers and times."""
        return tuple(
            [
                Taken(event, number, part.received_at_seconds)
                for part in self.parts
                for number, event in enumerate(self._events(part), part.order)
            ]
        )

    @property
    def messages(self) -> tuple[Message[V], ...]:
        """The messages among the events."""
        return tuple([event for event in self if isinstance(event, Message)])

    @property
    def runs(self) -> tuple[MessageRun, ...]:
        """The messages in columns, without an object for each; those from a spool are not included."""
        return tuple([part for part in self.parts if isinstance(part, MessageRun)])

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each event; MissingExtra if pyarrow is not installed."""
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            raise MissingExtra("to_arrow", "pyarrow", "arrow") from None
        rows = [row for part in self.parts for row in _rows(part)]
        columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
        types = _types(arrow)
        arrays = [
            _bodies(arrow, self.parts) if name == "data" else arrow.array(column, types[name])
            for name, column in zip(COLUMNS, columns, strict=True)
        ]
        fields = [arrow.field(name, types[name], nullable=name not in NEVER_NULL) for name in COLUMNS]
        return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields))


def _events(part: Part) -> Sequence[Event]:
    return part.messages() if isinstance(part, MessageRun) else (part.event,)


COLUMNS: Final = (
    *("order", "received_at", "kind", "groups", "sender", "service", "type", "data"),
    *("place", "members", "cause", "in_doubt", "missing"),
)
NEVER_NULL: Final = frozenset({"order", "received_at", "kind", "groups"})
ALIGNED_BYTES: Final = 8
MAPPED_MIN: Final = 16
"""The least number of consecutive messages of one bundle that are worth a chunk of their own."""


def _bodies(arrow: Any, parts: Sequence[Part]) -> Any:
    chunks: list[Any] = []
    copied: list[bytes | None] = []
    for part in parts:
        if isinstance(part, Taken):
            copied.append(part.event.data if isinstance(part.event, Message) else None)
        elif len(part) < MAPPED_MIN or part.enveloped:
            copied += part.bodies()
        else:
            if copied:
                chunks.append(arrow.array(copied, arrow.binary()))
                copied = []
            chunks.append(_mapped(arrow, part))
    if copied or not chunks:
        chunks.append(arrow.array(copied, arrow.binary()))
    return arrow.chunked_array(chunks, arrow.binary())


def _mapped(arrow: Any, run: MessageRun) -> Any:
    offsets = arrow.py_buffer(run._bundle.offsets)
    if offsets.address % ALIGNED_BYTES:  # A frame that is a view of its chunk may have any address.
        offsets = arrow.py_buffer(run._bundle.offsets.tobytes())
    buffers = [None, offsets, arrow.py_buffer(run._bundle.bodies)]
    return arrow.Array.from_buffers(arrow.binary(), len(run), buffers, offset=run.start)


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


def _rows(part: Part) -> list[tuple[object, ...]]:
    """A row for each event, without its body."""
    if isinstance(part, Taken):
        return [_row(part)]
    at_us = microseconds(part.received_at_seconds)
    place, service, nothing = _place(part.place), part.service.name.lower(), (None,) * 4
    groups = (
        [part._bundle.groups_of(at) for at in range(part.start, part.end)]
        if part.mixed
        else repeat(part.groups)
    )
    return [
        (number, at_us, "message", its, part.sender, service, kind, None, place, *nothing)
        for number, (its, kind) in enumerate(zip(groups, part.types.tolist(), strict=False), part.order)
    ]


def _row(one: Taken) -> tuple[object, ...]:
    event = one.event
    head = (one.order, microseconds(one.received_at_seconds), type(event).__name__.lower(), groups_of(event))
    match event:
        case Message():
            service = event.service.name.lower()
            return (*head, event.sender, service, event.type, None, _place(event.place), *[None] * 4)
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


def microseconds(seconds: float) -> int:
    """Microseconds since 1970, exactly as the clock was read."""
    return round(seconds * 1_000_000)


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
