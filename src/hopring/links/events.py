"""The words that all links share: what goes in, what comes out.

A driver hands a link one input and the time, carries out the outputs in their order, and then looks at
`wake_at_us`: when that moment has come, it sends a `Tick`. A `Submit` alone sends nothing; it moves
`wake_at_us` to now, and the tick at the end of the driver's turn sends, so that everything submitted in one
turn shares packets.
"""

from dataclasses import dataclass

from hopring.wire.train import Frame


@dataclass(frozen=True, slots=True)
class Submit:
    """An object to be carried to the other side, at most `object_bytes_max` long."""

    payload: bytes
    urgent: bool = False  # Control of higher layers: goes before data and outside its window.
    lazy: bool = False  # May wait a little for company, because it would hardly fill a packet.


@dataclass(frozen=True, slots=True)
class Tick:
    """The time has come that `wake_at_us` named."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The body of a packet from the other side: one or more objects, for the layer above."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Transmit:
    """Frames to send to the neighbour, or to the whole ring; they may share datagrams."""

    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class LinkFailed:
    """The link is dead and will do nothing more; membership has to act."""

    reason: str


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What a link has seen so far; packets, where nothing else is said."""

    sent: int
    received: int
    lost: int
    nacks: int
    retransmissions: int
    duplicates: int
    round_trip_us: int
