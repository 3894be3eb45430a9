"""Events of a member of the long-haul service, between its session, its disk, its connections and the core."""

from dataclasses import dataclass
from typing import NewType

from hopring.blocks.log.events import (
    LogMessageShown,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.haul.entries import Answer
from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import LinkFrame, ParcelFrame
from hopring.haul.managed_set import LineItem
from hopring.haul.stored.bodies import BodyKey, ForgetBodies, StoreBodies
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece
from hopring.links.events import Tick

ConnectionId = NewType("ConnectionId", int)
"""A connection of one process, from one that dials or from its listener."""

# Inputs.


@dataclass(frozen=True, slots=True)
class Dialed:
    """The connection that a `DialPeer` asked for; None: no access point of the peer answers."""

    peer: ClusterId
    connection: ConnectionId | None


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """Another cluster has connected; its greeting follows."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A frame of a connection, in the order in which they were sent."""

    connection: ConnectionId
    frame: LinkFrame


@dataclass(frozen=True, slots=True)
class PeerConnectionLost:
    """The connection to a peer has ended."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class RepresentativesChanged:
    """Whether a local group has members, as far as this member's side of the network is concerned."""

    group: str
    present: bool


@dataclass(frozen=True, slots=True)
class CopySeen:
    """This member's own copy of what it handed over was delivered; `present`: in a view with a member."""

    set: str
    number: int
    present: bool


@dataclass(frozen=True, slots=True)
class FileChecked:
    """What came of a `CheckFile`: whether the content on this disk has the digest."""

    key: FileKey
    fits: bool


MemberInput = (
    LogViewShown
    | LogSignalShown
    | LogMessageShown
    | LogSessionLost
    | RecordsSynced
    | Dialed
    | PeerConnected
    | FrameArrived
    | PeerConnectionLost
    | RepresentativesChanged
    | CopySeen
    | FileChecked
    | Tick
)

# Outputs, to be carried out in their order.


@dataclass(frozen=True, slots=True)
class DialPeer:
    """Connects to a peer, at one access point after the other; `Dialed` tells what came of it."""

    peer: ClusterId


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Sends a frame to a peer."""

    connection: ConnectionId
    frame: LinkFrame


@dataclass(frozen=True, slots=True)
class EndConnection:
    """Closes a connection when what was sent on it has gone; `PeerConnectionLost` does not follow."""

    connection: ConnectionId
    reason: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """Multicasts an item of a set to its local group; `CopySeen` follows, unless this process ends.

    A plain session takes items with rising numbers. A durable consumer takes one after the other, from the
    number and the rewinds on that the answer to its join names, and joins again if its group changes.
    """

    set: str
    group: str
    item: LineItem
    body: bytes
    rewinds: int
    stored: BodyKey | None = None  # The body is on this disk, under this key.


@dataclass(frozen=True, slots=True)
class SendStored:
    """Sends a frame to a peer, with the body of its parcel from this disk."""

    connection: ConnectionId
    frame: ParcelFrame
    key: BodyKey


@dataclass(frozen=True, slots=True)
class GiveBody:
    """Reads a body from this disk and multicasts it to the members, by `body_message`."""

    round: str
    key: BodyKey


@dataclass(frozen=True, slots=True)
class SendPiece:
    """Reads a piece of a file from this disk and sends it to a peer, as a `ChunkFrame`."""

    connection: ConnectionId
    key: FileKey
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GivePiece:
    """Reads a piece of a file from this disk and multicasts it to the members, by `piece_message`."""

    round: str
    key: FileKey
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CheckFile:
    """Compares the content of a file on this disk with its digest; `FileChecked` follows."""

    key: FileKey


@dataclass(frozen=True, slots=True)
class PlaceFile:
    """Puts a copy of a file where the local group finds it, before the `HandOver` that tells of it.

    It is written under another name, synced, and renamed; what is there already is replaced, if it differs.
    """

    key: FileKey
    directory: str  # Of the set.
    place: str  # Within that directory, and no link leads out of it.


@dataclass(frozen=True, slots=True)
class AnswerClient:
    """Tells a client what became of a request."""

    client: str
    number: int
    answer: Answer


MemberOutput = (
    SendToGroup
    | WriteRecords
    | LogRefused
    | DialPeer
    | SendFrame
    | EndConnection
    | HandOver
    | AnswerClient
    | StoreBodies
    | ForgetBodies
    | SendStored
    | GiveBody
    | StoreFilePiece
    | DropFile
    | SendPiece
    | GivePiece
    | CheckFile
    | PlaceFile
)
"""What is written to files is on the disk before the records of a later `WriteRecords`, and whatever reads a
file sees it at once. `DropFile` and `ForgetBodies` may take effect at any later time."""
