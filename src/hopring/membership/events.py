"""The words between the membership and its driver, and between it and the layer above."""

from hopring.ids import DaemonId, Generation, Process, SiteMask, ViewId
from hopring.links.events import Tick
from hopring.membership.words import Datagram
from hopring.ordering.entry import Message, Position
from hopring.services import Service
from hopring.stack_events import Identity, Sending, StreamEvent
from hopring.value import Value
from hopring.wire.train import Packet


class Submit(Value, frozen=True):
    """A message of one of this daemon's sessions, for all daemons of the view."""

    service: Service
    payload: bytes
    session: int = 0


class Resume(Value, frozen=True):
    """The layer above is ready for the clients' messages of this view."""

    view: ViewId


class Withdraw(Value, frozen=True):
    """The daemon's own messages that still wait mean nothing any more."""


class Arrived(Value, frozen=True):
    """A packet from the wire, for whichever network it belongs to."""

    packet: Packet


class Heard(Value, frozen=True):
    """A membership word from the wire, and who its packet says that it is from."""

    sender: Process
    word: Datagram


class Stop(Value, frozen=True):
    """This daemon is to go: it says so to the others and takes no further part. Best once it is `drained`."""


class Stalled(Value, frozen=True):
    """The driver did not run for so long: silence meanwhile says nothing of others, and they may be gone on."""

    for_us: int


class FromStream(Value, frozen=True):
    """What happened to a connection of that network's TCP link with this neighbour."""

    generation: Generation
    neighbour: DaemonId
    event: StreamEvent


class Say(Value, frozen=True):
    """A membership word for these daemons, as datagrams."""

    to: tuple[DaemonId, ...]
    word: Datagram


class Network(Value, frozen=True):
    """What a network wants to have sent; the identity goes into the heads."""

    own: Identity
    output: Sending


class NetworkStarted(Value, frozen=True):
    """A network begins, and the one before is over; a driver has TCP links to connect."""

    own: Identity
    streams: tuple[DaemonId, ...]
    ring: tuple[DaemonId, ...] = ()  # The daemons of the own site, this one too: whom SendSite is for.


class Stamped(Value, frozen=True):
    """A submitted message has its place in the order: the thesis' send event."""

    view: ViewId
    message: Message
    position: Position


class Delivered(Value, frozen=True):
    """A message for the layer above."""

    view: ViewId
    message: Message
    sender: Process
    position: Position


class Rift(Value, frozen=True):
    """Before the signal: here stands something for these sites, ours too, that they cannot all be promised.

    Some of those who come along are not in these sites, and went on without it before the view broke. So what
    follows is delivered before the signal all the same; but to those who may be owed what stands here, the
    view ends here.
    """

    view: ViewId
    position: Position
    mask: SiteMask
    together: tuple[Process, ...]
    next_view: ViewId
    lost: bool  # None of those who come along has it; else it is Safe, and not stable.


class TransitionalSignal(Value, frozen=True):
    """The view is closing; what follows until the next one is promised only among these."""

    view: ViewId
    together: tuple[Process, ...]
    next_view: ViewId  # The one that follows; no two sides of a split have the same.


class Installed(Value, frozen=True):
    """A new view."""

    view: ViewId
    members: tuple[Process, ...]
    together: tuple[Process, ...]  # Those who came along from my view before.
    cause: str
    uneven: bool = False  # Those who came along may not all have seen the same: for some there were rifts, or
    # messages behind the signal that are not for all their sites.


Input = Submit | Resume | Withdraw | Arrived | Heard | FromStream | Stalled | Stop | Tick
Output = Say | Network | NetworkStarted | Stamped | Delivered | Rift | TransitionalSignal | Installed
