"""The user of one simulated stream on behalf of a TCP link: its events go up, its bytes wait for room."""

from collections.abc import Callable

from hopring.links.tcp import Closed, Observed, Opened, Received, Written
from hopring.sim.tcp.stream import Stream
from hopring.stack_events import StreamEvent


class Connection:
    """The user of one simulated stream: `tell` hears of it, and what the stream has no room for is kept."""

    def __init__(self, tell: Callable[[StreamEvent], None]) -> None:
        self.tell = tell
        self.stream: Stream | None = None
        self._unwritten = bytearray()

    def write(self, data: bytes) -> None:
        """Writes as much as there is room for."""
        self._unwritten += data
        assert self.stream is not None, "the link writes only to a connection that stands"
        taken = self.stream.send(bytes(self._unwritten)) if not self.stream.out.finishing else 0
        del self._unwritten[:taken]
        if taken:
            self.tell(Written(taken))

    def observe(self) -> None:
        """Tells the state of the stream."""
        if self.stream is not None:
            self.tell(Observed(self.stream.incoming.data_segments, self.stream.out.round_trip.smoothed_us))

    def abort(self) -> None:
        """Ends it; nobody hears of that."""
        self.tell = _nobody
        if self.stream is not None:
            self.stream.abort()

    def connected(self, stream: Stream) -> None:
        """The connection stands."""
        self.stream = stream
        if self.tell is _nobody:
            stream.abort()
        self.tell(Opened())

    def received(self, _stream: Stream, data: bytes) -> None:
        """Bytes have come."""
        self.tell(Received(data))

    def writable(self, _stream: Stream) -> None:
        """There is room for what was kept."""
        self.write(b"")

    def closed(self, _stream: Stream, reason: str) -> None:
        """The connection is over."""
        self.tell(Closed(reason))


def _nobody(_event: StreamEvent) -> None:
    pass
