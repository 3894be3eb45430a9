"""One row of the trace, with the same columns for every kind of event; and the names in it.

Names of processes, views and messages are text that sorts as their ids do.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeVar

import msgspec

from hopring.check.trace import Counters, GroupViewName, MessageId, Ord, ProcessName, ViewName

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
    wall_us: int | None = None  # When a daemon began, by the clock on the wall.


LATER = ("peer", "groups", "self_discard", "name", "wall_us")
"""Columns that older files of this schema do not have."""

COUNTS = Counters.__struct_fields__[2:-1]
"""All but whose and when, and the peer, which old files do not have."""


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
    """The daemons' view, the way from there, and the step; `-` sorts before `/`, as no way does before any."""
    way = "".join([f"/{view_text(one)}" for one in view.path])
    return f"{view_text(view.view)}{way}-{view.step:08x}"


@lru_cache(NAMES_CACHED_MAX)
def read_group_view(text: str | None) -> GroupViewName:
    """The view of a group with this name."""
    way, _dash, step = some(text).rpartition("-")
    view, *path = way.split("/")
    return GroupViewName(read_view(view), tuple([read_view(one) for one in path]), int(step, 16))


def message_text(message: MessageId) -> str:
    """Its sender and its number."""
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
