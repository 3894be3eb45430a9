"""TLS handshakes of clients: from an accepted connection to an encrypted channel, within limits.

Below       a listener, which hands over accepted sockets.
Above       the server of clients, which gets a socket when its channel is complete.
Invariants  a handshake has HANDSHAKE_US, and there are at most HANDSHAKES_MAX; a round of the loop does
            STEPS_MAX steps of handshakes at most, so that other work is not held up; whoever has sent nothing
            costs a descriptor and no more.

One connection too many closes the oldest one of the host that has most of them: a host that opens many of them
closes its own. At the rate of the listener, each has about half a second before that.
"""

import socket
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hopring.config.access import is_user
from hopring.credentials.certificates import user_named
from hopring.credentials.daemon_tls import DaemonTls
from hopring.credentials.tls_session import NOT_TLS, CertificateRefused, TlsSession, shows_tls
from hopring.daemon.clients.connection import peer_of
from hopring.daemon.loop.event_loop import READABLE, Loop
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER
from hopring.session.frames import MAGIC, PREAMBLE
from hopring.session.protocol import ErrorNotice, encode_control

HANDSHAKES_MAX: Final = 256
"""One that has begun takes about 80 KB, nearly all of it in OpenSSL."""

HANDSHAKE_US: Final = 3_000_000
STEPS_MAX: Final = 2
"""Steps of handshakes in one round of the loop; one takes up to half a millisecond."""

TOO_MANY: Final = "too_many"
TIMEOUT: Final = "timeout"
"""Reasons of refusals beside those in `Drop`."""

_READ_BYTES: Final = 1 << 14
_CLEAR: Final = encode_control(
    ErrorNotice("this port is for TLS", "", "write hops:// in the URL and give ca=, or use the client_port")
)


@dataclass(slots=True)
class _Handshake:
    sock: socket.socket
    host: str
    peer: str  # For the log.
    until_us: int
    session: TlsSession | None = None  # Made when the first bytes arrive.
    digest: bytes = b""  # Of the certificate that the session shows.
    ended: bool = False  # Refused: the socket stays until the client has had time to read the reason.
    waiting: bool = False  # For a round of the loop in which a step may be done.


@dataclass(frozen=True, slots=True)
class EncryptedClient:
    """A client whose handshake is complete."""

    sock: socket.socket
    session: TlsSession
    data: bytes  # What it has sent behind its handshake.
    digest: bytes  # Of the certificate that it was shown.
    user: str  # That its own certificate names; empty if it has shown none.
    expires_seconds: int | None  # When that certificate expires, as Unix time.
    certificate: bytes  # The digest of that certificate; empty if it has shown none.


class TlsHandshakes:
    """All handshakes of clients that are not complete."""

    def __init__(
        self,
        loop: Loop,
        tls: DaemonTls,
        complete: Callable[[EncryptedClient], None],
        refused: Callable[[str, str, str], None],
    ) -> None:
        """`refused` is called with the client's address, the reason for counters, and the details."""
        self.tls = tls
        """The certificate of the daemon, for further handshakes."""
        self._loop = loop
        self._complete = complete
        self._refused = refused
        self._pending: dict[int, _Handshake] = {}  # By descriptor, the oldest first.
        self._hosts: Counter[str] = Counter()
        self._waiting: deque[_Handshake] = deque()
        self._work_due = False
        self._alarm = loop.alarm(self._expire)

    def __len__(self) -> int:
        """The number of descriptors that handshakes take."""
        return len(self._pending)

    def welcome(self, sock: socket.socket) -> None:
        """Takes over an accepted, non-blocking socket."""
        peer = peer_of(sock)
        one = _Handshake(sock, peer.partition(" port ")[0], peer, self._loop.now_us() + HANDSHAKE_US)
        self._pending[sock.fileno()] = one
        self._hosts[one.host] += 1
        self._loop.register(sock.fileno(), lambda _events: self._readable(one))
        if len(self._pending) > HANDSHAKES_MAX:
            victim = self._one_too_many()
            self._refused(victim.peer, TOO_MANY, f"more than {HANDSHAKES_MAX} handshakes at a time")
            self._drop(victim)
        self._set_alarm()

    def close(self) -> None:
        """Ends all handshakes, and closes their sockets."""
        for one in list(self._pending.values()):
            self._drop(one)
        self._alarm.set(NEVER)

    def _one_too_many(self) -> _Handshake:
        host = max(self._hosts.items(), key=lambda item: item[1])[0]
        return next(one for one in self._pending.values() if one.host == host)

    def _readable(self, one: _Handshake) -> None:
        if not one.waiting:
            one.waiting = True
            self._loop.modify(one.sock.fileno(), 0)
            self._waiting.append(one)
            self._work_soon()

    def _work_soon(self) -> None:
        if not self._work_due:
            self._work_due = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._work_due = False
        for _ in range(min(STEPS_MAX, len(self._waiting))):
            one = self._waiting.popleft()
            if one.waiting:  # Not dropped meanwhile.
                one.waiting = False
                self._step(one)
        if self._waiting:
            self._work_soon()

    def _step(self, one: _Handshake) -> None:
        try:
            chunk = one.sock.recv(_READ_BYTES)
        except BlockingIOError:
            self._loop.modify(one.sock.fileno(), READABLE)
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._drop(one)  # It has gone, which is no offence.
            return
        if one.ended:
            self._loop.modify(one.sock.fileno(), READABLE)
            return
        try:
            data = self._advance(one, chunk)
            user = self._user(one)
        except PeerError as error:
            self._refuse(one, error)
            return
        assert one.session is not None, "it has begun"
        if one.session.established:
            self._remove(one)
            expires, shown = one.session.peer_expires_seconds, one.session.peer_digest
            self._complete(EncryptedClient(one.sock, one.session, data, one.digest, user, expires, shown))
        else:
            self._loop.modify(one.sock.fileno(), READABLE)

    def _advance(self, one: _Handshake, chunk: bytes) -> bytes:
        """Hands bytes to TLS, and sends its answer; PeerError if the client is refused."""
        if one.session is None:
            if len(chunk) > 1 and not shows_tls(chunk):
                if chunk.startswith(MAGIC):
                    self._send(one, PREAMBLE + _CLEAR)
                raise PeerError(Drop.CLEAR_TEXT, NOT_TLS)
            one.session = TlsSession(self.tls.clients, accepts=True)
            one.digest = self.tls.digest
        data = one.session.receive(chunk)
        if not self._send(one, one.session.take()):
            raise PeerError(Drop.HANDSHAKE, "it does not read the answers")
        return data

    def _user(self, one: _Handshake) -> str:
        """The user that the certificate of a client names; empty without one. PeerError if it names no user."""
        session = one.session
        if session is None or not session.established or not session.peer_digest:
            return ""
        user = user_named(session.uris, self.tls.cluster)
        if user is None or not is_user(user):
            shown = " ".join(session.uris) or "nobody"
            raise CertificateRefused(f"its certificate is for {shown}, not for a user of {self.tls.cluster}")
        return user

    def _send(self, one: _Handshake, out: bytes) -> bool:
        """Sends all of a short answer; a new socket has room for it."""
        try:
            return not out or one.sock.send(out) == len(out)
        except OSError:
            return False

    def _refuse(self, one: _Handshake, error: PeerError) -> None:
        self._refused(one.peer, error.reason, error.detail)
        if one.session is not None:
            self._send(one, one.session.take())  # An alert.
        one.ended = True
        # What it sends still is read and dropped: a reset would discard our last bytes at the client.
        with suppress(OSError):
            one.sock.shutdown(socket.SHUT_WR)
        self._loop.modify(one.sock.fileno(), READABLE)

    def _expire(self) -> None:
        now_us = self._loop.now_us()
        for one in list(self._pending.values()):
            if one.until_us > now_us:
                break  # They are ordered by time.
            if not one.ended:
                self._refused(one.peer, TIMEOUT, f"no TLS handshake within {HANDSHAKE_US // 1_000_000} s")
            self._drop(one)
        self._set_alarm()

    def _set_alarm(self) -> None:
        for one in self._pending.values():
            self._alarm.set(one.until_us)
            return
        self._alarm.set(NEVER)

    def _drop(self, one: _Handshake) -> None:
        self._remove(one)
        one.sock.close()

    def _remove(self, one: _Handshake) -> None:
        one.waiting = False
        del self._pending[one.sock.fileno()]
        self._hosts[one.host] -= 1
        if not self._hosts[one.host]:
            del self._hosts[one.host]
        self._loop.unregister(one.sock.fileno())
