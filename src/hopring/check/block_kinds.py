"""The table of blocks whose records are judged, and their events as rows of a trace.

A row of a record has a kind of its own, and the fields of its event as JSON text in the column `fields`. States
are written as fingerprints: whole states would make a record grow with the square of its length.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, get_type_hints

import msgspec

from hopring.check.block_record import BlockInstance, BlockRecord
from hopring.check.calls import (
    CALL_PROPERTIES,
    CallMade,
    CallOver,
    ReplySent,
    ReplyTaken,
    RequestDelivered,
    RequestDone,
)
from hopring.check.kept_values import (
    KEPT_VALUE_PROPERTIES,
    TimedShown,
    TimeEnded,
    ValueAtEnd,
    ValueAtJoin,
    ValueAtView,
    ValueSeen,
)
from hopring.check.locks import LOCK_PROPERTIES, LockAwaited, LockGone, LockTaken
from hopring.check.minimum import (
    MINIMUM_PROPERTIES,
    MinimumSignal,
    MinimumView,
    OrderedShown,
    SenderWaits,
)
from hopring.check.rmp.ring_block import RING_KINDS, RING_PROPERTIES
from hopring.check.rmp.ring_tables import RING_TABLES
from hopring.check.state import (
    STATE_PROPERTIES,
    BecameReady,
    OperationApplied,
    RoundBegan,
    Spoke,
    StateAtEnd,
    fingerprint,
)
from hopring.check.trace import BlockNoted, Event, ProcessName
from hopring.check.trace_files import TraceError
from hopring.check.trace_row import process_text
from hopring.check.view_synchrony import (
    FLUSH_PROPERTIES,
    FLUSH_TABLES,
    AgreementSent,
    FlushAgreed,
    FlushAsked,
    MembersAtEnd,
    SentInView,
    ShownInView,
    StayBegan,
    StayEnded,
    SynchronousView,
)
from hopring.services import Service


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One block: its events by kind, its properties, and the tables that their queries ask."""

    name: str
    table: str  # Of its events, in queries.
    kinds: Mapping[str, type]
    properties: Sequence[BlockInstance]
    tables: Mapping[str, str]  # More of them, made of the first.


BLOCKS: Final = (
    Block(
        "locks",
        "locks",
        {"lock_taken": LockTaken, "lock_gone": LockGone, "lock_awaited": LockAwaited},
        LOCK_PROPERTIES,
        {},
    ),
    Block(
        "calls",
        "calls",
        {
            **{"call_made": CallMade, "request_delivered": RequestDelivered, "request_done": RequestDone},
            **{"reply_sent": ReplySent, "reply_taken": ReplyTaken, "call_over": CallOver},
        },
        CALL_PROPERTIES,
        {},
    ),
    Block(
        "view synchrony",
        "flush",
        {
            **{"stay_began": StayBegan, "stay_ended": StayEnded, "view_shown": SynchronousView},
            **{"flush_asked": FlushAsked, "flush_agreed": FlushAgreed, "agreement_sent": AgreementSent},
            **{"sent_in_view": SentInView, "shown_in_view": ShownInView, "members_at_end": MembersAtEnd},
        },
        FLUSH_PROPERTIES,
        FLUSH_TABLES,
    ),
    Block(
        "state",
        "states",
        {
            **{"round_began": RoundBegan, "spoke": Spoke, "became_ready": BecameReady},
            **{"operation_applied": OperationApplied, "state_at_end": StateAtEnd},
        },
        STATE_PROPERTIES,
        {},
    ),
    Block(
        "minimum",
        "minimum",
        {
            **{"minimum_view": MinimumView, "minimum_signal": MinimumSignal},
            **{"ordered_shown": OrderedShown, "sender_waits": SenderWaits},
        },
        MINIMUM_PROPERTIES,
        {},
    ),
    Block(
        "values",
        "values",
        {
            **{"time_ended": TimeEnded, "timed_shown": TimedShown, "value_at_view": ValueAtView},
            **{"value_seen": ValueSeen, "value_at_join": ValueAtJoin, "value_at_end": ValueAtEnd},
        },
        KEPT_VALUE_PROPERTIES,
        {},
    ),
    Block("rings", "rings", RING_KINDS, RING_PROPERTIES, RING_TABLES),
)
BLOCK_PROPERTIES: Final = tuple([one for block in BLOCKS for one in block.properties])
BLOCK_OF: Final = {kind: block for block in BLOCKS for kind in block.kinds}
"""By kind of event: its block."""

_KIND_OF: Final = {made: kind for block in BLOCKS for kind, made in block.kinds.items()}

_TIME: Final = "at_us"  # Has a column of its own.


def noted(record: ProcessName, event: Any) -> BlockNoted:
    """The event as one of this record in a trace."""
    # Events of rings are structs, all others dataclasses.
    struct = getattr(type(event), "__struct_fields__", None)
    names = [one.name for one in fields(event)] if struct is None else struct
    written = {name: getattr(event, name) for name in names if name != _TIME}
    if isinstance(written.get("state"), tuple):
        written["state"] = fingerprint(written["state"])
    return BlockNoted(record, event.at_us, _KIND_OF[type(event)], msgspec.json.encode(written).decode())


def noted_all(records: Mapping[str, Iterable[object]]) -> Iterator[BlockNoted]:
    """The events of records, by names of these."""
    for name, events in records.items():
        process = ProcessName(name, 1)
        for event in events:
            yield noted(process, event)


def event_of(note: BlockNoted) -> object:
    """The event in a row; TraceError if its fields are not those of its kind."""
    made = BLOCK_OF[note.kind].kinds[note.kind]
    try:
        found = msgspec.json.decode(note.fields, type=dict[str, Any])
        event: object = msgspec.convert(found | {_TIME: note.at_us}, made)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise TraceError(f"fields of {note.kind} {note.fields!r} cannot be read: {error}") from error
    return event


def records_of(events: Iterable[Event], quiet_end: bool) -> list[tuple[Block, BlockRecord]]:
    """The records among the events of a history; TraceError if one has events of several blocks."""
    found: dict[ProcessName, list[BlockNoted]] = {}
    for event in events:
        if isinstance(event, BlockNoted):
            found.setdefault(event.process, []).append(event)
    records = []
    for process, notes in found.items():
        block = BLOCK_OF[notes[0].kind]
        name = process_text(process)
        if any(BLOCK_OF[note.kind] is not block for note in notes):
            raise TraceError(f"the record {name} has events of several blocks")
        records.append((block, BlockRecord([event_of(note) for note in notes], quiet_end, name)))
    return records


_SQL: Final[dict[object, str]] = {
    **{str: "STRING", int: "BIGINT", Service: "BIGINT", bool: "BOOLEAN", tuple[str, ...]: "ARRAY<STRING>"},
    **{tuple[int, ...]: "ARRAY<BIGINT>", tuple[tuple[str, str], ...]: "ARRAY<ARRAY<STRING>>"},
}


def columns_of(block: Block) -> dict[str, str]:
    """The fields of all events of a block, with their SQL types; states are text."""
    found: dict[str, str] = {}
    for made in block.kinds.values():
        for name, kind in get_type_hints(made).items():
            found[name] = _SQL.get(kind, "STRING")
    del found[_TIME]
    return found
