"""The words between the membership and its driver, and between it and the layer above."""

from typing import Final, final

from hopring.ids import DaemonId, Generation, Process, SiteMask, ViewId
from hopring.links.events import Tick
from hopring.membership.messages import DaemonMessage
from hopring.ordering.entry import Message, Position
from hopring.services import Service
from hopring.stack_events import Identity, Sending, StreamEvent
from hopring.value import Value
from hopring.wire.train import Packet


@final
class SubmitMessage(Value):
    """A message of one of this daemon's sessions, for all daemons of the view."""

    def __init__(self, service: Service, payload: bytes, session: int = 0) -> None:
        self.service: Final = service
        self.payload: Final = payload
        self.session: Final = session


@final
class Resume(Value):
    """The layer above is ready for the clients' messages of this view."""

    def __init__(self, view: ViewId) -> None:
        self.view: Final = view


@final
class Withdraw(Value):
    """The daemon's own messages that still wait mean nothing any more."""


@final
class PacketReceived(Value):
    """A packet from the wire, for whichever network it belongs to."""

    def __init__(self, packet: Packet) -> None:
        self.packet: Final = packet


@final
class ControlReceived(Value):
    """A membership word from the wire, and who its packet says that it is from."""

    def __init__(self, sender: Process, message: DaemonMessage) -> None:
        self.sender: Final = sender
        self.message: Final = message


@final
class Stop(Value):
    """This daemon is to go: it says so to the others and takes no further part. Best once it is `drained`."""


@final
class Stalled(Value):
    """The driver did not run for so long: silence meanwhile says nothing of others, and they may be gone on."""

    def __init__(self, for_us: int) -> None:
        self.for_us: Final = for_us


@final
class StreamChanged(Value):
    """What happened to a connection of that network's TCP link with this neighbour."""

    def __init__(self, generation: Generation, neighbour: DaemonId, event: StreamEvent) -> None:
        self.generation: Final = generation
        self.neighbour: Final = neighbour
        self.event: Final = event


@final
class SendControl(Value):
    """A membership word for these daemons, as datagrams."""

    def __init__(self, to: tuple[DaemonId, ...], message: DaemonMessage) -> None:
        self.to: Final = to
        self.message: Final = message


@final
class NetworkOutput(Value):
    """What a network wants to have sent; the identity goes into the heads."""

    def __init__(self, own: Identity, output: Sending) -> None:
        self.own: Final = own
        self.output: Final = output


@final
class NetworkStarted(Value):
    """A network begins, and the one before is over; a driver has TCP links to connect."""

    def __init__(self, own: Identity, streams: tuple[DaemonId, ...], ring: tuple[DaemonId, ...] = ()) -> None:
        self.own: Final = own
        self.streams: Final = streams
        self.ring: Final = ring  # The daemons of the own site, this one too: whom SendSite is for.


@final
class Stamped(Value):
    """A submitted message has its place in the order: the thesis' send event."""

    def __init__(self, view: ViewId, message: Message, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.position: Final = position


@final
class Delivered(Value):
    """A message for the layer above."""

    def __init__(self, view: ViewId, message: Message, sender: Process, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.sender: Final = sender
        self.position: Final = position


@final
class Rift(Value):
    """Before the signal: here stands something for these sites, ours too, that they cannot all be promised.

    Some of those who come along are not in these sites, and went on without it before the view broke. So what
    follows is delivered before the signal all the same; but to those who may be owed what stands here, the
    view ends here.
    """

    def __init__(
        self,
        view: ViewId,
        position: Position,
        mask: SiteMask,
        together: tuple[Process, ...],
        next_view: ViewId,
        lost: bool,
    ) -> None:
        self.view: Final = view
        self.position: Final = position
        self.mask: Final = mask
        self.together: Final = together
        self.next_view: Final = next_view
        self.lost: Final = lost  # None of those who come along has it; else it is Safe, and not stable.


@final
class TransitionalSignal(Value):
    """The view is closing; what follows until the next one is promised only among these."""

    def __init__(self, view: ViewId, together: tuple[Process, ...], next_view: ViewId) -> None:
        self.view: Final = view
        self.together: Final = together
        self.next_view: Final = next_view  # The one that follows; no two sides of a split have the same.


@final
class Installed(Value):
    """A new view."""

    def __init__(
        self,
        view: ViewId,
        members: tuple[Process, ...],
        together: tuple[Process, ...],
        cause: str,
        uneven: bool = False,
    ) -> None:
        self.view: Final = view
        self.members: Final = members
        self.together: Final = together  # Those who came along from my view before.
        self.cause: Final = cause
        # Those who came along may not all have seen the same: for some there were rifts, or
        self.uneven: Final = uneven

    # messages behind the signal that are not for all their sites.


Input = (
    SubmitMessage | Resume | Withdraw | PacketReceived | ControlReceived | StreamChanged | Stalled | Stop | Tick
)
Output = (
    SendControl | NetworkOutput | NetworkStarted | Stamped | Delivered | Rift | TransitionalSignal | Installed
)
