"""Events between the membership and its driver, and between the membership and the layer above."""

from typing import Final, final

from hopring.engine import EngineInput, EngineOutput
from hopring.ids import DaemonId, Process
from hopring.membership.messages import DaemonMessage, EpochMark
from hopring.stack_events import Identity, PacketReceived, Sending, StreamChanged
from hopring.value import Value


@final
class DaemonMessageReceived(Value):
    """A membership message that came as a datagram, and the sender according to the header of its packet."""

    def __init__(self, sender: Process, message: DaemonMessage) -> None:
        self.sender: Final = sender
        self.message: Final = message


@final
class SendDaemonMessage(Value):
    """A membership message for these daemons, as datagrams."""

    def __init__(self, to: tuple[DaemonId, ...], message: DaemonMessage) -> None:
        self.to: Final = to
        self.message: Final = message


@final
class NetworkOutput(Value):
    """An output of a network for the driver; the identity goes into packet headers."""

    def __init__(self, own: Identity, output: Sending) -> None:
        self.own: Final = own
        self.output: Final = output


@final
class NetworkStarted(Value):
    """A network begins and the one before is over; the driver connects its TCP links."""

    def __init__(self, own: Identity, streams: tuple[DaemonId, ...], ring: tuple[DaemonId, ...] = ()) -> None:
        self.own: Final = own
        self.streams: Final = streams
        self.ring: Final = ring  # The daemons of the own site, with this one: the receivers of SendSite.


@final
class MarkPrimary(Value):
    """This daemon is about to vote for a primary view: the driver writes its mark to disk, and reports it."""

    def __init__(self, mark: EpochMark) -> None:
        self.mark: Final = mark


@final
class PrimaryMarked(Value):
    """The mark is on disk or, if it is not durable, cannot be written."""

    def __init__(self, durable: bool) -> None:
        self.durable: Final = durable


DriverEvent = PacketReceived | DaemonMessageReceived | StreamChanged | PrimaryMarked
"""All that comes from the membership's driver."""

DriverEffect = SendDaemonMessage | NetworkOutput | NetworkStarted | MarkPrimary
"""All that the driver has to carry out."""

Input = EngineInput | DriverEvent
Output = EngineOutput | DriverEffect
