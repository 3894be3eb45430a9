"""Records: what a spool holds, one by one as programs read them, and in runs as they are written.

A *run* is records that share all but type and body: most often the messages of one bundle, which also share
their place in the order. Runs are the unit of the hot path; nobody touches a record of a run singly.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

import msgspec

from hopring.groups.names import GroupViewId, ViewCause
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service


class RecordKind(IntEnum):
    """What a record is; the number is the one in the file. The bodies of all but messages are below."""

    MESSAGE = 1
    VIEW = 2
    TRANSITION = 3
    GAP = 4  # Something is missing here, and the body says what is known of it.


NO_VIEW: Final = ViewId(0, DaemonId(0), Incarnation(0))
NO_PLACE: Final = Place(NO_VIEW, 0, 0)
"""Of records that have none: Unreliable messages, and all that is no message."""


class GroupStep(NamedTuple):
    """The group's view that a record is in: the daemons' view in which it was made, and the step in that.

    A negative step is one of a closing view. Views of the sides of a split may then share it: the record of
    the view has the whole id.
    """

    view: ViewId
    step: int


NO_STEP: Final = GroupStep(NO_VIEW, 0)


class RecordHeader(NamedTuple):
    """What all records of a run share."""

    kind: RecordKind
    time_us: int  # When the spooler received it; microseconds since 1970, by the clock of its host.
    sender: str = ""  # The sender's private group.
    groups: tuple[str, ...] = ()
    service: Service | None = None  # None if it is no message.
    place: Place = NO_PLACE
    view: GroupStep = NO_STEP


class SpoolRecord(NamedTuple):
    """One record as a program reads it."""

    offset: int
    number: int  # Among the messages of its bundle, which have one place.
    type: int
    data: bytes
    header: RecordHeader


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records that share their header, in columns; ends rise from `ends[0]`, where the bodies begin, on."""

    header: RecordHeader
    types: Sequence[int]
    ends: Sequence[int]  # One more than types.
    bodies: bytes | memoryview
    number: int = 0  # Of its first record, in its bundle.

    def __len__(self) -> int:
        return len(self.types)


def run_of(header: RecordHeader, bodies: Sequence[bytes], types: Sequence[int] | None = None) -> RecordRun:
    """A run of these bodies."""
    assert types is None or len(types) == len(bodies), "one type for each body"
    ends = list(accumulate(map(len, bodies), initial=0))
    return RecordRun(
        header, array("H", bytes(2 * len(bodies))) if types is None else types, ends, b"".join(bodies)
    )


class RecordedMember(msgspec.Struct, frozen=True, array_like=True):
    """A session in a group."""

    daemon: str
    name: str
    incarnation: int
    session: int


class RecordedView(msgspec.Struct, frozen=True):
    """VIEW: who is in the group from here on, with the whole id of the view."""

    id: GroupViewId
    members: tuple[RecordedMember, ...]
    together: tuple[int, ...]  # Places in `members`: those who come from the same view as the spooler.
    cause: ViewCause
    who: RecordedMember | None
    sets: tuple[tuple[int, ...], ...]


class RecordedTransition(msgspec.Struct, frozen=True):
    """TRANSITION: the view is closing; what follows is promised among these members."""

    id: GroupViewId
    members: tuple[RecordedMember, ...]


class RecordedGap(msgspec.Struct, frozen=True):
    """GAP: records are missing here."""

    reason: str
    from_us: int  # Of the clock of the spooler's host.
    to_us: int
    messages: int | None = None  # How many are missing, where that is known.
    last: Place | None = None  # Of the last message before.


Body = TypeVar("Body", RecordedView, RecordedTransition, RecordedGap)


def encode_body(body: RecordedView | RecordedTransition | RecordedGap) -> bytes:
    """The data of a record."""
    return msgspec.msgpack.encode(body)


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """What the data of a record says."""
    return msgspec.msgpack.decode(data, type=kind)
