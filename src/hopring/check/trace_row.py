"""One row of the trace: the same columns for every kind of event."""

import msgspec

from hopring.check.trace import Counters, Ord
from hopring.check.trace_names import read_view, some, view_text


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
    """A stamp."""
    return {
        "ord_lts": ord.lts,
        "ord_site": ord.site,
        "ord_view": view_text(ord.view),
        "ord_place": ord.place,
    }


def read_ord(row: TraceRow) -> Ord:
    """The stamp in a row."""
    return Ord(some(row.ord_lts), some(row.ord_site), read_view(row.ord_view), some(row.ord_place))
