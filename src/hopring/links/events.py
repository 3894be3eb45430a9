"""The words that all links share: what goes in, what comes out.

A driver hands a link one input and the time, carries out the outputs in their order, and then looks at
`wake_at_us`: when that moment has come, it sends a `Tick`. A `Submit` alone sends nothing; it moves
`wake_at_us` to now, and the tick at the end of the driver's turn sends, so that everything submitted in one
turn shares packets.
"""

from hopring.value import Value
from hopring.wire.train import Frame


class Submit(Value, frozen=True):
    """An object to be carried to the other side, at most `object_bytes_max` long."""

    payload: bytes
    urgent: bool = False  # Control of higher layers: goes before data and outside its window.
    lazy: bool = False  # May wait a little for company, because it would hardly fill a packet.
    loose: bool = False  # Of an Unreliable bundle: outside the link's numbering, never sent again.


class Tick(Value, frozen=True):
    """The time has come that `wake_at_us` named."""


class Deliver(Value, frozen=True):
    """The body of a packet from the other side: one or more objects, for the layer above."""

    payload: bytes


class Transmit(Value, frozen=True):
    """Frames to send to the neighbour, or to the whole ring; they may share datagrams."""

    frames: tuple[Frame, ...]


class LinkFailed(Value, frozen=True):
    """The link is dead and will do nothing more; membership has to act."""

    reason: str
    # The other end was not heard, or has closed the connection. It may be this end that did not run.
    absence: bool = False


class LinkCounters(Value, frozen=True):
    """What a link has seen so far; packets, where nothing else is said."""

    sent: int
    received: int
    lost: int
    nacks: int
    retransmissions: int
    duplicates: int
    round_trip_us: int
    loose_dropped: int = 0  # Objects of Unreliable bundles that found no room here.
