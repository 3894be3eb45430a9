"""The session server on real sockets, above an engine."""

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hopring.config.access import ANONYMOUS
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.clients.authentication import left_us, uid_identity
from hopring.daemon.clients.connection import (
    CONNECTS_BURST,
    CONNECTS_PER_SECOND,
    ClientConnection,
    ClientListener,
    peer_uid,
)
from hopring.daemon.clients.listening import ClientAddresses, open_spread, open_tcp, open_unix
from hopring.daemon.clients.tls_handshakes import EncryptedClient, TlsHandshakes
from hopring.daemon.engines.host import EngineHost
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.engine import EngineOutput, Resume, Withdraw
from hopring.groups.groups import Groups
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.links.hop.pacing import Bucket
from hopring.session.access import Authenticator
from hopring.session.backlog import Spills
from hopring.session.dialect import Dialect
from hopring.session.events import (
    AccessNote,
    BytesReceived,
    Close,
    ConnectionLost,
    ConnectionOpened,
    Input,
    Listen,
    Output,
    OutputReady,
    Pause,
)
from hopring.session.grants import GrantsTable
from hopring.session.options import SessionOptions
from hopring.session.server import SessionServer
from hopring.spread.dialect import SpreadDialect

_NOWHERE: Final = "0.0.0.0"  # The address of a client that has closed already.


class ClientServer:
    """All clients of one daemon, above an engine that was made with `groups.interest`."""

    def __init__(
        self,
        loop: Loop,
        log: DaemonLog,
        host: EngineHost,
        groups: Groups,
        addresses: ClientAddresses,
        options: SessionOptions | None = None,
        spills: Spills | None = None,
        order: Sequence[str] = (),
        connections_max: int | None = None,
        tls: DaemonTls | None = None,
    ) -> None:
        """Listens; BindError if it cannot. The order is that of the daemons in the configuration file.

        With `connections_max` connections, further ones wait in the listen backlog: other descriptors are kept
        for links, admin and metrics.
        """
        self.session_server = SessionServer(groups, host.payload_bytes_max, options, spills)
        self._loop = loop
        self._log = log
        self._host = host
        self._connections: dict[int, ClientConnection] = {}
        self._connections_max = connections_max
        self._count = 0
        self._submit_due = False
        self._gathering = False  # Outputs of the engine are being handled: connections send after the last.
        self._ready: dict[int, None] = {}  # These connections.
        self._alarm = loop.alarm(lambda: self._step(Tick()))
        self._listeners: list[ClientListener] = []
        self._paths: list[Path] = []  # Of Unix sockets.
        self._rate = Bucket(CONNECTS_PER_SECOND, CONNECTS_BURST)
        self._leaving = False
        self._handshakes: TlsHandshakes | None = None
        self.tls_refused: Counter[str] = Counter()
        """How often clients were refused before their TLS handshake was complete, by reason."""
        self._spread: SpreadDialect | None = None
        self.audit: Callable[[AccessNote, str], None] | None = None
        """Called with each note for the audit, and the address of the client."""
        self.problems: list[str] = []
        """Why optional listeners are missing, with remedies."""
        self.addresses = addresses
        """Where it listens; optional places that were taken are left out."""
        try:
            if addresses.path is not None:
                self._listen(open_unix(addresses.path), None, addresses.path)
            if addresses.address is not None:
                self._listen(open_tcp(addresses.address))
            if addresses.tls_address is not None:
                assert tls is not None, "the daemon has a certificate"
                self._listen_by_tls(open_tcp(addresses.tls_address, "tls_port", "--listen-tls"), tls)
            if addresses.spread_address is not None:
                self._listen_to_spread(addresses, order)
        except BaseException:
            self.close()
            raise

    def handle_engine_outputs(self, events: Sequence[EngineOutput]) -> None:
        """Handles the engine's outputs of one turn, and sends clients their frames before it returns."""
        self._gathering = True
        for event in events:
            self._step(event)
        self._gathering = False
        ready, self._ready = self._ready, {}
        for number in ready:
            if number in self._connections:  # Closed by a failure of an earlier one.
                self._connections[number].flush()

    @property
    def drained(self) -> bool:
        """Whether all requests of clients are submitted to the engine."""
        return self.session_server.groups.idle

    def go_on(self) -> None:
        """Resumes submission after the engine's pause."""
        self._step(Tick())

    def leave(self) -> None:
        """Accepts no connections and reads no requests from now on."""
        self._leaving = True
        self._stop_listening()

    def end(self) -> None:
        """Tells all clients that the daemon ends."""
        self._carry_out(self.session_server.end_all("the daemon ends", "connect to another daemon"))

    def close(self) -> None:
        """Stops listening, and closes all connections."""
        self._stop_listening()
        if self._handshakes is not None:
            self._handshakes.close()
        for connection in list(self._connections.values()):
            connection.close()

    def change_tls(self, tls: DaemonTls) -> None:
        """Shows another certificate to further clients."""
        if self._handshakes is not None:
            self._handshakes.tls = tls

    def reorder(self, order: Sequence[str]) -> None:
        """Applies another order of the daemons in the configuration file."""
        if self._spread is not None:
            self._spread.reorder(order)

    def _listen_to_spread(self, addresses: ClientAddresses, order: Sequence[str]) -> None:
        session_server = self.session_server
        spread = self._spread = SpreadDialect(
            session_server.groups, session_server.message_bytes_max, lambda: session_server.options, order
        )
        # Anybody on the host can take these places first, so they cost Spread clients only.
        if addresses.spread_address is not None:
            try:
                self._listen(open_tcp(addresses.spread_address, "spread_port"), spread)
            except BindError as error:
                self.problems.append(f"{error}, and restart: Spread clients are not served by TCP")
                self.addresses = replace(self.addresses, spread_address=None)
        if addresses.spread_path is not None:
            try:
                self._listen(open_spread(addresses.spread_path), spread, addresses.spread_path)
            except BindError as error:
                self.problems.append(f"{error}, and restart: Spread clients are not served there")
                self.addresses = replace(self.addresses, spread_path=None)

    def _listen(self, sock: socket.socket, dialect: Dialect | None = None, path: Path | None = None) -> None:
        def welcome(sock: socket.socket) -> None:
            self._admit(sock, dialect)

        self._listeners.append(
            ClientListener(self._loop, sock, welcome, self._rate, self._delayed, self._has_room)
        )
        if path is not None:
            self._paths.append(path)

    def _listen_by_tls(self, sock: socket.socket, tls: DaemonTls) -> None:
        handshakes = TlsHandshakes(self._loop, tls, self._admit_encrypted, self._refuse_handshake)
        # A rate of its own: strangers from elsewhere must not delay the clients of this host.
        rate = Bucket(CONNECTS_PER_SECOND, CONNECTS_BURST)
        self._handshakes = handshakes
        self._listeners.append(
            ClientListener(self._loop, sock, handshakes.welcome, rate, self._delayed, self._has_room)
        )

    def _refuse_handshake(self, address: str, reason: str, detail: str) -> None:
        self.tls_refused[reason] += 1
        self._log.say("client_refused", address=address, reason=f"TLS: {detail}")

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.unlink()
        self._listeners, self._paths = [], []

    def _has_room(self) -> bool:
        handshakes = 0 if self._handshakes is None else len(self._handshakes)
        return self._connections_max is None or len(self._connections) + handshakes < self._connections_max

    def _admit(self, sock: socket.socket, dialect: Dialect | None) -> None:
        self._count += 1
        address, identity = _address_of(sock), self._identity_of(sock, dialect)
        self._connections[self._count] = ClientConnection(self._loop, sock, self._count, self)
        self._step(ConnectionOpened(self._count, dialect, address, identity))

    def _admit_encrypted(self, client: EncryptedClient) -> None:
        self._count += 1
        number = self._count
        self._connections[number] = ClientConnection(self._loop, client.sock, number, self, client.session)
        identity, expires_at_us = client.user or ANONYMOUS, NEVER
        if client.expires_seconds is not None:
            expires_at_us = self._loop.now_us() + left_us(client.expires_seconds)
        address = _address_of(client.sock)
        self._step(
            ConnectionOpened(number, None, address, identity, client.digest, expires_at_us, client.certificate)
        )
        if client.data and number in self._connections:
            self.received(number, client.data)

    def _identity_of(self, sock: socket.socket, dialect: Dialect | None) -> str:
        """The identity that the connection itself tells, without credentials of the client."""
        uid = peer_uid(sock)
        if uid is not None:
            return uid_identity(uid)
        return ANONYMOUS if dialect is None else self.session_server.options.spread_identity

    def grant(
        self,
        grants: GrantsTable | None,
        authenticator: Authenticator | None,
        revoked: frozenset[bytes] = frozenset(),
    ) -> None:
        """Applies other grants, users and revoked certificates, to existing sessions too."""
        self.session_server.access.revoked = revoked
        self._carry_out(self.session_server.grant(grants, authenticator, self._loop.now_us()))
        if self._connections:
            self.go_on()

    # Called by connections (`ConnectionOwner`).

    def received(self, number: int, chunk: bytes) -> None:
        """Handles bytes of a client, unless the daemon is about to end."""
        if not self._leaving:
            self._step(BytesReceived(number, chunk))

    def fetch(self, number: int, bytes_max: int) -> list[bytes | memoryview]:
        """The bytes to send to a client next."""
        out = self.session_server.outgoing(number, bytes_max)
        if self.session_server.slow.step_due:
            self._loop.call_soon(self._check_slow_receivers)
        return out

    def lost(self, number: int) -> None:
        """A client has closed its connection, or lost it."""
        self._step(ConnectionLost(number))

    def closed(self, number: int) -> None:
        """A connection has ended: forgets it."""
        del self._connections[number]

    # The session server.

    def _step(self, event: Input) -> None:
        self._carry_out(self.session_server.step(event, self._loop.now_us()))
        if not self._submit_due:
            self._submit_due = True
            self._loop.call_soon(self._submit_pending)

    def _check_slow_receivers(self) -> None:
        if self.session_server.slow.step_due:
            self._step(Tick())

    def _carry_out(self, outputs: Sequence[Output]) -> None:
        hurried: dict[int, None] = {}
        for output in outputs:
            if isinstance(output, OutputReady):
                if self.session_server.has_priority(output.session):
                    hurried[output.session] = None
                elif self._gathering:
                    self._ready[output.session] = None
                else:
                    self._connections[output.session].flush_soon()
            elif isinstance(output, (Pause, Listen)):
                self._connections[output.session].pause(isinstance(output, Pause))
            elif isinstance(output, Close):
                self._log_end(output)
                self._connections[output.session].finish(output.last)
            elif isinstance(output, AccessNote):
                self._note_access(output)
            elif isinstance(output, (Resume, Withdraw)):
                self._host.give(output)
        for waiting in hurried:
            if waiting in self._connections:  # Closed by a failure of an earlier one.
                self._connections[waiting].flush()

    def _note_access(self, note: AccessNote) -> None:
        if self.audit is not None and note.session in self._connections:
            self.audit(note, self._connections[note.session].peer)

    def _log_end(self, close: Close) -> None:
        if not close.reason:
            return
        who: dict[str, object] = {"session": close.session, "address": self._connections[close.session].peer}
        if close.name:
            who["name"] = close.name
        if close.refused:
            self._log.say("client_refused", **who, reason=close.reason)
        else:
            self._log.say("client", **who, ended=close.reason)

    def _delayed(self, reason: str) -> None:
        self._log.say("client_delayed", reason=reason)

    def _submit_pending(self) -> None:
        self._submit_due = False
        while (
            submit := self.session_server.next_submission(self._host.queue_open, self._loop.now_us())
        ) is not None:
            self._host.give(submit)
        self._carry_out(self.session_server.credit(self._loop.now_us()))
        self._alarm.set(self.session_server.wake_at_us)


def _address_of(sock: socket.socket) -> str:
    """The address of a client; empty for a Unix socket."""
    if sock.family == socket.AF_UNIX:
        return ""
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return _NOWHERE
