"""The events between an engine and the layers above it: sessions and groups, logs and traces.

Below       an engine: what orders messages and installs views (`hopring.engine.interface`).
Above       groups and the session server; log, trace and counters of the process.
Invariants  `Installed` begins every view; a message is `Stamped` at its sender before it is `Delivered` there.
            Times and sockets do not occur: an engine's exchange with its driver is its own vocabulary.
"""

from typing import Final, final

from hopring.ids import Process, SiteMask, ViewId
from hopring.links.events import Tick
from hopring.ordering.entry import OrderedMessage, Position
from hopring.services import Service
from hopring.value import Value

# To the engine.


@final
class SubmitMessage(Value):
    """A message of one of this daemon's sessions for all daemons of the view."""

    def __init__(self, service: Service, payload: bytes, session: int = 0) -> None:
        self.service: Final = service
        self.payload: Final = payload
        self.session: Final = session


@final
class Resume(Value):
    """The layer above is ready: clients' messages may be sent in this view."""

    def __init__(self, view: ViewId) -> None:
        self.view: Final = view


@final
class Withdraw(Value):
    """Discards the daemon's own messages that are not sent yet."""


@final
class Stop(Value):
    """Stops this daemon: it tells the others and takes no further part. Best once `drained` is true."""


@final
class Stalled(Value):
    """The driver did not run for this time: silence of others meant nothing, and they may have gone on."""

    def __init__(self, for_us: int) -> None:
        self.for_us: Final = for_us


# From the engine.


@final
class Stamped(Value):
    """A submitted message has its place in the order: the send event of the thesis."""

    def __init__(self, view: ViewId, message: OrderedMessage, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.position: Final = position


@final
class Delivered(Value):
    """A message is delivered to the layer above."""

    def __init__(self, view: ViewId, message: OrderedMessage, sender: Process, position: Position) -> None:
        self.view: Final = view
        self.message: Final = message
        self.sender: Final = sender
        self.position: Final = position


@final
class Rift(Value):
    """A place before the signal where members of these sites, this daemon's among them, may miss a bundle.

    Other members of T, outside of these sites, passed this place before the view broke. So the bundles behind
    it are delivered before the signal all the same; but for members that may be owed the bundle of this place,
    the view ends here.
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
    """The view is closing: until the next one, guarantees hold among `together` only."""

    def __init__(self, view: ViewId, together: tuple[Process, ...], next_view: ViewId) -> None:
        self.view: Final = view
        self.together: Final = together
        self.next_view: Final = next_view  # The one that follows; no two sides of a split have the same.


@final
class Installed(Value):
    """A new view is installed."""

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


EngineInput = SubmitMessage | Resume | Withdraw | Stop | Stalled | Tick
"""All that an engine takes from above and from the clock."""

EngineOutput = Stamped | Delivered | Rift | TransitionalSignal | Installed
"""All that an engine puts out for the layers above."""
