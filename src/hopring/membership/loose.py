"""Unreliable messages between the outbox and the network, and back.

They stand outside the order, so their send has no stamp. For the window it takes a clock that nobody has
promised yet: when the stability line has passed it, a round of promises has gone over the whole network since
the send. Without that an idle system, whose line is above its clock, would let any number of them out at once.
The site's clock takes that step when they fill a quarter of the window, and otherwise some time later: every
step puts the stamps of ordered messages above what other sites have promised, and so costs these time.
"""

from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import SiteMask
from hopring.membership.outbox import Outbox
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import Message, Position, decode_message, encode_message
from hopring.ordering.order import Order
from hopring.stack_events import MulticastLoose, ReceiveLoose

NO_PLACE: Final = Position(0, 0)
"""What stands for the place in the order of a message that has none."""


def submit_loose(
    message: Message, sites: SiteMask, destinations: Destinations, outbox: Outbox, order: Order
) -> MulticastLoose:
    """The message for the network; from here on it is out."""
    lts = order.clock + 1
    outbox.left(message, lts)
    bundle = encode_message(message)
    return MulticastLoose(destinations.mask(bundle, sites), bundle, lts, outbox.loose_crowded)


def loose_message(received: ReceiveLoose) -> Message:
    """What came; the daemon that numbered it is the one that speaks in it, and nothing else travels so."""
    message = decode_message(received.bundle)
    if message.daemon != received.daemon:
        raise PeerError(Drop.FOREIGN_SENDER, f"daemon {received.daemon} numbers for daemon {message.daemon}")
    if message.service.reliable:
        raise PeerError(Drop.INCONSISTENT, f"{message.service.name} outside the order")
    return message
