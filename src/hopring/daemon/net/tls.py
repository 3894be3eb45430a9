"""TLS 1.3 between a TCP connection and its user, without blocking; `TlsSession` works on buffers in memory.

Below       a TcpConnection.
Above       the user of a connection: a TlsConnection has the interface of a TcpConnection, and reports `Opened`
            when the handshake is complete and the certificate of the other end was accepted.
Invariants  nothing of the other end is handed up before its certificate was checked; `Written` counts the bytes
            of the user, each once, when the kernel has accepted the whole write that had them.
"""

import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from hopring.credentials.tls_session import TlsSession
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.tcp import OUT_BYTES_MAX, ByteStream, ConnectionEvent, TcpConnection, ignore_event
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER
from hopring.links.events import StreamClosed, StreamObserved, StreamOpened, StreamReceived, StreamWritten

HANDSHAKE_TIMEOUT_US: Final = 3_000_000
"""From an open connection to a complete handshake, for the end that dials."""

Refused = Callable[[PeerError], None]
"""Called when a connection is refused because of its handshake or certificate."""


class TlsConnection(ByteStream):
    """A connection of daemons with TLS, ours or accepted; it owns the connection below."""

    def __init__(
        self,
        loop: Loop,
        below: TcpConnection,
        context: ssl.SSLContext,
        refused: Refused,
        peer: str | None,
    ) -> None:
        """`peer` is the URI of the daemon that was dialled; None if the connection was accepted."""
        super().__init__()
        self._loop = loop
        self._below = below
        self._session = TlsSession(context, accepts=peer is None)
        self._refused = refused
        self._peer = peer
        self._waiting: list[bytes] = []  # Written before the handshake was complete.
        self._waiting_bytes = 0
        self._moving: deque[tuple[int, int]] = (
            deque()
        )  # Bytes of TLS in the kernel's way, and the user's of them.
        self._gone = False
        self._too_late = loop.alarm(self._expire)
        below.sink = self._hear

    @property
    def uris(self) -> list[str]:
        """The names in the certificate of the other end, once the connection is open."""
        return self._session.uris

    @property
    def authenticated(self) -> bool:
        """Whether the certificate of the other end was accepted."""
        return self._session.established

    @property
    def out_bytes(self) -> int:
        """Bytes that were written and that the kernel has not accepted, as encrypted."""
        return self._below.out_bytes + self._waiting_bytes

    def write(self, data: bytes) -> None:
        """Sends at the end of the turn, behind all earlier writes; after the end it does nothing."""
        if self._gone:
            return
        if self._session.established:
            self._encrypt(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > OUT_BYTES_MAX:
            self._end(f"more than {OUT_BYTES_MAX} bytes wait for the connection")

    def close(self) -> None:
        """Closes the connection without an event to the sink; unsent bytes are lost."""
        self._gone = True
        self._too_late.drop()
        self._waiting.clear()
        self._below.close()
        self.sink = ignore_event

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading, writing and noticing an end; for cuts by the admin channel."""
        self._below.pause(paused)

    def observe(self) -> None:
        """Reports the kernel's measurements of the connection; nothing while it is paused or opening."""
        if self._session.established:
            self._below.observe()

    def _hear(self, event: ConnectionEvent) -> None:
        if self._gone:
            return
        match event:
            case StreamReceived(chunk=chunk):
                self._receive(chunk)
            case StreamWritten(count_bytes=count_bytes):
                self._written(count_bytes)
            case StreamObserved():
                self.sink(event)
            case StreamOpened():
                self._too_late.set(self._loop.now_us() + HANDSHAKE_TIMEOUT_US)
                self._session.begin()
                self._forward(0)
            case StreamClosed(reason=reason):
                shaking = not self._session.established
                self._end(f"{reason} during the TLS handshake" if shaking else reason)

    def _receive(self, chunk: bytes) -> None:
        was_open = self._session.established
        try:
            data = self._session.receive(chunk)
            if self._session.established and not was_open:
                self._check_peer()
        except PeerError as error:
            self._refuse(error)
            return
        self._forward(0)
        if self._session.established and not was_open:
            self._open()
        if data and not self._gone:
            self.sink(StreamReceived(data))
        if self._session.ended and not self._gone:
            self._end("closed by the other end")

    def _check_peer(self) -> None:
        if self._peer is not None and self._peer not in self.uris:
            shown = " ".join(self.uris) or "nobody"
            raise PeerError(Drop.CERTIFICATE, f"its certificate is for {shown}, not for {self._peer}")

    def _open(self) -> None:
        self._too_late.set(NEVER)
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self.sink(StreamOpened())
        for data in waiting:
            self.write(data)

    def _encrypt(self, data: bytes) -> None:
        self._session.encrypt(data)
        self._forward(len(data))

    def _forward(self, user_bytes: int) -> None:
        """Writes what TLS has for the other end; it carries so many bytes of the user."""
        out = self._session.take()
        if out:
            self._moving.append((len(out), user_bytes))
            self._below.write(out)

    def _written(self, count_bytes: int) -> None:
        done_bytes = 0
        while count_bytes:
            size, user_bytes = self._moving.popleft()
            if count_bytes < size:
                self._moving.appendleft((size - count_bytes, user_bytes))
                break
            count_bytes -= size
            done_bytes += user_bytes
        if done_bytes:
            self.sink(StreamWritten(done_bytes))

    def _expire(self) -> None:
        if not self._gone:
            self._refuse(PeerError(Drop.TRUNCATED, "no TLS handshake in time"))

    def _refuse(self, error: PeerError) -> None:
        self._refused(error)
        self._forward(0)  # An alert says the reason to the other end.
        self._end(f"TLS: {error.detail}")

    def _end(self, reason: str) -> None:
        """Reports the end, and closes when the last bytes of this turn are with the kernel."""
        self._gone = True
        self._too_late.drop()
        self._waiting.clear()
        self._loop.call_soon(self._below.close)
        sink, self.sink = self.sink, ignore_event
        sink(StreamClosed(reason))
