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
from hopring.haul.link.frames import LinkFrame
from hopring.haul.managed_set import LineItem
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


@dataclass(frozen=True, slots=True)
class AnswerClient:
    """Tells a client what became of a request."""

    client: str
    number: int
    answer: Answer


MemberOutput = (
    SendToGroup | WriteRecords | LogRefused | DialPeer | SendFrame | EndConnection | HandOver | AnswerClient
)
