"""The anteroom: accepted connections wait here until their greeting tells which link they are for.

Invariants  at most STRANGERS_MAX wait, each at most GREETING_TIMEOUT_US; one more sends the oldest away, so
            silent connectors cannot keep others out for long.
"""

from collections.abc import Callable
from typing import Final

from hopring.daemon.loop import Loop
from hopring.daemon.tcp import Connection, Happening
from hopring.daemon.traffic import Traffic
from hopring.daemon.udp_socket import Address
from hopring.errors import Drop, PeerError
from hopring.links.tcp import Closed, Opened, Received
from hopring.wire.header import Header
from hopring.wire.stream import GREETING_BYTES, decode_greeting

STRANGERS_MAX: Final = 64
GREETING_TIMEOUT_US: Final = 3_000_000

Admit = Callable[[Header, Connection], bool]
"""Told of a greeting: makes the port for it, which becomes the connection's sink, or refuses with False."""


class Anteroom:
    """Its `welcome` is the callback of a listener."""

    def __init__(self, loop: Loop, cluster: int, admit: Admit) -> None:
        self.traffic = Traffic()
        self._loop = loop
        self._cluster = cluster
        self._admit = admit
        self._strangers: dict[Connection, tuple[int, bytes]] = {}  # Since when, and what they said so far.
        self._alarm = loop.alarm(self._send_late_ones_away)

    def welcome(self, connection: Connection, _address: Address) -> None:
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

    def _hear(self, connection: Connection, happening: Happening) -> None:
        match happening:
            case Received(chunk=chunk):
                since_us, said = self._strangers[connection]
                self._strangers[connection] = (since_us, said + chunk)
                if len(said) + len(chunk) >= GREETING_BYTES:
                    self._introduce(connection)
            case Closed():
                del self._strangers[connection]

    def _introduce(self, connection: Connection) -> None:
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

    def _refuse(self, connection: Connection, reason: Drop) -> None:
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
