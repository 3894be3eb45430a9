"""TCP connections of a daemon's links, from network to network.

The lower daemon of a pair connects, the higher one accepts. An accepted connection is pending until its
greeting names the network it is for. If that network has not begun here, the connection is early: it waits on,
and its bytes are kept for that moment.

With keys, connections run over TLS: the certificate of the dialled daemon names it, and that of an accepted
connection names the sender of its greeting. Others are closed, counted, and reported as foreign.

Without keys anybody can connect and write a greeting, so an early connection must not keep the real neighbour
out: a later connection of the same neighbour replaces it, and it waits for EARLY_US_MAX at most.

Invariants  every reported event bears the generation of the network that the connection was made for, and is
            reported in order; one connection of a neighbour is early at a time, and EARLY_MAX in all, each with
            at most EARLY_BYTES_MAX and one read (the rest stays in the kernel); one that ends is removed at
            once; at most PENDING_MAX connections are pending, each at most GREETING_TIMEOUT_US, its TLS
            handshake included. One more, of either kind, closes the oldest, so silent peers cannot keep others
            out for long. Of pending ones those without a certificate go first, and of these the ones from
            addresses that no daemon has.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from hopring.config import Daemon
from hopring.credentials.daemon_tls import DaemonTls
from hopring.credentials.tls_session import shows_tls
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import explain_bind_error
from hopring.daemon.net.shaper import Shape, StreamShaper
from hopring.daemon.net.tcp import ByteStream, ConnectionEvent, Sink, TcpConnection, TcpListener
from hopring.daemon.net.tls import TlsConnection
from hopring.daemon.net.udp import Address, SocketCounters
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Generation
from hopring.links.events import StreamClosed, StreamOpened, StreamReceived
from hopring.stack_events import Identity
from hopring.wire.header import Header
from hopring.wire.stream import GREETING_BYTES, decode_greeting

EARLY_MAX: Final = 64
EARLY_BYTES_MAX: Final = 256 * 1024
"""Bytes kept for a connection whose network has not begun here; with more, it is not read until then."""

EARLY_US_MAX: Final = 3_000_000
"""How long a connection waits for its network: the neighbour's link gives up after this time."""

OnConnectionEvent = Callable[[Generation, DaemonId, ConnectionEvent], None]
"""Called with the network, the neighbour and the event of a connection."""

Foreign = Callable[[Address, str], None]
"""Called with the host of a connection that is refused, with 0 as its port, and with the reason."""


def _nobody_asks(_address: Address, _detail: str) -> None:
    """The default: nobody is told of refused connections."""


class LinkStreams:
    """All connections with other daemons."""

    def __init__(
        self,
        loop: Loop,
        own: Daemon,
        me: DaemonId,
        cluster: int,
        addresses: Mapping[DaemonId, Address],
        on_event: OnConnectionEvent,
        tls: DaemonTls | None = None,  # Without it connections are in the clear.
        uris: Mapping[DaemonId, str] | None = None,  # The daemons as their certificates name them.
        traffic: SocketCounters | None = None,  # Counts refused connections.
    ) -> None:
        assert tls is None or uris is not None, "certificates are compared with names"
        self._loop = loop
        self._me = me
        self._tls = tls
        self._uris = uris or {}
        self._addresses = addresses
        self._on_event = on_event
        self._generation: Generation | None = None
        self._wanted: set[DaemonId] = set()  # Neighbours of the present network that have yet to dial.
        self._connections: dict[DaemonId, ByteStream] = {}  # Of the present network.
        self._early: dict[DaemonId, _Early] = {}  # The oldest first.
        self._expire = loop.alarm(self._drop_expired)
        self._cut: frozenset[DaemonId] = frozenset()
        self._shapes: dict[DaemonId, Shape] = {}
        self._shapers: dict[DaemonId, StreamShaper] = {}  # Of the connections in `_connections`.
        self.foreign: Foreign = _nobody_asks
        self._traffic = traffic or SocketCounters()
        hosts = frozenset([address[0] for address in addresses.values()])
        self._pending = PendingStreams(loop, cluster, self._admit, self._traffic, self._shown, hosts)
        self._pending.tls = tls
        self._pending.foreign = self._refused
        with explain_bind_error(own, "TCP"):
            self._listener = TcpListener(loop, (own.address, own.port), self._pending.welcome)

    def close(self) -> None:
        """Ends all connections and accepts no more."""
        self._listener.close()
        self._pending.close()
        self._expire.set(NEVER)
        for connection in [*self._connections.values(), *[one.connection for one in self._early.values()]]:
            connection.close()
        self._early.clear()

    def change_tls(self, tls: DaemonTls) -> None:
        """Makes and accepts further connections with these certificates; present ones stay."""
        self._tls = tls
        self._pending.tls = tls

    def begin(self, own: Identity, neighbours: Iterable[DaemonId]) -> None:
        """A network begins: closes the connections of the one before, and makes those of this one."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}
        self._shapers = {}
        self._wanted = set()
        self._generation = own.generation
        for neighbour in neighbours:
            if self._me < neighbour:
                self._dial(neighbour, own.generation)
                continue
            early = self._early.get(neighbour)
            if early is None or early.generation != own.generation:
                self._wanted.add(neighbour)
                continue
            del self._early[neighbour]
            early.begun = True
            self._keep(neighbour, early.connection)
            # The layer above is in the middle of a step and takes no events now.
            self._loop.call_soon(early.let_in)

    def write(self, neighbour: DaemonId, data: bytes) -> None:
        """Writes bytes to a link of the present network."""
        connection = self._shapers.get(neighbour) or self._connections.get(neighbour)
        if connection is not None:
            connection.write(data)

    def observe(self, neighbour: DaemonId) -> None:
        """Reports the state of the connection with this neighbour, after the present step."""
        connection = self._connections.get(neighbour)
        if connection is not None:
            self._loop.call_soon(connection.observe)

    def shape(self, neighbour: DaemonId, shape: Shape) -> None:
        """Delays writes to this neighbour, now and in later networks."""
        self._shapes[neighbour] = shape
        if neighbour in self._shapers:
            # It stays even without a delay: the bytes that it holds go first.
            self._shapers[neighbour].shape(shape)
        elif neighbour in self._connections:
            self._put_shaper(neighbour, self._connections[neighbour])

    def cut(self, daemons: Collection[DaemonId]) -> None:
        """Blocks traffic to and from exactly these daemons: their connections are paused."""
        self._cut = frozenset(daemons)
        early = [(sender, one.connection) for sender, one in self._early.items()]
        for neighbour, connection in [*self._connections.items(), *early]:
            connection.pause(neighbour in self._cut)

    def _dial(self, neighbour: DaemonId, generation: Generation) -> None:
        try:
            connection = self._open_connection(neighbour)
        except OSError as error:
            # No descriptor is free: that is the failure of this link only.
            closed = StreamClosed(f"no socket for the connection ({os.strerror(error.errno or 0)})")
            self._loop.call_soon(lambda: self._on_event(generation, neighbour, closed))
        else:
            self._bind(neighbour, connection)

    def _open_connection(self, neighbour: DaemonId) -> ByteStream:
        address = self._addresses[neighbour]
        dialled = TcpConnection.dial(self._loop, address)
        if self._tls is None:
            return dialled

        def refused(error: PeerError) -> None:
            self._traffic.dropped[error.reason] += 1
            self.foreign(address, error.detail)

        return TlsConnection(self._loop, dialled, self._tls.dialling, refused, self._uris[neighbour])

    def _shown(self, sender: DaemonId, connection: ByteStream) -> None:
        """PeerError if an accepted connection has shown the certificate of another daemon than its greeting."""
        if isinstance(connection, TlsConnection) and self._uris.get(sender) not in connection.uris:
            shown = " ".join(connection.uris) or "nobody"
            raise PeerError(
                Drop.CERTIFICATE, f"its certificate is for {shown}, and it greets as daemon {sender}"
            )

    def _refused(self, address: Address, detail: str) -> None:
        self.foreign((address[0], 0), detail)

    def _keep(self, neighbour: DaemonId, connection: ByteStream) -> None:
        self._connections[neighbour] = connection
        connection.pause(neighbour in self._cut)
        if neighbour in self._shapes:
            self._put_shaper(neighbour, connection)

    def _put_shaper(self, neighbour: DaemonId, connection: ByteStream) -> None:
        shape = replace(self._shapes[neighbour], loss=0.0, duplicates=0.0)
        dice = Random(self._me << 16 | neighbour)
        self._shapers[neighbour] = StreamShaper(self._loop, connection.write, shape, dice)

    def _bind(self, neighbour: DaemonId, connection: ByteStream) -> None:
        generation = self._generation
        assert generation is not None, "connections belong to a network"
        connection.sink = lambda event: self._on_event(generation, neighbour, event)
        self._keep(neighbour, connection)

    def _admit(self, header: Header, connection: ByteStream) -> bool:
        """Whether an accepted connection belongs to a link of this network, or maybe of the next one."""
        sender, generation = header.sender, header.generation
        if sender >= self._me or sender in self._cut:
            return False
        if generation == self._generation:
            if sender not in self._wanted:
                return False
            self._wanted.remove(sender)
            self._bind(sender, connection)
            return True
        self._drop_early(sender)
        if len(self._early) == EARLY_MAX:
            self._drop_early(next(iter(self._early)))
        early = _Early(self._on_event, self._drop_early, sender, generation, connection)
        early.since_us = self._loop.now_us()
        self._early[sender] = early
        self._expire.set(next(iter(self._early.values())).since_us + EARLY_US_MAX)
        return True

    def _drop_early(self, sender: DaemonId) -> None:
        early = self._early.pop(sender, None)
        if early is not None:
            early.connection.close()

    def _drop_expired(self) -> None:
        expired_us = self._loop.now_us() - EARLY_US_MAX
        for sender in [sender for sender, one in self._early.items() if one.since_us <= expired_us]:
            self._drop_early(sender)
        for oldest in self._early.values():
            self._expire.set(oldest.since_us + EARLY_US_MAX)
            return


class _Early:
    """A connection of a network that has not begun here: its bytes are kept until then."""

    def __init__(
        self,
        on_event: OnConnectionEvent,
        drop: Callable[[DaemonId], None],
        sender: DaemonId,
        generation: Generation,
        connection: ByteStream,
    ) -> None:
        self.connection = connection
        self.since_us = 0
        self.generation = generation
        self.begun = False
        """Whether its network has begun, so that its end has to be reported."""
        self._drop: Callable[[], None] = lambda: drop(sender)
        self._on_event: Sink = lambda event: on_event(generation, sender, event)
        self._bytes = bytearray()
        self._closed: StreamClosed | None = None
        connection.sink = self._keep

    def let_in(self) -> None:
        """Its network has begun: reports the kept events, and later ones as they happen."""
        self.connection.sink = self._on_event
        self._on_event(StreamOpened())
        self._on_event(StreamReceived(bytes(self._bytes)))
        self._bytes.clear()
        if self._closed is not None:
            self._on_event(self._closed)

    def _keep(self, event: ConnectionEvent) -> None:
        match event:
            case StreamReceived(chunk=chunk):
                self._bytes += chunk
                if len(self._bytes) > EARLY_BYTES_MAX and not self.begun:
                    self.connection.pause(True)
            case StreamClosed():
                self._closed = event
                if not self.begun:
                    self._drop()


PENDING_MAX: Final = 64
GREETING_TIMEOUT_US: Final = 3_000_000

Admit = Callable[[Header, ByteStream], bool]
"""Called with a greeting: sets the connection's sink, or refuses with False."""

Verify = Callable[[DaemonId, ByteStream], None]
"""Called with the sender of a greeting: raises PeerError if the connection belongs to another one."""


def _believe(_sender: DaemonId, _connection: ByteStream) -> None:
    """The default: a greeting is believed."""


@dataclass(slots=True)
class _Pending:
    """A connection without a complete greeting."""

    address: Address
    since_us: int
    said: bytes = b""


class PendingStreams:
    """Accepted connections whose greeting is not complete; `welcome` is the callback of a listener."""

    def __init__(
        self,
        loop: Loop,
        cluster: int,
        admit: Admit,
        traffic: SocketCounters | None = None,
        verify: Verify = _believe,
        hosts: Collection[str] = (),  # Those of daemons.
    ) -> None:
        self.traffic = traffic or SocketCounters()
        self.tls: DaemonTls | None = None
        self.foreign: Foreign = _nobody_asks
        self._loop = loop
        self._cluster = cluster
        self._admit = admit
        self._verify = verify
        self._hosts = hosts
        self._pending: dict[ByteStream, _Pending] = {}  # The oldest first.
        self._alarm = loop.alarm(self._send_late_ones_away)

    def welcome(self, accepted: TcpConnection, address: Address) -> None:
        """Takes an accepted connection; more than PENDING_MAX close another one."""
        connection: ByteStream = accepted
        if self.tls is not None:
            connection = self._with_tls(accepted, self.tls, address)
        connection.sink = lambda event: self._hear(connection, event)
        if len(self._pending) == PENDING_MAX:
            self._refuse(min(self._pending, key=self._worth), Drop.LIMIT)
        self._pending[connection] = _Pending(address, self._loop.now_us())
        self._set_alarm()

    def close(self) -> None:
        """Closes all connections that are pending."""
        for connection in self._pending:
            connection.close()
        self._pending.clear()

    def _with_tls(self, accepted: TcpConnection, tls: DaemonTls, address: Address) -> TlsConnection:
        def refused(error: PeerError) -> None:
            self.traffic.dropped[error.reason] += 1
            self.foreign(address, error.detail)

        return TlsConnection(self._loop, accepted, tls.accepting, refused, None)

    def _worth(self, connection: ByteStream) -> tuple[bool, bool]:
        """The connection with the least value is closed first; of equals the oldest."""
        return connection.authenticated, self._pending[connection].address[0] in self._hosts

    def _hear(self, connection: ByteStream, event: ConnectionEvent) -> None:
        match event:
            case StreamReceived(chunk=chunk):
                pending = self._pending[connection]
                pending.said += chunk
                if len(pending.said) >= GREETING_BYTES:
                    self._introduce(connection, pending)
            case StreamClosed():
                del self._pending[connection]

    def _introduce(self, connection: ByteStream, pending: _Pending) -> None:
        try:
            header = decode_greeting(pending.said, self._cluster)
            self._verify(header.sender, connection)
        except PeerError as error:
            if error.reason is Drop.CERTIFICATE:
                self.foreign(pending.address, error.detail)
            elif self.tls is None and shows_tls(pending.said):
                self.foreign(pending.address, "it speaks TLS, and this daemon has no keys")
            self._refuse(connection, error.reason)
            return
        if not self._admit(header, connection):
            self._refuse(connection, Drop.FOREIGN_SENDER)
            return
        del self._pending[connection]
        connection.sink(StreamOpened())
        connection.sink(StreamReceived(pending.said))

    def _refuse(self, connection: ByteStream, reason: Drop) -> None:
        self.traffic.dropped[reason] += 1
        del self._pending[connection]
        connection.close()

    def _send_late_ones_away(self) -> None:
        too_late_us = self._loop.now_us() - GREETING_TIMEOUT_US
        for connection in [one for one, its in self._pending.items() if its.since_us <= too_late_us]:
            self._refuse(connection, Drop.TRUNCATED)
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Sets the alarm for the oldest pending connection, which is the first."""
        for oldest in self._pending.values():
            self._alarm.set(oldest.since_us + GREETING_TIMEOUT_US)
            return
