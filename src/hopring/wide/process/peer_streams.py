"""Connections to other clusters on real sockets: TLS 1.3, or clear text on loopback.

Implements  Makpangou and Birman, 5.1: access points are tried in turn.
Below       asyncio's sockets; certificates of `hop keys` (credentials/daemon_tls.py).
Above       process/member_process.py, which hands frames to the core.
Invariants  a length is checked before anything of that length is kept. A cluster is heard only as the one that
            its certificate names. At most ACCEPTING_MAX connections are between `accept` and the core.
"""

import asyncio
import random
import socket
import ssl
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from hopring.credentials.certificates import daemon_named
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.log import DaemonLog
from hopring.errors import Drop, PeerError
from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import FRAME_BYTES_MAX, Greeting, LinkFrame, LinkFrameReader, encode_frame
from hopring.haul.member_events import ConnectionId
from hopring.wide.clusters_file import AccessPoint, ClustersFile

CONNECT_SECONDS: Final = 3.0
"""How long an attempt at one access point takes at most, with its handshake."""

GOODBYE_SECONDS: Final = 3.0
"""What was sent on a connection that is ended has this time to go."""

ACCEPTING_MAX: Final = 64
"""Accepted connections whose handshake is under way; further ones wait in the listen backlog."""

BACKLOG: Final = 128
ACCEPT_PAUSE_SECONDS: Final = 0.2


class StreamUser(Protocol):
    """Is told what happens to connections."""

    def peer_connected(self, connection: ConnectionId) -> None:
        """Another cluster has connected to this process."""
        ...

    def frame_arrived(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """A frame of a connection, in its order."""
        ...

    def connection_lost(self, connection: ConnectionId) -> None:
        """A connection has ended, not by this process."""
        ...


class PeerStream(asyncio.Protocol):
    """One connection to another cluster."""

    def __init__(self, owner: "PeerStreams", connection: ConnectionId) -> None:
        self.id = connection
        self.shown = ""  # The cluster that the certificate names; empty in clear text.
        self.over = False  # Ended by this process, or lost: nothing of it is heard any more.
        self._owner = owner
        self._reader = LinkFrameReader()
        self._transport: asyncio.Transport | None = None
        self._early = b""  # What arrives before the core knows of the connection.
        self._known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake of the connection is complete."""
        assert isinstance(transport, asyncio.Transport), "a stream of bytes"
        self._transport = transport

    @property
    def uris(self) -> list[str]:
        """The names in the certificate of the other end."""
        channel = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        certificate = (None if channel is None else channel.getpeercert()) or {}
        return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]

    def begin(self) -> None:
        """The core knows of the connection: what has arrived is for it."""
        self._known = True
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Hands up the frames that are complete with these bytes."""
        if not self._known:
            self._early += data
            return
        self._reader.feed(data)
        while not self.over:
            try:
                frame = self._reader.next()
                if isinstance(frame, Greeting):
                    self._owner.check_greeting(self, frame)
                    self._reader.bytes_max = FRAME_BYTES_MAX
            except PeerError as error:
                self._owner.refuse(self, error)
                return
            if frame is None:
                return
            self._owner.user.frame_arrived(self.id, frame)

    def connection_lost(self, _error: Exception | None) -> None:
        """The other end, or the network, has ended it."""
        self._owner.lost(self)

    def send(self, frame: LinkFrame) -> None:
        """Sends a frame; the windows of the sets limit what waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode_frame(frame))

    def end(self, *, at_once: bool) -> None:
        """Closes it, when what was sent has gone or at once."""
        self.over = True
        transport = self._transport
        if transport is None:
            return
        if at_once:
            transport.abort()
        else:
            transport.close()
            asyncio.get_running_loop().call_later(GOODBYE_SECONDS, transport.abort)


class PeerStreams:
    """All connections of one process, and its listener."""

    def __init__(
        self, file: ClustersFile, tls: DaemonTls | None, log: DaemonLog, user: StreamUser, dice: random.Random
    ) -> None:
        self.user = user
        self.refused: Counter[str] = Counter()
        self.cut: set[ClusterId] = set()  # Peers that a test has cut off.
        self._file = file
        self._tls = tls
        self._log = log
        self._dice = dice
        self._streams: dict[ConnectionId, PeerStream] = {}
        self._peers: dict[ConnectionId, ClusterId] = {}  # As far as it is known who is at the other end.
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._free = asyncio.Semaphore(ACCEPTING_MAX)

    # Accepting.

    def listen(self, at: AccessPoint) -> None:
        """Takes the address for connections of other clusters; OSError if it cannot be had."""
        family = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(family[4][:2], family=family[0], backlog=BACKLOG)
        listener.setblocking(False)
        self._listener = listener

    def accept(self) -> None:
        """Accepts connections from here on."""
        assert self._listener is not None, "it listens"
        self._run(self._accept(self._listener))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._free.acquire()
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._free.release()
                self._log.say("warning", what=f"cannot accept connections: {error}")
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)  # No descriptor is free, for example.
                continue
            self._run(self._shake_hands(accepted))

    async def _shake_hands(self, accepted: socket.socket) -> None:
        address = str(accepted.getpeername()[0]) if accepted.fileno() >= 0 else ""
        stream = self._new()
        try:
            context = None if self._tls is None else self._tls.accepting
            loop = asyncio.get_running_loop()
            made = loop.connect_accepted_socket(
                lambda: stream, accepted, ssl=context, ssl_handshake_timeout=self._handshake_seconds()
            )
            async with asyncio.timeout(CONNECT_SECONDS):
                await made
            self._check_certificate(stream, None)
        except (OSError, PeerError, TimeoutError) as error:
            accepted.close()
            self._count_refused(address, error)
            stream.end(at_once=True)
            return
        finally:
            self._free.release()
        if stream.over:
            return  # It is lost already.
        self._streams[stream.id] = stream
        self.user.peer_connected(stream.id)
        stream.begin()

    # Dialling.

    def dial(self, peer: ClusterId) -> asyncio.Task[ConnectionId | None]:
        """Tries the access points of a cluster in turn; None if none of them answers."""
        return asyncio.create_task(self._dial(peer))

    async def _dial(self, peer: ClusterId) -> ConnectionId | None:
        name = self._file.name_of(peer)
        cluster = self._file.cluster(name)
        points = [] if cluster is None else list(cluster.access)
        self._dice.shuffle(points)
        for point in points if peer not in self.cut else []:
            stream = self._new()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connect(stream, point)
                self._check_certificate(stream, name)
                if stream.over:
                    raise ConnectionError("it was closed at once")
            except (OSError, PeerError, TimeoutError) as error:
                self._log.say("no_answer", cluster=name, at=point, reason=_reason(error))
                stream.end(at_once=True)
                continue
            self._streams[stream.id], self._peers[stream.id] = stream, peer
            return stream.id
        if not points or peer in self.cut:
            await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
        return None

    async def _connect(self, stream: PeerStream, point: AccessPoint) -> None:
        context = None if self._tls is None else self._tls.dialling
        await asyncio.get_running_loop().create_connection(
            lambda: stream,
            point.host,
            point.port,
            ssl=context,
            server_hostname=None if context is None else point.host,
            ssl_handshake_timeout=self._handshake_seconds(),
        )

    def known(self, connection: ConnectionId) -> None:
        """The core knows of a connection that was dialled: frames are handed up from here on."""
        if connection in self._streams:
            self._streams[connection].begin()

    # One connection.

    def send(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """Sends a frame, if the connection is still there."""
        if connection in self._streams:
            self._streams[connection].send(frame)

    def end(self, connection: ConnectionId) -> None:
        """Closes a connection when what was sent has gone."""
        stream = self._streams.pop(connection, None)
        self._peers.pop(connection, None)
        if stream is not None:
            stream.end(at_once=False)

    def check_greeting(self, stream: PeerStream, greeting: Greeting) -> None:
        """A cluster speaks as the one that its certificate names, and only by a link that is not cut."""
        name = self._file.name_of(greeting.cluster)
        if stream.shown and name != stream.shown:
            detail = f"cluster {name} greets with the certificate of {stream.shown}"
            raise PeerError(Drop.CERTIFICATE, detail)
        if greeting.cluster in self.cut:
            raise PeerError(Drop.UNMET, f"the link to {name} is cut")
        self._peers[stream.id] = greeting.cluster

    def refuse(self, stream: PeerStream, error: PeerError) -> None:
        """The other end has sent what no correct one sends: its connection ends."""
        self.refused[error.reason] += 1
        self._log.say("refused", cluster=stream.shown or "unknown", reason=str(error))
        stream.end(at_once=True)
        self._gone(stream)

    def lost(self, stream: PeerStream) -> None:
        """One of the connections has ended."""
        if not stream.over:
            stream.over = True
            self._gone(stream)

    def _gone(self, stream: PeerStream) -> None:
        self._peers.pop(stream.id, None)
        if self._streams.pop(stream.id, None) is not None:
            self.user.connection_lost(stream.id)

    def cut_off(self, peers: set[ClusterId]) -> None:
        """For tests: ends the connections to these clusters, and makes no others."""
        self.cut = peers
        for connection in [one for one, peer in self._peers.items() if peer in peers]:
            stream = self._streams.get(connection)
            if stream is not None:
                stream.end(at_once=True)
                self._gone(stream)

    async def close(self) -> None:
        """Ends the listener and all connections."""
        for task in list(self._tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._streams):
            self.end(connection)

    # Parts.

    def _new(self) -> PeerStream:
        self._count += 1
        return PeerStream(self, ConnectionId(self._count))

    def _handshake_seconds(self) -> float | None:
        return None if self._tls is None else CONNECT_SECONDS

    def _check_certificate(self, stream: PeerStream, name: str | None) -> None:
        """PeerError unless the other end is a cluster of the file, and the one that was dialled."""
        if self._tls is None:
            return
        shown = daemon_named(stream.uris, self._file.wide)
        if shown is None or self._file.cluster(shown) is None or name not in (None, shown):
            whom = "a cluster of the clusters file" if name is None else name
            detail = f"its certificate is for {' '.join(stream.uris) or 'nobody'}, not for {whom}"
            raise PeerError(Drop.CERTIFICATE, detail)
        stream.shown = shown

    def _count_refused(self, address: str, error: Exception) -> None:
        kind = Drop.CERTIFICATE if isinstance(error, ssl.SSLCertVerificationError) else Drop.HANDSHAKE
        self.refused[error.reason if isinstance(error, PeerError) else kind] += 1
        self._log.say("refused", address=address, reason=_reason(error))

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return str(error) or type(error).__name__
