"""Connects an asyncio session to its daemon: an asyncio protocol object for each connection."""

import asyncio
import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from hopring.client.arguments import parse_url
from hopring.client.connection import SHORT_BYTES, DaemonConnection, EncryptedChannel
from hopring.client.core import CUT_HANDSHAKE, NO_DAEMON, SEE_LOG
from hopring.client.peer_url import PeerUrl
from hopring.client.sockets import expect_blocks, now_us, reason_of, tune
from hopring.errors import ChannelRefused

READ_BYTES: Final = 256 * 1024

if TYPE_CHECKING:
    from hopring.client.aio import Session


class AioTransport(asyncio.BufferedProtocol):
    """One connection of a session in the event loop: feeds received bytes to the core and wakes readers."""

    def __init__(
        self, session: "Session[Any]", connection: DaemonConnection, channel: EncryptedChannel | None
    ) -> None:
        self._session = session
        self._connection = connection
        self.channel = channel
        """TLS of this connection; None for clear text."""
        self.transport: asyncio.Transport | None = None
        expect_blocks()
        # One buffer for all reads: a new one for each would be allocated from the kernel, and given back.
        self._buffer = memoryview(bytearray(READ_BYTES))

    @property
    def _is_current(self) -> bool:
        return self._connection is self._session._core.connection and self._connection.ended is None

    @property
    def ready(self) -> bool:
        """Whether output of the session may be sent: with TLS, once the daemon's certificate was checked."""
        return self.channel is None or self.channel.established

    def close(self, *, at_once: bool) -> None:
        """Closes the transport, at once or after its output is sent."""
        if self.transport is not None:
            if at_once:
                self.transport.abort()
            else:
                self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of other event loops are no `asyncio.Transport`, but behave alike.
        self.transport = cast("asyncio.Transport", transport)
        if not self._is_current:
            self.transport.abort()  # The session has moved on to another connection.
            return
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            tune(sock)
        self._session._socket = self
        if self.channel is None:
            self._session._flush()
        else:
            self.transport.write(self.channel.begin())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  A hint.
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        session, connection = self._session, self._connection
        core = session._core
        if connection is not core.connection or connection.ended is not None:
            return
        chunk = self._buffer[:nbytes]
        if self.channel is None:
            core.receive(chunk.tobytes() if nbytes <= SHORT_BYTES else chunk, now_us())
        elif data := self._decrypt(chunk, self.channel):
            core.receive(data, now_us())
        if connection.ended is not None or session._timer is not None:
            session._check_connection()
            return
        if session._calls is not None:
            session._calls.received()
        if session._flush_groups is not None:
            session._flush_groups.received()
        for one in session._listeners:
            one.received()
        if session._holding:
            session._check_locks()
        if not session._flush_due and connection.has_output:
            session._flush_soon()
        if session._waiters:
            session._wake()

    def _decrypt(self, chunk: memoryview, channel: EncryptedChannel) -> bytes:
        """The frames in bytes of TLS; none while the handshake lasts, or if it fails."""
        assert self.transport is not None, "bytes come from there"
        was_ready = channel.established
        data = b""
        try:
            data = channel.receive(chunk)
        except ChannelRefused as refused:
            self.transport.write(channel.take())  # An alert tells the daemon why.
            self._session._core.lost(refused.reason, now_us(), refused.remedy)
            return b""
        if out := channel.take():
            self.transport.write(out)
        if channel.established and not was_ready:
            self._connection.encrypted(channel)
            self._session._flush()
        return data

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_current and not self.ready:
            self._session._core.lost(CUT_HANDSHAKE, now_us(), SEE_LOG)
            self._session._check_connection()
        elif self._is_current:
            reason = "the daemon is gone" if exc is None else f"the connection broke ({exc})"
            self._session._core.lost(reason, now_us())
            self._session._check_connection()


async def dial(session: "Session[Any]", url: str) -> None:
    """Connects; reports a failure to the session's core."""
    where, loop, connection = parse_url(url), asyncio.get_running_loop(), session._core.connection
    channel = session._core.open_channel(now_us()) if where.tls else None
    if where.tls and channel is None:
        session._check_connection()
        return
    try:
        if where.peer is not None:
            sock = await _attach(where.peer, loop)
            await loop.create_unix_connection(lambda: AioTransport(session, connection, None), sock=sock)
        elif where.path:
            await loop.create_unix_connection(lambda: AioTransport(session, connection, None), where.path)
        else:
            await loop.create_connection(
                lambda: AioTransport(session, connection, channel), where.host, where.port
            )
    except ChannelRefused as refused:
        if connection is session._core.connection:
            session._core.lost(refused.reason, now_us(), refused.remedy)
            session._check_connection()
    except (OSError, UnicodeError) as error:  # UnicodeError: the host name is not valid.
        if connection is session._core.connection:
            session._core.lost(reason_of(error), now_us(), NO_DAEMON)
            session._check_connection()


async def _attach(peer: PeerUrl, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Starts the peer of a session; returns the session's end of the connection."""
    if peer.host == "loop":
        ours: socket.socket = import_module("hopring.peer.in_loop").attach_in_loop(peer, loop)
    else:
        # Not in this thread: to start a process takes a while.
        ours = await asyncio.to_thread(import_module("hopring.peer.attach").attach, peer)
    ours.setblocking(False)
    return ours
