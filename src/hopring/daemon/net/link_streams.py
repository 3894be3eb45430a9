"""TCP connections of a daemon's links, from network to network.

The lower daemon of a pair connects, the higher one accepts. An accepted connection is pending until its
greeting names the network it is for. If that network has not begun here, the connection waits on, and its
events are kept for that moment.

Invariants  every reported event bears the generation of the network that the connection was made for, and is
            reported in order; at most EARLY_MAX connections wait for a network, each with at most
            EARLY_HAPPENINGS_MAX events; at most STRANGERS_MAX connections are pending, each at most
            GREETING_TIMEOUT_US: one more closes the oldest, so silent peers cannot keep others out for long.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from hopring.config import Daemon
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import explain_bind_error
from hopring.daemon.net.shaper import Shape, StreamShaper
from hopring.daemon.net.tcp import ConnectionEvent, Sink, TcpConnection, TcpListener
from hopring.daemon.net.udp import Address, SocketCounters
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation
from hopring.links.tcp import Closed, Opened, Received
from hopring.stack_events import Identity
from hopring.wire.header import Header
from hopring.wire.stream import GREETING_BYTES, decode_greeting

EARLY_MAX: Final = 64
EARLY_HAPPENINGS_MAX: Final = 64
"""What is kept of a connection whose network has not begun here; more cuts it."""

Tell = Callable[[Generation, DaemonId, ConnectionEvent], None]
"""Told of what happened to the connection with a neighbour, and in which network."""


class LinkStreams:
    """All connections with other daemons."""

    def __init__(
        self,
        loop: Loop,
        own: Daemon,
        me: DaemonId,
        cluster: int,
        addresses: Mapping[DaemonId, Address],
        tell: Tell,
    ) -> None:
        self._loop = loop
        self._me = me
        self._addresses = addresses
        self._tell = tell
        self._generation: Generation | None = None
        self._wanted: set[DaemonId] = set()  # Neighbours of the present network that have yet to dial.
        self._connections: dict[DaemonId, TcpConnection] = {}  # Of the present network.
        self._early: dict[tuple[DaemonId, Generation], _Early] = {}  # The oldest first.
        self._cut: frozenset[DaemonId] = frozenset()
        self._shapes: dict[DaemonId, Shape] = {}
        self._shapers: dict[DaemonId, StreamShaper] = {}  # Of the connections in `_connections`.
        self._anteroom = PendingStreams(loop, cluster, self._admit)
        with explain_bind_error(own, "TCP"):
            self._listener = TcpListener(loop, (own.address, own.port), self._anteroom.welcome)

    def close(self) -> None:
        """Ends all connections and accepts no more."""
        self._listener.close()
        self._anteroom.close()
        for connection in [*self._connections.values(), *[one.connection for one in self._early.values()]]:
            connection.close()
        self._early.clear()

    def begin(self, own: Identity, neighbours: Iterable[DaemonId]) -> None:
        """A network begins: the connections of the one before are at their end, those of this one are made."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}
        self._shapers = {}
        self._wanted = set()
        self._generation = own.generation
        for neighbour in neighbours:
            if self._me < neighbour:
                self._bind(neighbour, TcpConnection.dial(self._loop, self._addresses[neighbour]))
                continue
            self._wanted.add(neighbour)
            early = self._early.pop((neighbour, own.generation), None)
            if early is not None:
                self._wanted.remove(neighbour)
                self._keep(neighbour, early.connection)
                # The layer above is in the middle of a step and can be told nothing now.
                self._loop.call_soon(early.let_in)

    def write(self, neighbour: DaemonId, data: bytes) -> None:
        """Bytes of the present network for one of its links."""
        connection = self._shapers.get(neighbour) or self._connections.get(neighbour)
        if connection is not None:
            connection.write(data)

    def observe(self, neighbour: DaemonId) -> None:
        """Tells the state of the connection with this neighbour, once the present step is over."""
        connection = self._connections.get(neighbour)
        if connection is not None:
            self._loop.call_soon(connection.observe)

    def shape(self, neighbour: DaemonId, shape: Shape) -> None:
        """Delays what is written to this neighbour, now and in later networks."""
        self._shapes[neighbour] = shape
        if neighbour in self._shapers:
            # It stays even if nothing is delayed any more: what it holds has to go first.
            self._shapers[neighbour].shape(shape)
        elif neighbour in self._connections:
            self._put_shaper(neighbour, self._connections[neighbour])

    def cut(self, daemons: Collection[DaemonId]) -> None:
        """Nothing passes to or from these daemons; a connection stands still, as one does without a network."""
        self._cut = frozenset(daemons)
        early = [(sender, one.connection) for (sender, _), one in self._early.items()]
        for neighbour, connection in [*self._connections.items(), *early]:
            connection.pause(neighbour in self._cut)

    def _keep(self, neighbour: DaemonId, connection: TcpConnection) -> None:
        self._connections[neighbour] = connection
        connection.pause(neighbour in self._cut)
        if neighbour in self._shapes:
            self._put_shaper(neighbour, connection)

    def _put_shaper(self, neighbour: DaemonId, connection: TcpConnection) -> None:
        shape = replace(self._shapes[neighbour], loss=0.0, duplicates=0.0)
        dice = Random(self._me << 16 | neighbour)
        self._shapers[neighbour] = StreamShaper(self._loop, connection.write, shape, dice)

    def _bind(self, neighbour: DaemonId, connection: TcpConnection) -> None:
        generation = self._generation
        assert generation is not None, "connections belong to a network"
        connection.sink = lambda happening: self._tell(generation, neighbour, happening)
        self._keep(neighbour, connection)

    def _admit(self, header: Header, connection: TcpConnection) -> bool:
        """Whether a dialled connection belongs to a link that is, or may soon be."""
        sender, generation = header.sender, header.generation
        if sender >= self._me or sender in self._cut or (sender, generation) in self._early:
            return False
        if generation == self._generation:
            if sender not in self._wanted:
                return False
            self._wanted.remove(sender)
            self._bind(sender, connection)
            return True
        if len(self._early) == EARLY_MAX:
            oldest = next(iter(self._early))
            self._early.pop(oldest).connection.close()
        self._early[sender, generation] = _Early(self._tell, generation, sender, connection)
        return True


class _Early:
    """A connection of a network that has not begun here: what happens to it is kept for then."""

    def __init__(self, tell: Tell, generation: Generation, sender: DaemonId, connection: TcpConnection) -> None:
        self.connection = connection
        self._tell: Sink = lambda happening: tell(generation, sender, happening)
        self._happenings: list[ConnectionEvent] = []
        connection.sink = self._keep

    def let_in(self) -> None:
        """Its network has begun: tells what was kept, and from now on all that happens."""
        for happening in self._happenings:
            self._tell(happening)
        self.connection.sink = self._tell

    def _keep(self, happening: ConnectionEvent) -> None:
        if len(self._happenings) == EARLY_HAPPENINGS_MAX:
            happening = Closed("too much came before its network began")
            self.connection.close()
        self._happenings.append(happening)


STRANGERS_MAX: Final = 64
GREETING_TIMEOUT_US: Final = 3_000_000

Admit = Callable[[Header, TcpConnection], bool]
"""Told of a greeting: makes the port for it, which becomes the connection's sink, or refuses with False."""


class PendingStreams:
    """Its `welcome` is the callback of a listener."""

    def __init__(self, loop: Loop, cluster: int, admit: Admit) -> None:
        self.traffic = SocketCounters()
        self._loop = loop
        self._cluster = cluster
        self._admit = admit
        self._strangers: dict[TcpConnection, tuple[int, bytes]] = {}  # Since when, and what they said so far.
        self._alarm = loop.alarm(self._send_late_ones_away)

    def welcome(self, connection: TcpConnection, _address: Address) -> None:
        """Lets a connection in."""
        connection.sink = lambda happening: self._hear(connection, happening)
        if len(self._strangers) == STRANGERS_MAX:
            self._refuse(next(iter(self._strangers)), Drop.LIMIT)
        self._strangers[connection] = (self._loop.now_us(), b"")
        self._look()

    def close(self) -> None:
        """Sends everybody away."""
        for connection in self._strangers:
            connection.close()
        self._strangers.clear()

    def _hear(self, connection: TcpConnection, happening: ConnectionEvent) -> None:
        match happening:
            case Received(chunk=chunk):
                since_us, said = self._strangers[connection]
                self._strangers[connection] = (since_us, said + chunk)
                if len(said) + len(chunk) >= GREETING_BYTES:
                    self._introduce(connection)
            case Closed():
                del self._strangers[connection]

    def _introduce(self, connection: TcpConnection) -> None:
        said = self._strangers[connection][1]
        try:
            header = decode_greeting(said, self._cluster)
        except PeerError as error:
            self._refuse(connection, error.reason)
            return
        if not self._admit(header, connection):
            self._refuse(connection, Drop.FOREIGN_SENDER)
            return
        del self._strangers[connection]
        connection.sink(Opened())
        connection.sink(Received(said))

    def _refuse(self, connection: TcpConnection, reason: Drop) -> None:
        self.traffic.dropped[reason] += 1
        del self._strangers[connection]
        connection.close()

    def _send_late_ones_away(self) -> None:
        too_late_us = self._loop.now_us() - GREETING_TIMEOUT_US
        for connection in [one for one, (since_us, _) in self._strangers.items() if since_us <= too_late_us]:
            self._refuse(connection, Drop.TRUNCATED)
        self._look()

    def _look(self) -> None:
        """Sets the alarm for the oldest stranger, which is the first."""
        for since_us, _ in self._strangers.values():
            self._alarm.set(since_us + GREETING_TIMEOUT_US)
            return
