"""The bodies of records that are no messages: msgpack, so that a program of another language reads them too.

The values here are read by msgspec at run time, so this file is not compiled.
"""

from typing import TypeVar

import msgspec

from hopring.groups.names import GroupViewId, ViewCause
from hopring.session.place import Place


class MemberBody(msgspec.Struct, frozen=True, array_like=True):
    """A session in a group."""

    daemon: str
    name: str
    incarnation: int
    session: int


class ViewBody(msgspec.Struct, frozen=True):
    """VIEW: who is in the group from here on, with the whole id of the view."""

    id: GroupViewId
    members: tuple[MemberBody, ...]
    together: tuple[int, ...]  # Places in `members`: those who come from the same view as the spooler.
    cause: ViewCause
    who: MemberBody | None
    sets: tuple[tuple[int, ...], ...]


class TransitionBody(msgspec.Struct, frozen=True):
    """TRANSITION: the view is closing; what follows is promised among these members."""

    id: GroupViewId
    members: tuple[MemberBody, ...]


class GapBody(msgspec.Struct, frozen=True):
    """GAP: records are missing here."""

    reason: str
    from_us: int  # Of the clock of the spooler's host.
    to_us: int
    messages: int | None = None  # How many are missing, where that is known.
    last: Place | None = None  # Of the last message before.


Body = TypeVar("Body", ViewBody, TransitionBody, GapBody)


def encode_body(body: ViewBody | TransitionBody | GapBody) -> bytes:
    """The data of a record."""
    return msgspec.msgpack.encode(body)


def decode_body(data: bytes, kind: type[Body]) -> Body:
    """What the data of a record says."""
    return msgspec.msgpack.decode(data, type=kind)
