"""Messages between the members of the service, its clients and the local groups, inside of one cluster.

Invariants  `decode_` functions return None for anything else: whoever may send to a group may send nonsense.

The members' group carries messages of their log; those that are too long for one message go in parts. Answers
go to the private group of a client, items of sets to the local groups.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from hopring.blocks.log.messages import LogMessage, decode_message, encode_message
from hopring.haul.entries import Answer
from hopring.haul.ids import ClusterId, ClusterMask
from hopring.haul.order.events import CastKind

SERVICE_SESSION: Final = "wide:"
"""Sessions of members have names with this beginning; they do not count as members of a local group."""

QUERY_GROUP: Final = "hopring.wide.query"
"""Requests about status, and what a member is asked that needs no log, go to the servers of this group."""

DATA_BYTES_MAX: Final = 128 * 1024
"""The longest message of a client; what is longer does not fit into the messages of a daemon."""

PART_BYTES: Final = 96 * 1024
PARTS_MAX: Final = 256


class ClientAnswer(msgspec.Struct, frozen=True, array_like=True, tag="wa"):
    """The answer to one request of a client."""

    client: str
    number: int
    answer: Answer


class CastBody(msgspec.Struct, frozen=True, array_like=True, tag="wb"):
    """The body of a parcel: a client's message and the name of its session."""

    sender: str
    data: bytes
    call: str = ""  # The name of the call that it makes.


class HandedFile(msgspec.Struct, frozen=True, array_like=True, tag="wf"):
    """The file of an item: where it is, or, of one that all have, what its sender called it."""

    size_bytes: int
    digest: bytes  # SHA-256.
    path: str = ""  # On the host of the member that has handed it over.
    host: str = ""
    source: str = ""


class HandedItem(msgspec.Struct, frozen=True, array_like=True, tag="wh"):
    """An item of a set for its local group: a parcel, or that all destinations have a parcel."""

    set: str
    number: int  # The delivery number.
    rewinds: int
    cluster: ClusterId  # That has sent the parcel.
    parcel: int
    everywhere: bool
    participants: ClusterMask = ClusterMask(0)
    talk: str = ""
    kind: CastKind = CastKind.CBCAST
    destinations: ClusterMask = ClusterMask(0)
    entry: int = 0
    order: int = 0
    body: bytes = b""
    file: HandedFile | None = None


class MessagePart(msgspec.Struct, frozen=True, array_like=True, tag="wp"):
    """A part of a message to the members' group that is too long for one."""

    message: int  # Rises with each message of the sender that is cut.
    part: int
    parts: int
    data: bytes


_answers: Final = msgspec.msgpack.Decoder(ClientAnswer)
_bodies: Final = msgspec.msgpack.Decoder(CastBody)
_items: Final = msgspec.msgpack.Decoder(HandedItem)
_parts: Final = msgspec.msgpack.Decoder(MessagePart)


def encode(message: ClientAnswer | CastBody | HandedItem) -> bytes:
    """The bytes of a message."""
    return msgspec.msgpack.encode(message)


def decode_answer(data: bytes) -> ClientAnswer | None:
    """The answer in a message; None if there is none."""
    try:
        return _answers.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None


def decode_body(data: bytes) -> CastBody:
    """The body of a parcel; bytes that are none have no sender."""
    try:
        return _bodies.decode(data)
    except (msgspec.DecodeError, ValueError):
        return CastBody("", data)


def decode_item(data: bytes) -> HandedItem | None:
    """The item in a message; None if there is none."""
    try:
        return _items.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None


@dataclass(slots=True)
class MessageCutter:
    """Cuts messages to the members' group that are too long."""

    count: int = 0

    def cut(self, message: LogMessage) -> list[bytes]:
        """The message as one or several bodies."""
        data = encode_message(message)
        if len(data) <= PART_BYTES:
            return [data]
        self.count += 1
        pieces = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        assert len(pieces) <= PARTS_MAX, "limits of frames keep messages below it"
        parts = [MessagePart(self.count, at, len(pieces), piece) for at, piece in enumerate(pieces)]
        return [msgspec.msgpack.encode(one) for one in parts]


@dataclass(slots=True)
class MessageJoiner:
    """Joins parts: all members of a view come to the same messages, because they see the same parts."""

    _open: dict[str, list[MessagePart]] = field(default_factory=dict)  # By sender.

    def clear(self) -> None:
        """Another view begins: who has come with it has not seen the parts so far."""
        self._open.clear()

    def take(self, sender: str, data: bytes) -> LogMessage | None:
        """The message that is complete with this body; None if there is none."""
        message = decode_message(data)
        if message is not None:
            return message
        try:
            part = _parts.decode(data)
        except (msgspec.DecodeError, ValueError):
            return None
        return self._joined(sender, part)

    def _joined(self, sender: str, part: MessagePart) -> LogMessage | None:
        had = self._open.pop(sender, [])
        if part.part != len(had) or not part.part < part.parts <= PARTS_MAX or len(part.data) > PART_BYTES:
            return None
        if had and (had[0].message, had[0].parts) != (part.message, part.parts):
            return None
        had.append(part)
        if len(had) == part.parts:
            return decode_message(b"".join([one.data for one in had]))
        self._open[sender] = had
        return None
