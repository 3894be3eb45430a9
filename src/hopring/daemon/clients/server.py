"""Clients: the desk on real sockets, above a member."""

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hopring.daemon.clients.connection import (
    CONNECTS_BURST,
    CONNECTS_PER_SECOND,
    ClientConnection,
    ClientListener,
)
from hopring.daemon.clients.listening import ClientAddresses, open_tcp, open_unix
from hopring.daemon.engines.host import EngineHost
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.engine.events import EngineOutput, Resume, Withdraw
from hopring.groups.groups import Groups
from hopring.links.events import Tick
from hopring.links.hop.pacing import Bucket
from hopring.session.backlog import Spills
from hopring.session.dialect import Dialect
from hopring.session.events import (
    BytesReceived,
    Close,
    ConnectionLost,
    ConnectionOpened,
    Input,
    Listen,
    Output,
    Pause,
    Ready,
)
from hopring.session.options import SessionOptions
from hopring.session.server import SessionServer
from hopring.spread.dialect import SpreadDialect

_NOWHERE: Final = "0.0.0.0"  # The address of a client that was gone before it was asked.


class ClientServer:
    """All clients of one daemon; the layer above a member that was made with `groups.interest`."""

    def __init__(
        self,
        loop: Loop,
        log: DaemonLog,
        host: EngineHost,
        groups: Groups,
        places: ClientAddresses,
        options: SessionOptions | None = None,
        spills: Spills | None = None,
        order: Sequence[str] = (),
    ) -> None:
        """Listens; Unusable if it cannot. The order is that of the daemons in the configuration file."""
        self.desk = SessionServer(groups, host.payload_bytes_max, options, spills)
        self._loop = loop
        self._log = log
        self._host = host
        self._connections: dict[int, ClientConnection] = {}
        self._count = 0
        self._pump_due = False
        self._gathering = False  # Events of the member come one after the other.
        self._ready: dict[int, None] = {}  # Connections that are to send behind the last of them.
        self._alarm = loop.alarm(lambda: self._step(Tick()))
        self._listeners: list[ClientListener] = []
        self._paths: list[Path] = []  # Of Unix sockets.
        self._rate = Bucket(CONNECTS_PER_SECOND, CONNECTS_BURST)
        self._leaving = False
        self._spread: SpreadDialect | None = None
        try:
            if places.path is not None:
                self._listen(open_unix(places.path), None, places.path)
            if places.address is not None:
                self._listen(open_tcp(places.address))
            if places.spread_address is not None:
                self._listen_to_spread(places, order)
        except BaseException:
            self.close()
            raise

    def take(self, events: Sequence[EngineOutput]) -> None:
        """What came out of the member in this turn; clients get what it means for them at once."""
        self._gathering = True
        for event in events:
            self._step(event)
        self._gathering = False
        ready, self._ready = self._ready, {}
        for number in ready:
            if number in self._connections:  # The one before may have shown that it is gone.
                self._connections[number].flush()

    @property
    def drained(self) -> bool:
        """Whether the member has all that clients asked for."""
        return self.desk.groups.idle

    def go_on(self) -> None:
        """The member takes messages again."""
        self._step(Tick())

    def leave(self) -> None:
        """Listens to nobody from now on."""
        self._leaving = True
        self._stop_listening()

    def end(self) -> None:
        """Tells all clients that this is the end."""
        self._carry_out(self.desk.end_all("the daemon ends", "connect to another daemon"))

    def close(self) -> None:
        """Ends all connections."""
        self._stop_listening()
        for connection in list(self._connections.values()):
            connection.close()

    def reorder(self, order: Sequence[str]) -> None:
        """The daemons stand in another order in the configuration file."""
        if self._spread is not None:
            self._spread.reorder(order)

    def _listen_to_spread(self, places: ClientAddresses, order: Sequence[str]) -> None:
        desk = self.desk
        spread = self._spread = SpreadDialect(desk.groups, desk.message_bytes_max, lambda: desk.options, order)
        if places.spread_address is not None:
            self._listen(open_tcp(places.spread_address, "spread_port"), spread)
        if places.spread_path is not None:
            sock = open_unix(places.spread_path, "Spread clients' socket", "--spread-sockets", 0o666)
            self._listen(sock, spread, places.spread_path)

    def _listen(self, sock: socket.socket, dialect: Dialect | None = None, path: Path | None = None) -> None:
        def welcome(sock: socket.socket) -> None:
            self._welcome(sock, dialect)

        self._listeners.append(ClientListener(self._loop, sock, welcome, self._rate, self._delayed))
        if path is not None:
            self._paths.append(path)

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.unlink()
        self._listeners, self._paths = [], []

    def _welcome(self, sock: socket.socket, dialect: Dialect | None) -> None:
        self._count += 1
        address = _address_of(sock)
        self._connections[self._count] = ClientConnection(self._loop, sock, self._count, self)
        self._step(ConnectionOpened(self._count, dialect, address))

    # What connections want of their owner.

    def received(self, number: int, chunk: bytes) -> None:
        """Bytes of a client; when the daemon is to end, they come too late."""
        if not self._leaving:
            self._step(BytesReceived(number, chunk))

    def fetch(self, number: int, bytes_max: int) -> list[bytes | memoryview]:
        """Bytes for a client."""
        out = self.desk.outgoing(number, bytes_max)
        if self.desk.slow.stirred:
            self._loop.call_soon(self._look)
        return out

    def lost(self, number: int) -> None:
        """A client is gone."""
        self._step(ConnectionLost(number))

    def closed(self, number: int) -> None:
        """A connection is no more."""
        del self._connections[number]

    # The desk.

    def _step(self, event: Input) -> None:
        self._carry_out(self.desk.step(event, self._loop.now_us()))
        if not self._pump_due:
            self._pump_due = True
            self._loop.call_soon(self._pump)

    def _look(self) -> None:
        if self.desk.slow.stirred:
            self._step(Tick())

    def _carry_out(self, outputs: Sequence[Output]) -> None:
        hurried: dict[int, None] = {}
        for output in outputs:
            if isinstance(output, Ready):
                if self.desk.hurries(output.session):
                    hurried[output.session] = None
                elif self._gathering:
                    self._ready[output.session] = None
                else:
                    self._connections[output.session].flush_soon()
            elif isinstance(output, Pause):
                self._connections[output.session].pause(True)
            elif isinstance(output, Listen):
                self._connections[output.session].pause(False)
            elif isinstance(output, Close):
                if output.reason:
                    self._log_end(output)
                self._connections[output.session].finish(output.last)
            elif isinstance(output, (Resume, Withdraw)):
                self._host.give(output)
        for waiting in hurried:
            if waiting in self._connections:  # The one before may have shown that it is gone.
                self._connections[waiting].flush()

    def _log_end(self, close: Close) -> None:
        who: dict[str, object] = {"session": close.session, "address": self._connections[close.session].peer}
        if close.name:
            who["name"] = close.name
        if close.refused:
            self._log.say("client_refused", **who, reason=close.reason)
        else:
            self._log.say("client", **who, ended=close.reason)

    def _delayed(self, reason: str) -> None:
        self._log.say("client_delayed", reason=reason)

    def _pump(self) -> None:
        self._pump_due = False
        while (submit := self.desk.take(self._host.queue_open, self._loop.now_us())) is not None:
            self._host.give(submit)
        self._carry_out(self.desk.credit(self._loop.now_us()))
        self._alarm.set(self.desk.wake_at_us)


def _address_of(sock: socket.socket) -> str:
    """Where a client comes from; nothing if that is this host, by a Unix socket."""
    if sock.family == socket.AF_UNIX:
        return ""
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return _NOWHERE
