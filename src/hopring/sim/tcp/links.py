"""The connections of a simulated daemon's TCP links, from one network to the next.

The lower daemon of a pair connects, the higher one listens. An accepted connection is pending until its
greeting names the network it belongs to. If that network has not begun here yet, the connection waits and its
events are kept for that moment.

Invariants  every event carries the generation of the network that its connection was made for; at most
            STRANGERS_MAX connections wait, each with at most HAPPENINGS_MAX events.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation
from hopring.links.tcp import Closed, Observed, Opened, Received, Written
from hopring.sim.network import SimNetwork
from hopring.sim.tcp.host import SimTcpHost
from hopring.sim.tcp.stream import SimTcpStream
from hopring.stack_events import Identity, StreamEvent
from hopring.wire.header import Header
from hopring.wire.stream import GREETING_BYTES, decode_greeting


class SimTcpConnection:
    """The user of one simulated stream: `tell` hears of it, and what the stream has no room for is kept."""

    def __init__(self, tell: Callable[[StreamEvent], None]) -> None:
        self.tell = tell
        self.stream: SimTcpStream | None = None
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

    def connected(self, stream: SimTcpStream) -> None:
        """The connection stands."""
        self.stream = stream
        if self.tell is _nobody:
            stream.abort()
        self.tell(Opened())

    def received(self, _stream: SimTcpStream, data: bytes) -> None:
        """Bytes have come."""
        self.tell(Received(data))

    def writable(self, _stream: SimTcpStream) -> None:
        """There is room for what was kept."""
        self.write(b"")

    def closed(self, _stream: SimTcpStream, reason: str) -> None:
        """The connection is over."""
        self.tell(Closed(reason))


def _nobody(_event: StreamEvent) -> None:
    pass


STREAM_PORT: Final = 4892
PENDING_MAX: Final = 16
PENDING_EVENTS_MAX: Final = 64

Tell = Callable[[Generation, DaemonId, StreamEvent], None]
"""Told of what happened to the connection with a neighbour, and in which network."""


class PendingConnection:
    """A dialled connection that belongs to no network here, or to none yet."""

    def __init__(self, streams: "SimTcpLinks", remote: DaemonId) -> None:
        self.remote = remote
        self.greeting: Header | None = None
        self.happenings: list[StreamEvent] = []
        self.connection = SimTcpConnection(self._keep)
        self._streams = streams
        self._said = b""

    def _keep(self, event: StreamEvent) -> None:
        self.happenings.append(event)
        if isinstance(event, Closed) or len(self.happenings) > PENDING_EVENTS_MAX:
            self._streams.send_away(self)
        elif isinstance(event, Received) and self.greeting is None:
            self._said += event.chunk
            if len(self._said) >= GREETING_BYTES:
                self._introduce()

    def _introduce(self) -> None:
        try:
            self.greeting = decode_greeting(self._said, self._streams.cluster)
        except PeerError:
            self._streams.send_away(self)
        else:
            self._streams.admit()


class SimTcpLinks:
    """All connections of one life of a daemon."""

    def __init__(
        self, network: SimNetwork, me: DaemonId, cluster: int, names: Mapping[DaemonId, str], tell: Tell
    ) -> None:
        self.cluster = cluster
        self._me = me
        self._names = names
        self._numbers = {name: daemon for daemon, name in names.items()}
        self._tell = tell
        self._generation: Generation | None = None
        self._wanted: set[DaemonId] = set()  # Neighbours of the present network that have yet to dial.
        self._connections: dict[DaemonId, SimTcpConnection] = {}  # Of the present network.
        self._strangers: list[PendingConnection] = []  # The oldest first.
        self._host = SimTcpHost(network, names[me])
        self._host.listen(STREAM_PORT, self._welcome)

    @property
    def strangers(self) -> int:
        """How many connections wait for their greeting or their network."""
        return len(self._strangers)

    def begin(self, own: Identity, neighbours: tuple[DaemonId, ...]) -> None:
        """A network begins: the connections of the one before are at their end, those of this one are made."""
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
        """Bytes of a network for one of its links; those of an earlier network have nowhere to go."""
        if generation == self._generation and neighbour in self._connections:
            self._connections[neighbour].write(data)

    def observe(self, generation: Generation, neighbour: DaemonId) -> None:
        """Tells the state of the connection of a link of this network."""
        if generation == self._generation and neighbour in self._connections:
            self._connections[neighbour].observe()

    def admit(self) -> None:
        """Lets those strangers in that the present network waits for."""
        for stranger in list(self._strangers):
            greeting = stranger.greeting
            if greeting is None or greeting.generation != self._generation:
                continue
            if greeting.sender != stranger.remote or greeting.sender not in self._wanted:
                self.send_away(stranger)
                continue
            self._strangers.remove(stranger)
            self._wanted.remove(stranger.remote)
            self._connections[stranger.remote] = stranger.connection
            stranger.connection.tell = partial(self._tell, self._generation, stranger.remote)
            for event in stranger.happenings:
                stranger.connection.tell(event)

    def send_away(self, stranger: PendingConnection) -> None:
        """Ends a connection that nobody here can use."""
        if stranger in self._strangers:
            self._strangers.remove(stranger)
        stranger.connection.abort()

    def _welcome(self, remote: str) -> SimTcpConnection:
        if len(self._strangers) == PENDING_MAX:
            self.send_away(self._strangers[0])
        self._strangers.append(PendingConnection(self, self._numbers[remote]))
        return self._strangers[-1].connection
