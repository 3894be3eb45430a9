"""Clients: the desk on real sockets, above a member."""

import contextlib
import socket
from collections.abc import Sequence

from hopring.daemon.client_ports import ClientPlaces, open_tcp, open_unix
from hopring.daemon.client_socket import CONNECTS_BURST, CONNECTS_PER_SECOND, ClientConnection, ClientListener
from hopring.daemon.log import Log
from hopring.daemon.loop import Loop
from hopring.daemon.member import Member, Upward
from hopring.groups.groups import Groups
from hopring.links.bucket import Bucket
from hopring.links.events import Tick
from hopring.membership.events import Resume, Withdraw
from hopring.session.backlog import Spills
from hopring.session.desk import Desk
from hopring.session.events import Close, Input, Lost, Opened, Output, Ready, Received
from hopring.session.options import SessionOptions


class Clients:
    """All clients of one daemon; the layer above a member that was made with `groups.interest`."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        member: Member,
        groups: Groups,
        places: ClientPlaces,
        options: SessionOptions | None = None,
        spills: Spills | None = None,
    ) -> None:
        """Listens; Unusable if it cannot."""
        self.desk = Desk(groups, member.payload_bytes_max, options, spills)
        self._loop = loop
        self._log = log
        self._member = member
        self._places = places
        self._connections: dict[int, ClientConnection] = {}
        self._count = 0
        self._pump_due = False
        self._alarm = loop.alarm(lambda: self._step(Tick()))
        self._listeners: list[ClientListener] = []
        self._rate = Bucket(CONNECTS_PER_SECOND, CONNECTS_BURST)
        self._leaving = False
        try:
            if places.path is not None:
                self._listen(open_unix(places.path))
            if places.address is not None:
                self._listen(open_tcp(places.address))
        except BaseException:
            self.close()
            raise

    def take(self, events: Sequence[Upward]) -> None:
        """What came out of the member in this turn."""
        for event in events:
            self._step(event)

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

    def _listen(self, sock: socket.socket) -> None:
        self._listeners.append(ClientListener(self._loop, sock, self._welcome, self._rate))

    def _stop_listening(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._listeners and self._places.path is not None:
            with contextlib.suppress(OSError):
                self._places.path.unlink()
        self._listeners = []

    def _welcome(self, sock: socket.socket) -> None:
        self._count += 1
        self._connections[self._count] = ClientConnection(self._loop, sock, self._count, self)
        self._step(Opened(self._count))

    # What connections want of their owner.

    def received(self, number: int, chunk: bytes) -> None:
        """Bytes of a client; when the daemon is to end, they come too late."""
        if not self._leaving:
            self._step(Received(number, chunk))

    def fetch(self, number: int, bytes_max: int) -> list[bytes]:
        """Bytes for a client."""
        out = self.desk.outgoing(number, bytes_max)
        if self.desk.slow.stirred:
            self._loop.call_soon(self._look)
        return out

    def lost(self, number: int) -> None:
        """A client is gone."""
        self._step(Lost(number))

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
            match output:
                case Ready(number):
                    if self.desk.hurries(number):
                        hurried[number] = None
                    else:
                        self._connections[number].flush_soon()
                case Close(number, last, reason):
                    self._connections[number].finish(last)
                    if reason:
                        self._log.say("client", session=number, ended=reason)
                case Resume() | Withdraw():
                    self._member.give(output)
        for number in hurried:
            if number in self._connections:  # The one before may have shown that it is gone.
                self._connections[number].flush()

    def _pump(self) -> None:
        self._pump_due = False
        while (submit := self.desk.take(self._member.queue_open, self._loop.now_us())) is not None:
            self._member.give(submit)
        self._carry_out(self.desk.credit())
        self._alarm.set(self.desk.wake_at_us)
