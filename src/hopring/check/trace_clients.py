"""The events of clients as rows: a row with a group, or with groups, or of a kind that only sessions have."""

from typing import Any, Final

from hopring.check.trace import (
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    MessageId,
)
from hopring.check.trace_row import (
    TraceRow,
    group_view_text,
    message_text,
    ord_columns,
    process_text,
    process_texts,
    read_group_view,
    read_message_id,
    read_ord,
    read_process,
    read_processes,
    some,
)
from hopring.services import Service

KINDS: Final = ("connect", "join", "leave", "disconnect", "left", "gone")
"""Those that daemons do not have."""


def is_of_client(row: TraceRow) -> bool:
    """Whether a session did this."""
    return bool(row.group) or row.groups is not None or row.kind in KINDS


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
            return "send", {**_message_columns(event), **more}
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
            return ClientSent(process, at_us, *_read_message(row), some(row.size), discards)
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
