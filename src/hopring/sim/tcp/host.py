"""The TCP of one simulated host: listeners, connections, and a reset for segments that belong to neither.

A crash of the host takes it away with everything else; after a restart a new one answers segments of the old
connections with a reset.
"""

from collections.abc import Callable
from typing import Final

from hopring.sim.host import Address, HostState
from hopring.sim.network import SimNetwork
from hopring.sim.tcp.stream import (
    SimTcpFlags,
    SimTcpOptions,
    SimTcpSegment,
    SimTcpState,
    SimTcpStream,
    SimTcpUser,
    decode_segment,
    encode_segment,
)

TCP_PORT: Final = 0x10000 + 6
"""The port of all segments: beyond the ports of datagrams, at TCP's protocol number."""

Accept = Callable[[str], SimTcpUser]
"""Makes the user of a connection from the host of that name."""


class SimTcpHost:
    """Connections of one host, by (remote host, remote port, own port)."""

    def __init__(self, network: SimNetwork, name: str, options: SimTcpOptions | None = None) -> None:
        self.network = network
        self.name = name
        self.options = options or SimTcpOptions()
        self.streams: dict[tuple[str, int, int], SimTcpStream] = {}
        self._listeners: dict[int, Accept] = {}
        self._start = network.host(name).starts
        network.bind(Address(name, TCP_PORT), self._receive)

    @property
    def now_us(self) -> int:
        """The present virtual time, in microseconds."""
        return self.network.engine.now_us

    def listen(self, port: int, accept: Accept) -> None:
        """Accepts connections to this port."""
        assert port not in self._listeners, f"port {port} has a listener"
        self._listeners[port] = accept

    def connect(self, remote: str, port: int, user: SimTcpUser) -> SimTcpStream:
        """Begins a connection; the user is called on success or failure."""
        host = self.network.host(self.name)
        stream = self._make(user, (host.next_stream_port, port), remote)
        host.next_stream_port += 1
        stream.open(SimTcpState.SYN_SENT)
        return stream

    def close(self) -> None:
        """Resets all connections and gives the port back, unless the host has crashed since."""
        host = self.network.host(self.name)
        if host.state is HostState.DOWN or host.starts != self._start:
            return
        for stream in list(self.streams.values()):
            stream.abort()
        self.network.unbind(Address(self.name, TCP_PORT))

    def _make(self, user: SimTcpUser, ports: tuple[int, int], remote: str) -> SimTcpStream:
        stream = SimTcpStream(self, user, ports, remote, self.options)
        self.streams[remote, stream.remote_port, stream.port] = stream
        return stream

    def _receive(self, source: Address, datagram: bytes) -> None:
        segment = decode_segment(datagram)
        stream = self.streams.get((source.host, segment.source_port, segment.target_port))
        if stream is not None:
            stream.arrive(segment)
        elif segment.flags == SimTcpFlags.SYN and segment.target_port in self._listeners:
            user = self._listeners[segment.target_port](source.host)
            stream = self._make(user, (segment.target_port, segment.source_port), source.host)
            stream.incoming.stamped(segment)
            stream.open(SimTcpState.SYN_RECEIVED)
        elif SimTcpFlags.RST not in segment.flags:
            self._reset(source.host, segment)

    def _reset(self, remote: str, segment: SimTcpSegment) -> None:
        answer = SimTcpSegment(
            segment.target_port,
            segment.source_port,
            segment.ack,
            segment.end,
            0,
            0,
            SimTcpFlags.RST | SimTcpFlags.ACK,
        )
        self._send(remote, answer)

    # ---- For the streams ----

    def transmit(self, stream: SimTcpStream, segment: SimTcpSegment) -> None:
        """Sends a segment to the other side."""
        self._send(stream.remote, segment)

    def _send(self, remote: str, segment: SimTcpSegment) -> None:
        self.network.send(Address(self.name, TCP_PORT), Address(remote, TCP_PORT), encode_segment(segment))

    def wake(self, stream: SimTcpStream, when_us: int, plan: int) -> None:
        """Calls `stream.look(plan)` at that time."""
        self.network.timer(self.name, when_us, stream.look, plan)

    def forget(self, stream: SimTcpStream) -> None:
        """Drops the connection from the table."""
        del self.streams[stream.remote, stream.remote_port, stream.port]
