"""One row of the trace, with the same columns for every kind of event; the names in it; rows of client events.

Names of processes, views and messages are text that sorts as their ids do. An event of a client is a row with a
group, with groups, or of a kind that only sessions have.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from hopring.check.trace import (
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Counters,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    GroupViewName,
    MessageId,
    Ord,
    ProcessName,
    ViewName,
)
from hopring.services import Service

NAMES_CACHED_MAX = 4096

T = TypeVar("T")


class TraceRow(msgspec.Struct, frozen=True, omit_defaults=True):
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
    groups: list[str] | None = None
    self_discard: int | None = None  # 1 or 0.
    name: str | None = None
    wall_us: int | None = None  # The wall clock at the start of a daemon.
    primary: str | None = None  # Why a view of daemons is primary; empty if it is not.
    resilience: int | None = None  # Of a message that has one.
    withheld: int | None = None  # 1 if a message was passed over for want of a primary view.
    fields: str | None = None  # Of an event of a block, as JSON.


LATER = ("peer", "groups", "self_discard", "name", "wall_us", "primary", "resilience", "withheld", "fields")
"""Columns that older files of this schema do not have."""

COUNTS = Counters.__struct_fields__[2:-1]
"""The fields of Counters except process, time and peer; old files do not have the peer."""


def ord_columns(ord: Ord) -> dict[str, object]:
    """The columns of a stamp."""
    return {
        "ord_lts": ord.lts,
        "ord_site": ord.site,
        "ord_view": view_text(ord.view),
        "ord_place": ord.place,
    }


def read_ord(row: TraceRow) -> Ord:
    """The stamp in a row."""
    return Ord(some(row.ord_lts), some(row.ord_site), read_view(row.ord_view), some(row.ord_place))


@lru_cache(NAMES_CACHED_MAX)
def process_text(process: ProcessName) -> str:
    """The process as text, as in `a#0000000000000001/0`."""
    return f"{process.daemon}#{process.incarnation:016x}/{process.session}"


@lru_cache(NAMES_CACHED_MAX)
def read_process(text: str) -> ProcessName:
    """The process that this text names."""
    start, _slash, session = text.rpartition("/")
    daemon, _sharp, incarnation = start.rpartition("#")
    return ProcessName(daemon, int(incarnation, 16), int(session))


def process_texts(processes: Iterable[ProcessName]) -> list[str]:
    """The processes as texts, in their order."""
    return [process_text(process) for process in processes]


def read_processes(texts: list[str] | None) -> tuple[ProcessName, ...]:
    """The processes of these names."""
    return tuple(read_process(text) for text in some(texts))


@lru_cache(NAMES_CACHED_MAX)
def view_text(view: ViewName) -> str:
    """The view as text of fixed width."""
    return f"{view.counter:016x}.{view.representative:04x}.{view.nonce:016x}"


@lru_cache(NAMES_CACHED_MAX)
def read_view(text: str | None) -> ViewName:
    """The view of daemons with this name."""
    counter, representative, nonce = (int(part, 16) for part in some(text).split("."))
    return ViewName(counter, representative, nonce)


@lru_cache(NAMES_CACHED_MAX)
def group_view_text(view: GroupViewName) -> str:
    """The daemons' view, the path from there, and the step; `-` sorts before `/`, as an empty path does."""
    way = "".join([f"/{view_text(one)}" for one in view.path])
    return f"{view_text(view.view)}{way}-{view.step:08x}"


@lru_cache(NAMES_CACHED_MAX)
def read_group_view(text: str | None) -> GroupViewName:
    """The view of a group with this name."""
    way, _dash, step = some(text).rpartition("-")
    view, *path = way.split("/")
    return GroupViewName(read_view(view), tuple([read_view(one) for one in path]), int(step, 16))


def message_text(message: MessageId) -> str:
    """The message as text: its sender and its number."""
    return f"{process_text(message.sender)}:{message.number}"


def read_message_id(text: str | None) -> MessageId:
    """The message of this name."""
    sender, _colon, number = some(text).rpartition(":")
    daemon, incarnation, session = read_process(sender)
    return MessageId(daemon, incarnation, int(number), session)


def some(value: T | None) -> T:
    """The value of a column that a kind of event needs."""
    if value is None:
        raise ValueError("a column that it needs is empty")
    return value


SESSION_KINDS: Final = ("connect", "join", "leave", "disconnect", "left", "gone")
"""The kinds of events that only sessions have."""


def is_of_client(row: TraceRow) -> bool:
    """Whether the row is an event of a session."""
    return bool(row.group) or row.groups is not None or row.kind in SESSION_KINDS


def client_columns(event: ClientEvent) -> tuple[str, dict[str, Any]]:
    """The kind of an event and the columns that are its own."""
    match event:
        case ClientConnected(_, _, name, private_group):
            return "connect", {"name": name, "groups": [private_group]}
        case AsksJoin(_, _, group):
            return "join", {"group": group}
        case AsksLeave(_, _, group):
            return "leave", {"group": group}
        case AsksEnd():
            return "disconnect", {}
        case GroupLeft(_, _, group):
            return "left", {"group": group}
        case Gone():
            return "gone", {}
        case GroupInstalled(_, _, group, view, members, together, cause):
            sets = {"members": process_texts(members), "transitional_set": process_texts(together)}
            return "view", {"group": group, "view": group_view_text(view), "cause": cause, **sets}
        case GroupSignal(_, _, group, view, together):
            columns = {"view": group_view_text(view), "transitional_set": process_texts(together)}
            return "transitional", {"group": group, **columns}
        case ClientSent():
            more = {"size": event.size, "self_discard": int(event.self_discard)}
            resilience = {"resilience": event.resilience} if event.resilience else {}
            return "send", {**_message_columns(event), **more, **resilience}
        case ClientDelivered():
            return "deliver", {**_message_columns(event), **ord_columns(event.ord)}


def _message_columns(event: ClientSent | ClientDelivered) -> dict[str, Any]:
    return {
        "groups": list(event.groups),
        "message": message_text(event.message),
        "sender": process_text(event.message.sender),
        "service": event.service.name.lower(),
    }


def read_client_event(row: TraceRow) -> ClientEvent:
    """The event of a row."""
    process, at_us = read_process(row.process), row.time_us
    match row.kind:
        case "connect":
            (private_group,) = some(row.groups)
            return ClientConnected(process, at_us, some(row.name), private_group)
        case "disconnect":
            return AsksEnd(process, at_us)
        case "gone":
            return Gone(process, at_us)
        case "send":
            discards = bool(some(row.self_discard))
            parts = process, at_us, *_read_message(row), some(row.size), discards
            return ClientSent(*parts, row.resilience or 0)
        case "deliver":
            return ClientDelivered(process, at_us, *_read_message(row), read_ord(row))
        case _:
            return _read_group_event(row)


def _read_group_event(row: TraceRow) -> ClientEvent:
    process, at_us = read_process(row.process), row.time_us
    if not row.group:
        raise ValueError("it names no group")
    match row.kind:
        case "join":
            return AsksJoin(process, at_us, row.group)
        case "leave":
            return AsksLeave(process, at_us, row.group)
        case "left":
            return GroupLeft(process, at_us, row.group)
        case "view":
            sets = read_processes(row.members), read_processes(row.transitional_set)
            return GroupInstalled(process, at_us, row.group, read_group_view(row.view), *sets, row.cause or "")
        case "transitional":
            together = read_processes(row.transitional_set)
            return GroupSignal(process, at_us, row.group, read_group_view(row.view), together)
        case _:
            raise ValueError("unknown kind")


def _read_message(row: TraceRow) -> tuple[tuple[str, ...], MessageId, Service]:
    return tuple(some(row.groups)), read_message_id(row.message), Service[some(row.service).upper()]
