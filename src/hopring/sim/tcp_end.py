"""One end of a TCP link on a simulated host."""

from hopring.links import tcp
from hopring.links.events import Deliver, LinkFailed, Submit
from hopring.sim.drive import Driver
from hopring.sim.ends import End, Place
from hopring.sim.tcp.stream import Stream


class TcpEnd(End):
    """One end of a TCP link: a `StreamUser` that keeps what the stream has no room for."""

    def __init__(self, place: Place, link: tcp.Tcp) -> None:
        super().__init__(place)
        self.link = link
        self.stream: Stream | None = None
        self._unwritten = bytearray()
        self._driver: Driver[tcp.Input, tcp.Output] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that the link takes."""
        return self.link.object_bytes_max

    def close(self) -> None:
        """Stops the link and resets its connection."""
        self._driver.stop()
        if self.stream is not None:
            self.stream.abort()

    def hand_in(self, submit: Submit) -> None:
        """Gives the link an object."""
        self._driver.step(submit)

    def _carry_out(self, output: tcp.Output) -> None:
        match output:
            case tcp.Write(data=data):
                self._unwritten += data
                self._write()
            case tcp.Observe():
                assert self.stream is not None, "the link observes only a connection that stands"
                stream = self.stream
                observed = tcp.Observed(stream.incoming.data_segments, stream.out.round_trip.smoothed_us)
                self._driver.step(observed)
            case Deliver(payload=payload):
                self.deliver(payload)
            case LinkFailed(reason=reason):
                self.fail(reason)
                if self.stream is not None:
                    self.stream.abort()

    def _write(self) -> None:
        assert self.stream is not None, "the link writes only to a connection that stands"
        taken = self.stream.send(bytes(self._unwritten))
        del self._unwritten[:taken]
        if taken:
            self._driver.step(tcp.Written(taken))

    # ---- What the stream tells ----

    def connected(self, stream: Stream) -> None:
        """The connection stands."""
        self.stream = stream
        self._driver.step(tcp.Opened())

    def received(self, _stream: Stream, data: bytes) -> None:
        """Bytes have come."""
        self._driver.step(tcp.Received(data))

    def writable(self, _stream: Stream) -> None:
        """There is room for what was kept."""
        self._write()

    def closed(self, _stream: Stream, reason: str) -> None:
        """The connection is over."""
        self._driver.step(tcp.Closed(reason))
