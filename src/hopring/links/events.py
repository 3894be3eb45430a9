"""The words that all links share: what goes in, what comes out.

A driver hands a link one input and the time, carries out the outputs in their order, and then looks at
`wake_at_us`: when that moment has come, it sends a `Tick`. A `Submit` alone sends nothing; it moves
`wake_at_us` to now, and the tick at the end of the driver's turn sends, so that everything submitted in one
turn shares packets.
"""

from typing import Final, final

from hopring.value import Value
from hopring.wire.train import Frame


@final
class Submit(Value):
    """An object to be carried to the other side, at most `object_bytes_max` long."""

    def __init__(self, payload: bytes, urgent: bool = False, lazy: bool = False, loose: bool = False) -> None:
        self.payload: Final = payload
        self.urgent: Final = urgent  # Control of higher layers: goes before data and outside its window.
        self.lazy: Final = lazy  # May wait a little for company, because it would hardly fill a packet.
        self.loose: Final = loose  # Of an Unreliable bundle: outside the link's numbering, never sent again.


@final
class Tick(Value):
    """The time has come that `wake_at_us` named."""


@final
class Deliver(Value):
    """The body of a packet from the other side: one or more objects, for the layer above."""

    def __init__(self, payload: bytes) -> None:
        self.payload: Final = payload


@final
class Transmit(Value):
    """Frames to send to the neighbour, or to the whole ring; they may share datagrams."""

    def __init__(self, frames: tuple[Frame, ...]) -> None:
        self.frames: Final = frames


@final
class LinkFailed(Value):
    """The link is dead and will do nothing more; membership has to act."""

    def __init__(self, reason: str, absence: bool = False) -> None:
        self.reason: Final = reason
        # The other end was not heard, or has closed the connection. It may be this end that did not run.
        self.absence: Final = absence


@final
class LinkCounters(Value):
    """What a link has seen so far; packets, where nothing else is said."""

    def __init__(
        self,
        sent: int,
        received: int,
        lost: int,
        nacks: int,
        retransmissions: int,
        duplicates: int,
        round_trip_us: int,
        loose_dropped: int = 0,
    ) -> None:
        self.sent: Final = sent
        self.received: Final = received
        self.lost: Final = lost
        self.nacks: Final = nacks
        self.retransmissions: Final = retransmissions
        self.duplicates: Final = duplicates
        self.round_trip_us: Final = round_trip_us
        self.loose_dropped: Final = loose_dropped  # Objects of Unreliable bundles that found no room here.


@final
class StreamOpened(Value):
    """The connection to the neighbour is established."""


@final
class StreamReceived(Value):
    """Bytes that came in, cut anywhere."""

    def __init__(self, chunk: bytes) -> None:
        self.chunk: Final = chunk


@final
class StreamWritten(Value):
    """The kernel has taken so many more of the bytes that were written."""

    def __init__(self, count_bytes: int) -> None:
        self.count_bytes: Final = count_bytes


@final
class StreamObserved(Value):
    """State of the connection, as the driver's TCP knows it."""

    def __init__(self, data_segments: int, round_trip_us: int) -> None:
        # Segments with data that came in, in any order, repetitions included.
        self.data_segments: Final = data_segments
        self.round_trip_us: Final = round_trip_us  # Smoothed; 0 if it was not measured.


@final
class StreamClosed(Value):
    """The connection is gone, or could not be opened."""

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason


@final
class StreamWrite(Value):
    """Bytes for the connection, behind all earlier ones."""

    def __init__(self, data: bytes) -> None:
        self.data: Final = data


@final
class StreamObserve(Value):
    """Asks for `Observed`, soon; a connection that is held still gives no answer."""


StreamEvent = StreamOpened | StreamReceived | StreamWritten | StreamObserved | StreamClosed
"""What happens to the connection of a link."""

LinkInput = Submit | Tick | Frame | StreamEvent
LinkOutput = Deliver | Transmit | StreamWrite | StreamObserve | LinkFailed
