"""Connects an asyncio session to its daemon: an asyncio protocol object for each connection."""

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

from hopring.client.arguments import parse_url
from hopring.client.connection import SHORT_BYTES, DaemonConnection
from hopring.client.core import NO_DAEMON
from hopring.client.sockets import expect_blocks, now_us, reason_of, tune

READ_BYTES: Final = 256 * 1024

if TYPE_CHECKING:
    from hopring.client.aio import Session


class AioTransport(asyncio.BufferedProtocol):
    """One connection of a session in the event loop: feeds received bytes to the core and wakes readers."""

    def __init__(self, session: "Session", connection: DaemonConnection) -> None:
        self._session = session
        self._connection = connection
        self.transport: asyncio.Transport | None = None
        expect_blocks()
        # One buffer for all reads: a new one for each would be allocated from the kernel, and given back.
        self._buffer = memoryview(bytearray(READ_BYTES))

    @property
    def _is_current(self) -> bool:
        return self._connection is self._session._core.connection and self._connection.ended is None

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
        self._session._flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  A hint.
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        session, connection = self._session, self._connection
        core = session._core
        if connection is not core.connection or connection.ended is not None:
            return
        chunk = self._buffer[:nbytes]
        core.receive(chunk.tobytes() if nbytes <= SHORT_BYTES else chunk, now_us())
        if connection.ended is not None or session._timer is not None:
            session._check_connection()
            return
        if not session._flush_due and connection.has_output:
            session._flush_soon()
        if session._waiters:
            session._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_current:
            reason = "the daemon is gone" if exc is None else f"the connection broke ({exc})"
            self._session._core.lost(reason, now_us())
            self._session._check_connection()


async def dial(session: "Session", url: str) -> None:
    """Connects; reports a failure to the session's core."""
    where, loop, connection = parse_url(url), asyncio.get_running_loop(), session._core.connection
    try:
        if where.path:
            await loop.create_unix_connection(lambda: AioTransport(session, connection), where.path)
        else:
            await loop.create_connection(lambda: AioTransport(session, connection), where.host, where.port)
    except (OSError, UnicodeError) as error:  # UnicodeError: the host name is not valid.
        if connection is session._core.connection:
            session._core.lost(reason_of(error), now_us(), NO_DAEMON)
            session._check_connection()
