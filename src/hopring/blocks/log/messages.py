"""Messages of a replicated log, which its members multicast to their group.

All but operations belong to one view of the group, whose name they carry: in another view they have no meaning.

Invariants  `decode_message` returns None for anything that is no message of a log.
"""

from typing import Final

import msgspec

TABLE_MAX: Final = 1000
"""A member tells about this many of its last epochs; what is older is replaced by a snapshot."""


class Tell(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """A member's report at the beginning of a view: what its disk has."""

    round: str
    name: str  # Of the configured members; empty for a follower, which has no vote.
    members: tuple[str, ...]
    log_id: str
    votes: bool
    promised: int
    base: int  # The index of its snapshot.
    end: int  # The index of its last entry.
    table: tuple[tuple[int, int], ...]  # Epochs and the index of their first entry, from the base on.


class EpochPromise(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The sender will take nothing of an earlier epoch any more; that is on its disk."""

    round: str
    epoch: int


class FillEntries(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Entries that some members lack, from the member whose log was chosen."""

    round: str
    start: int  # The index of the first one.
    entries: tuple[tuple[int, bytes], ...]


class FillSnapshot(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """A part of the chosen member's snapshot, for members that lack entries which it replaced."""

    round: str
    index: int  # Of the last entry that the snapshot covers.
    epoch: int
    part: int  # From 0.
    last: bool
    data: bytes


class Synced(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """All entries up to this index are on the sender's disk."""

    round: str
    epoch: int
    end: int


class Operation(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """An operation of a writer. Entries of the log have it as it was sent."""

    writer: str
    number: int  # Rises by one; a writer's operations are applied in this order.
    settled: int  # The writer knows what became of all operations up to this number.
    data: bytes
    at: int = -1  # Applied only if the list has this length; -1: in any case.


class Aside(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """What programs of the members tell each other in a view; the log ignores it."""

    round: str
    data: bytes


LogMessage = Tell | EpochPromise | FillEntries | FillSnapshot | Synced | Operation | Aside

_messages: Final = msgspec.msgpack.Decoder(LogMessage)
_operations: Final = msgspec.msgpack.Decoder(Operation)


def encode_message(message: LogMessage) -> bytes:
    """The body of a message to the group."""
    return msgspec.msgpack.encode(message)


def decode_message(data: bytes) -> LogMessage | None:
    """The message in a body; None if it is none of a log."""
    try:
        message: LogMessage = _messages.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None
    return message


def decode_operation(data: bytes) -> Operation | None:
    """The operation of an entry; None if it is none, as the entry that begins an epoch."""
    try:
        return _operations.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None
