"""Events of a stranger: a process that calls a group without being a member.

Below       a driver, which sends packets.
Above       a program that calls a group without joining it. Events of members that answer are those of a ring.
"""

from dataclasses import dataclass
from typing import Final, final

from hopring.links.events import Tick
from hopring.rmp.events import MulticastPacket, PacketArrived, UnicastPacket
from hopring.services import Service
from hopring.value import Value
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.lists import ListId
from hopring.wire.rmp.packets import NO_HANDLER

# Of a stranger.


@final
class SubmitCall(Value):
    """A packet for all members of the group; with a handler, its holder answers."""

    def __init__(
        self,
        service: Service,
        body: bytes,
        timeout_us: int,
        resilience: int = 0,
        handler: int = NO_HANDLER,
        repeat_reply: bool = True,
        ticket: int = 0,
    ) -> None:
        self.service: Final = service
        self.body: Final = body
        self.timeout_us: Final = timeout_us  # The call fails if it has not ended by then.
        self.resilience: Final = resilience
        self.handler: Final = handler
        # If the reply is lost with its sender, the next holder of the handler acts again.
        self.repeat_reply: Final = repeat_reply
        self.ticket: Final = ticket  # Comes back with all that becomes of the call.


@dataclass(frozen=True, slots=True)
class CallAcknowledged:
    """A member has delivered the call with its service; a call without a handler has ended."""

    ticket: int
    list: ListId
    timestamp: int  # Its place in the order, or 0 if the member that tells does not know it any more.


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The reply of the member that holds the handler lock."""

    ticket: int
    body: bytes
    by: PeerProcess


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call has ended without a reply or an acknowledgement; it may have been delivered."""

    ticket: int
    delivered: bool  # It was acknowledged, and only the reply is missing.
    refused: bool = False  # It asks for a majority, and a ring that is not primary has withheld it.


StrangerInput = SubmitCall | PacketArrived | Tick
StrangerNews = CallAcknowledged | CallAnswered | CallFailed
StrangerOutput = StrangerNews | MulticastPacket | UnicastPacket
