"""Records of a spool: single records as programs read them, and runs of records as they are written.

A *run* is a sequence of records that share everything except number, type and body: most often the messages of
one bundle, which also share their place in the order. The writer handles whole runs and never single records.

The body of a view, a transition or a gap is msgpack, so that programs in other languages can read it.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec

from hopring.groups.names import GroupViewId, ViewCause
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service


class RecordKind(IntEnum):
    """The kind of a record, by its number in the file."""

    MESSAGE = 1
    VIEW = 2
    TRANSITION = 3
    GAP = 4  # Records are missing here; the body says what is known about them.


NO_VIEW: Final = ViewId(0, DaemonId(0), Incarnation(0))
NO_PLACE: Final = Place(NO_VIEW, 0, 0)
"""The place of records that have none: Unreliable messages, views, transitions and gaps."""


class GroupStep(NamedTuple):
    """The group view of a record: the daemons' view in which it was made, and its step within that view.

    A negative step means a closing view. The two sides of a split may then share the same step; only the record
    of the view itself has the full id.
    """

    view: ViewId
    step: int


NO_STEP: Final = GroupStep(NO_VIEW, 0)


class RecordHeader(NamedTuple):
    """The fields that all records of a run share."""

    kind: RecordKind
    time_us: int  # Receipt by the spooler: microseconds since 1970, by the clock of its host.
    sender: str = ""  # The sender's private group.
    groups: tuple[str, ...] = ()
    service: Service | None = None  # Only messages have one.
    place: Place = NO_PLACE
    view: GroupStep = NO_STEP


NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class SpoolRecord(NamedTuple):
    """A single record, as `reading.read` returns it."""

    offset: int
    number: int  # Index in its bundle, whose messages share one place.
    type: int
    data: bytes
    header: RecordHeader
    headers: Mapping[str, str] = NO_HEADERS  # Of the message.


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records with a common header, in columns. The bodies begin at `ends[0]`, and `ends` rises."""

    header: RecordHeader
    types: Sequence[int]
    ends: Sequence[int]  # One more than types.
    bodies: bytes | memoryview
    number: int = 0  # Index of the first record in its bundle.
    # The headers of each message as an envelope (wire/envelope.py), or none at all.
    envelopes: Sequence[bytes] = ()

    def __len__(self) -> int:
        return len(self.types)


def run_of(
    header: RecordHeader,
    bodies: Sequence[bytes],
    types: Sequence[int] | None = None,
    envelopes: Sequence[bytes] = (),
) -> RecordRun:
    """A run with these bodies; without types, each type is 0."""
    assert types is None or len(types) == len(bodies), "one type for each body"
    ends = list(accumulate(map(len, bodies), initial=0))
    assert not envelopes or len(envelopes) == len(bodies), "one envelope for each body, empty ones included"
    column = array("H", bytes(2 * len(bodies))) if types is None else types
    return RecordRun(header, column, ends, b"".join(bodies), envelopes=envelopes)


class RecordedMember(msgspec.Struct, frozen=True, array_like=True):
    """A member of a group, as views and transitions list it."""

    daemon: str
    name: str
    incarnation: int
    session: int


class RecordedView(msgspec.Struct, frozen=True):
    """Body of a VIEW record: the full id of the view and the members from here on."""

    id: GroupViewId
    members: tuple[RecordedMember, ...]
    together: tuple[int, ...]  # Indexes of the members that come from the same view as the spooler.
    cause: ViewCause
    who: RecordedMember | None
    sets: tuple[tuple[int, ...], ...]
    primary: bool = False  # False too in spools of before there were primary views.


class RecordedTransition(msgspec.Struct, frozen=True):
    """Body of a TRANSITION record: the view is closing, and its promises hold among these members only."""

    id: GroupViewId
    members: tuple[RecordedMember, ...]


class RecordedGap(msgspec.Struct, frozen=True):
    """Body of a GAP record: records are missing here."""

    reason: str
    from_us: int  # By the clock of the spooler's host.
    to_us: int
    messages: int | None = None  # The number of missing messages, if it is known.
    last: Place | None = None  # The place of the last message before the gap.


Body = TypeVar("Body", RecordedView, RecordedTransition, RecordedGap)


def encode_body(body: RecordedView | RecordedTransition | RecordedGap) -> bytes:
    """A body as the data of its record."""
    return msgspec.msgpack.encode(body)


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """The body that the data of a record encodes."""
    return msgspec.msgpack.decode(data, type=kind)
