"""The connections of a simulated daemon's TCP links, from one network to the next.

The lower daemon of a pair connects, the higher one listens. An accepted connection is pending until its
greeting names the network it belongs to. If that network has not begun here yet, the connection waits and its
events are kept for that moment.

Invariants  every event carries the generation of the network that its connection was made for; at most
            PENDING_MAX connections wait, each for at most PENDING_US_MAX and with at most PENDING_EVENTS_MAX
            events and PENDING_BYTES_MAX; of those with a greeting, one of each neighbour: a later one replaces
            it, and one that ends is removed at once.

`SimTcpHost` is the TCP of one simulated host: listeners, connections, and a reset for segments that belong to
neither. A crash of the host takes it away with everything else; after a restart a new one answers segments of
the old connections with a reset.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation
from hopring.links.events import (
    StreamClosed,
    StreamEvent,
    StreamObserved,
    StreamOpened,
    StreamReceived,
    StreamWritten,
)
from hopring.sim.network import Address, HostState, SimNetwork
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
from hopring.stack_events import Identity
from hopring.wire.header import Header
from hopring.wire.stream import GREETING_BYTES, decode_greeting

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


class SimTcpConnection:
    """The user of one simulated stream; bytes that the stream has no room for wait here."""

    def __init__(self, tell: Callable[[StreamEvent], None]) -> None:
        self.tell = tell
        self.stream: SimTcpStream | None = None
        self._unwritten = bytearray()

    def write(self, data: bytes) -> None:
        """Writes as many bytes as the stream has room for; the rest waits."""
        self._unwritten += data
        assert self.stream is not None, "the link writes only to a connection that stands"
        taken = self.stream.send(bytes(self._unwritten)) if not self.stream.out.finishing else 0
        del self._unwritten[:taken]
        if taken:
            self.tell(StreamWritten(taken))

    def observe(self) -> None:
        """Reports the counters of the stream."""
        if self.stream is not None:
            self.tell(
                StreamObserved(self.stream.incoming.data_segments, self.stream.out.round_trip.smoothed_us)
            )

    def abort(self) -> None:
        """Ends the connection without reporting it."""
        self.tell = _nobody
        if self.stream is not None:
            self.stream.abort()

    def connected(self, stream: SimTcpStream) -> None:
        """Reports that the connection is established."""
        self.stream = stream
        if self.tell is _nobody:
            stream.abort()
        self.tell(StreamOpened())

    def received(self, _stream: SimTcpStream, data: bytes) -> None:
        """Reports bytes that have arrived."""
        self.tell(StreamReceived(data))

    def writable(self, _stream: SimTcpStream) -> None:
        """Writes the bytes that waited for room."""
        self.write(b"")

    def closed(self, _stream: SimTcpStream, reason: str) -> None:
        """Reports that the connection has ended."""
        self.tell(StreamClosed(reason))


def _nobody(_event: StreamEvent) -> None:
    pass


STREAM_PORT: Final = 4892
PENDING_MAX: Final = 16
PENDING_EVENTS_MAX: Final = 64
PENDING_BYTES_MAX: Final = 256 * 1024
PENDING_US_MAX: Final = 3_000_000

Tell = Callable[[Generation, DaemonId, StreamEvent], None]
"""Receives the events of a connection: the generation of its network, the neighbour, the event."""


class PendingConnection:
    """An accepted connection whose network is not known or has not begun here."""

    def __init__(self, links: "SimTcpLinks", remote: DaemonId) -> None:
        self.remote = remote
        self.greeting: Header | None = None
        self.events: list[StreamEvent] = []
        self.connection = SimTcpConnection(self._keep)
        self._links = links
        self._received = b""
        self._size_bytes = 0

    def _keep(self, event: StreamEvent) -> None:
        self.events.append(event)
        self._size_bytes += len(event.chunk) if isinstance(event, StreamReceived) else 0
        full = len(self.events) > PENDING_EVENTS_MAX or self._size_bytes > PENDING_BYTES_MAX
        if full or isinstance(event, StreamClosed):
            self._links.reject(self)
        elif isinstance(event, StreamReceived) and self.greeting is None:
            self._received += event.chunk
            if len(self._received) >= GREETING_BYTES:
                self._read_greeting()

    def _read_greeting(self) -> None:
        try:
            self.greeting = decode_greeting(self._received, self._links.cluster)
        except PeerError:
            self._links.reject(self)
        else:
            self._links.greeted(self)


class SimTcpLinks:
    """All TCP connections of one run of a daemon."""

    def __init__(
        self, network: SimNetwork, me: DaemonId, cluster: int, names: Mapping[DaemonId, str], tell: Tell
    ) -> None:
        self.cluster = cluster
        self._me = me
        self._names = names
        self._numbers = {name: daemon for daemon, name in names.items()}
        self._tell = tell
        self._generation: Generation | None = None
        self._wanted: set[DaemonId] = set()  # Neighbours of the present network that have not connected yet.
        self._connections: dict[DaemonId, SimTcpConnection] = {}  # Of the present network.
        self._pending: list[PendingConnection] = []  # The oldest first.
        self._host = SimTcpHost(network, names[me])
        self._host.listen(STREAM_PORT, self._accept)

    @property
    def pending(self) -> int:
        """How many accepted connections wait for their greeting or their network."""
        return len(self._pending)

    def begin(self, own: Identity, neighbours: tuple[DaemonId, ...]) -> None:
        """Begins a network: ends the connections of the one before and opens those of this one."""
        for connection in self._connections.values():
            connection.abort()
        self._connections = {}
        self._generation = own.generation
        self._wanted = {neighbour for neighbour in neighbours if neighbour < self._me}
        for neighbour in neighbours:
            if neighbour > self._me:
                connection = SimTcpConnection(partial(self._tell, own.generation, neighbour))
                self._connections[neighbour] = connection
                connection.stream = self._host.connect(self._names[neighbour], STREAM_PORT, connection)
        self.admit()

    def write(self, generation: Generation, neighbour: DaemonId, data: bytes) -> None:
        """Writes bytes of a link; those of an earlier network are dropped."""
        if generation == self._generation and neighbour in self._connections:
            self._connections[neighbour].write(data)

    def observe(self, generation: Generation, neighbour: DaemonId) -> None:
        """Reports the counters of a link's connection in this network."""
        if generation == self._generation and neighbour in self._connections:
            self._connections[neighbour].observe()

    def greeted(self, waiting: PendingConnection) -> None:
        """Drops earlier connections of the same neighbour, and assigns this one if its network has begun."""
        for earlier in list(self._pending):
            if earlier is not waiting and earlier.remote == waiting.remote and earlier.greeting is not None:
                self.reject(earlier)
        self.admit()

    def admit(self) -> None:
        """Assigns the pending connections that the present network waits for."""
        for waiting in list(self._pending):
            greeting = waiting.greeting
            if greeting is None or greeting.generation != self._generation:
                continue
            if greeting.sender != waiting.remote or greeting.sender not in self._wanted:
                self.reject(waiting)
                continue
            self._pending.remove(waiting)
            self._wanted.remove(waiting.remote)
            self._connections[waiting.remote] = waiting.connection
            waiting.connection.tell = partial(self._tell, self._generation, waiting.remote)
            for event in waiting.events:
                waiting.connection.tell(event)

    def reject(self, waiting: PendingConnection) -> None:
        """Ends a pending connection that no network here can use."""
        if waiting in self._pending:
            self._pending.remove(waiting)
        waiting.connection.abort()

    def _accept(self, remote: str) -> SimTcpConnection:
        if len(self._pending) == PENDING_MAX:
            self.reject(self._pending[0])
        waiting = PendingConnection(self, self._numbers[remote])
        self._pending.append(waiting)
        self._host.network.timer(self._host.name, self._host.now_us + PENDING_US_MAX, self._expire, waiting)
        return waiting.connection

    def _expire(self, waiting: PendingConnection) -> None:
        if waiting in self._pending:
            self.reject(waiting)
