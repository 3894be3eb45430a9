"""The events of all links: inputs and outputs.

A driver hands a link one input and the time, carries out the outputs in order, and then reads `wake_at_us`: at
that time it sends a `Tick`. A `Submit` alone sends nothing; it moves `wake_at_us` to now, and the tick at the
end of the driver's turn sends. So everything that is submitted in one turn shares packets.
"""

from typing import Final, final

from hopring.value import Value
from hopring.wire.train import Frame


@final
class Submit(Value):
    """An object for the other end of the link, of at most `object_bytes_max`."""

    def __init__(self, payload: bytes, urgent: bool = False, lazy: bool = False, loose: bool = False) -> None:
        self.payload: Final = payload
        # A control message of a higher layer: sent before data and outside of its window.
        self.urgent: Final = urgent
        self.lazy: Final = lazy  # Short, so it may wait a little for objects to share a packet with.
        self.loose: Final = loose  # Of an Unreliable bundle: without a number on the link, never sent again.


@final
class Tick(Value):
    """The time of `wake_at_us` has come."""


@final
class Deliver(Value):
    """The payload of a packet from the other end, for the layer above: one or more objects."""

    def __init__(self, payload: bytes) -> None:
        self.payload: Final = payload


@final
class Transmit(Value):
    """Frames to send to the neighbour, or to the whole ring; they may share datagrams."""

    def __init__(self, frames: tuple[Frame, ...]) -> None:
        self.frames: Final = frames


@final
class LinkFailed(Value):
    """The link has failed and does nothing more; the membership has to form another view."""

    def __init__(self, reason: str, absence: bool = False, silence_us: int = 0) -> None:
        self.reason: Final = reason
        # The other end was not heard, or closed the connection. The cause may be that this end did not run.
        self.absence: Final = absence
        self.silence_us: Final = silence_us  # How long it was not heard; 0 if that is not the reason.


@final
class LinkCounters(Value):
    """Counters of a link since its start; of packets, if not stated otherwise."""

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
        self.loose_dropped: Final = loose_dropped  # Objects of Unreliable bundles dropped at this end.


@final
class StreamOpened(Value):
    """The connection to the neighbour is established."""


@final
class StreamReceived(Value):
    """Bytes that were received, in chunks of any size."""

    def __init__(self, chunk: bytes) -> None:
        self.chunk: Final = chunk


@final
class StreamWritten(Value):
    """The kernel has accepted this many more of the written bytes."""

    def __init__(self, count_bytes: int) -> None:
        self.count_bytes: Final = count_bytes


@final
class StreamObserved(Value):
    """The state of the connection according to the driver's TCP, as asked for by `StreamObserve`."""

    def __init__(self, data_segments: int, round_trip_us: int) -> None:
        # Received segments with data, in any order, repetitions included.
        self.data_segments: Final = data_segments
        self.round_trip_us: Final = round_trip_us  # Smoothed; 0 if it was not measured.


@final
class StreamClosed(Value):
    """The connection was closed, or could not be opened."""

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason


@final
class StreamWrite(Value):
    """Bytes to write to the connection, after all earlier ones."""

    def __init__(self, data: bytes) -> None:
        self.data: Final = data


@final
class StreamObserve(Value):
    """Asks for `StreamObserved`, soon; a connection that is opening or paused gives no answer."""


StreamEvent = StreamOpened | StreamReceived | StreamWritten | StreamObserved | StreamClosed
"""Events of the connection of a link."""

LinkInput = Submit | Tick | Frame | StreamEvent
LinkOutput = Deliver | Transmit | StreamWrite | StreamObserve | LinkFailed
