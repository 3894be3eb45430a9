"""The words between the membership and its driver, and between it and the layer above."""

from dataclasses import dataclass

from hopring.ids import DaemonId, Generation, Process, ViewId
from hopring.links.events import Tick
from hopring.membership.words import Datagram
from hopring.ordering.entry import Message, Position
from hopring.services import Service
from hopring.stack_events import Identity, SendSite, SendTo, StreamEvent, WriteTo
from hopring.wire.train import Packet


@dataclass(frozen=True, slots=True)
class Submit:
    """A message of one of this daemon's sessions, for all daemons of the view."""

    service: Service
    payload: bytes
    session: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """The layer above is ready for the clients' messages of this view."""

    view: ViewId


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The daemon's own messages that still wait mean nothing any more."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A packet from the wire, for whichever network it belongs to."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class Heard:
    """A membership word from the wire, and who its packet says that it is from."""

    sender: Process
    word: Datagram


@dataclass(frozen=True, slots=True)
class FromStream:
    """What happened to a connection of that network's TCP link with this neighbour."""

    generation: Generation
    neighbour: DaemonId
    event: StreamEvent


@dataclass(frozen=True, slots=True)
class Say:
    """A membership word for these daemons, as datagrams."""

    to: tuple[DaemonId, ...]
    word: Datagram


@dataclass(frozen=True, slots=True)
class Network:
    """What a network wants to have sent; the identity goes into the heads."""

    own: Identity
    output: SendTo | SendSite | WriteTo


@dataclass(frozen=True, slots=True)
class NetworkStarted:
    """A network begins, and the one before is over; a driver has TCP links to connect."""

    own: Identity
    streams: tuple[DaemonId, ...]


@dataclass(frozen=True, slots=True)
class Stamped:
    """A submitted message has its place in the order: the thesis' send event."""

    view: ViewId
    message: Message
    position: Position


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message for the layer above."""

    view: ViewId
    message: Message
    sender: Process
    position: Position


@dataclass(frozen=True, slots=True)
class TransitionalSignal:
    """The view is closing; what follows until the next one is promised only among these."""

    view: ViewId
    together: tuple[Process, ...]
    next_view: ViewId  # The one that follows; no two sides of a split have the same.


@dataclass(frozen=True, slots=True)
class Installed:
    """A new view."""

    view: ViewId
    members: tuple[Process, ...]
    together: tuple[Process, ...]  # Those who came along from my view before.
    cause: str


Input = Submit | Resume | Withdraw | Arrived | Heard | FromStream | Tick
Output = Say | Network | NetworkStarted | Stamped | Delivered | TransitionalSignal | Installed
