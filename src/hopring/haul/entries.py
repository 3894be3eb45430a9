"""Entries of the log of a cluster's members: requests of clients, what connections brought, and what was done.

Implements  Makpangou and Birman, 5.1: requests, receipts and acknowledgements go to all members in one order.
Below       a replicated log (blocks/log), whose operations these are.
Above       the application manager, which changes by them alone.
Invariants  `decode_entry` returns None for anything that is no entry, and for one that is above a limit.
"""

from typing import Final

import msgspec

from hopring.haul.calls import CALL_NAME_BYTES_MAX
from hopring.haul.ids import SET_NAME_BYTES_MAX, TALK_NAME_BYTES_MAX, ClusterId, ClusterMask, ParcelId
from hopring.haul.link.frames import (
    BODY_BYTES_MAX,
    CHUNK_BYTES_MAX,
    DIGEST_BYTES,
    LinkGeneration,
    SetReceived,
    WideFile,
)
from hopring.haul.order.events import CastKind
from hopring.haul.stored.shelf import FileKey

CLIENT_NAME_BYTES_MAX: Final = 128
SOURCE_BYTES_MAX: Final = 1_024
"""What a sender calls the file that it sends."""


class CastRequest(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """A client sends a parcel to the participants of a talk, or to one of them."""

    client: str
    number: int  # Of the client's requests; rises by one.
    known: int  # The client has the answers to all requests up to this number.
    set: str
    participants: ClusterMask
    name: str  # Of the talk.
    kind: CastKind
    entry: int
    to: ClusterId  # 0: to all participants.
    body: bytes
    notify: bool  # Whether the group here is told when all destinations have it.
    file: WideFile | None = None  # Comes with the parcel; it has been brought before, and is whole.
    source: str = ""  # Told with the completion: what the sender calls the file.
    call: str = ""  # The name of a call that this makes; one that is open is not made again.
    answers: int = 0  # The parcel of the cluster `to` that this answers; 0 for none.


class FilePieceRequest(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """A client brings a piece of a file; one without data asks how much of the file is here."""

    client: str
    number: int
    known: int
    digest: bytes  # SHA-256 of the whole file.
    size_bytes: int  # Of the whole file.
    offset: int
    data: bytes


class SetJoinRequest(msgspec.Struct, frozen=True, array_like=True, tag="j"):
    """A client names the local group that gets the parcels of a set; makes the set if it is new."""

    client: str
    number: int
    known: int
    set: str
    group: str
    clusters: ClusterMask
    durable: str = ""  # A consumer of this name gets everything from its last `DoneRequest` on.


class DoneRequest(msgspec.Struct, frozen=True, array_like=True, tag="n"):
    """A durable consumer has done with everything up to a delivery number, or ends."""

    client: str
    number: int
    known: int
    set: str
    durable: str
    up_to: int
    leaves: bool = False


class CallDoneRequest(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """A client has done with a call: its answer is not kept any more."""

    client: str
    number: int
    known: int
    set: str
    call: str


class SwitchRequest(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """A client switches a link on or off, or has it drained: off when all that waits now is there."""

    client: str
    number: int
    known: int
    peer: ClusterId
    on: bool
    drain: bool = False  # With `on` false.


class LinkOpened(msgspec.Struct, frozen=True, array_like=True, tag="u"):
    """A member has greeted a peer on a connection."""

    peer: ClusterId
    dialer: ClusterId
    generation: LinkGeneration
    member: str
    incarnation: int  # Of the peer's state.
    received: tuple[SetReceived, ...]  # What the peer has of the frames of this cluster.


class LinkClosed(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """The connection to a peer has ended."""

    peer: ClusterId
    dialer: ClusterId
    generation: LinkGeneration


class FramesReceived(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """Frames that a connection has brought, in their order."""

    peer: ClusterId
    dialer: ClusterId
    generation: LinkGeneration
    frames: tuple[bytes, ...]


class HandedOver(msgspec.Struct, frozen=True, array_like=True, tag="h"):
    """The group of a set has got everything up to this delivery number."""

    set: str
    number: int
    rewinds: int = 0  # Since when: a durable consumer that came later has not.


class MembersServing(msgspec.Struct, frozen=True, array_like=True, tag="m"):
    """The members that serve in an epoch of the log: they share out what there is to do."""

    epoch: int
    members: tuple[str, ...]


class FileVerified(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """A member has compared the content of a complete file with its digest."""

    key: FileKey
    fits: bool


class TimePassed(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """Nothing but the time of the entry."""


EntryBody = (
    CastRequest
    | SetJoinRequest
    | DoneRequest
    | SwitchRequest
    | LinkOpened
    | LinkClosed
    | FramesReceived
    | HandedOver
    | MembersServing
    | TimePassed
    | FilePieceRequest
    | FileVerified
    | CallDoneRequest
)
ClientRequest = CastRequest | SetJoinRequest | DoneRequest | SwitchRequest | FilePieceRequest | CallDoneRequest


class WideEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry with the time of the state as its sender has it; of clients it does not count."""

    at_us: int
    body: EntryBody


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """A request is accepted: it is on the disks of a majority, and is carried out whatever happens."""

    parcel: ParcelId | None = None
    done: int = 0  # To a durable consumer that joins: it gets what is behind this delivery number,
    rewinds: int = 0  # in items that are handed over with this number of rewinds, or a higher one.


class WideRequestRefused(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """A request is refused for good; nothing was done."""

    kind: str  # The name of the error that the client raises.
    reason: str


class FileTaken(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """So much of a file is accepted; when it is whole, its content has been compared with its digest."""

    offset: int
    whole: bool


Answer = Accepted | WideRequestRefused | FileTaken

_entries: Final = msgspec.msgpack.Decoder(WideEntry)


def encode_entry(entry: WideEntry) -> bytes:
    """The bytes of an entry in the log."""
    return msgspec.msgpack.encode(entry)


def decode_entry(data: bytes) -> WideEntry | None:
    """The entry in these bytes; None if there is none."""
    try:
        entry = _entries.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None
    return entry if _is_within_limits(entry.body) else None


def _is_within_limits(body: EntryBody) -> bool:
    if not isinstance(body, ClientRequest):
        return True
    if len(body.client.encode()) > CLIENT_NAME_BYTES_MAX or body.number < 1:
        return False
    if isinstance(body, SwitchRequest):
        return True
    if isinstance(body, FilePieceRequest):
        return len(body.digest) == DIGEST_BYTES and len(body.data) <= CHUNK_BYTES_MAX
    if not 0 < len(body.set.encode()) <= SET_NAME_BYTES_MAX:
        return False
    if isinstance(body, CastRequest):
        fits = body.file is None or len(body.file.digest) == DIGEST_BYTES
        fits = fits and len(body.source.encode()) <= SOURCE_BYTES_MAX and body.answers >= 0
        fits = fits and len(body.call.encode()) <= CALL_NAME_BYTES_MAX
        return fits and len(body.body) <= BODY_BYTES_MAX and len(body.name.encode()) <= TALK_NAME_BYTES_MAX
    return True
