"""The admin socket of a peer: a Unix socket for its own user, with one JSON object per line.

    {"verb": "status"}                              -> a `PeerStatus`
    {"verb": "cut", "peers": ["127.0.0.1:4000"]}    -> nothing is exchanged with these; an empty list heals
    {"verb": "lose", "loss": 0.1}                   -> this share of the datagrams that arrive is lost

There is none unless the URL names a path (`&admin=/run/x.sock`).
"""

import contextlib
import socket
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hopring.daemon.clients.connection import ClientConnection, ClientListener
from hopring.daemon.clients.listening import open_unix
from hopring.daemon.loop.event_loop import Loop
from hopring.peer.endpoint import PeerEndpoint
from hopring.peer.status import PeerStatus

CALLERS_MAX: Final = 8
"""One more closes the oldest connection."""

LINE_BYTES_MAX: Final = 64 * 1024
UNREAD_BYTES_MAX: Final = 1 << 20
"""Answers that a caller has not read; above this its connection is closed."""

Place = tuple[str, int]


class AdminRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a caller."""

    verb: str
    peers: tuple[str, ...] = ()
    loss: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


class _Caller:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.line = b""
        self.answers: list[bytes] = []


class PeerAdmin:
    """All callers of one peer."""

    def __init__(
        self, loop: Loop, path: Path, status: Callable[[], PeerStatus], endpoint: PeerEndpoint
    ) -> None:
        """Begins to listen; raises BindError."""
        self._loop, self._path = loop, path
        self._status, self._endpoint = status, endpoint
        self._callers: dict[int, _Caller] = {}
        self._count = 0
        self._listener = ClientListener(loop, open_unix(path, "admin socket", "admin="), self._welcome)

    def close(self) -> None:
        """Closes the socket, its file, and all connections."""
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
        for caller in list(self._callers.values()):
            caller.connection.close()

    def _welcome(self, sock: socket.socket) -> None:
        if len(self._callers) >= CALLERS_MAX:
            next(iter(self._callers.values())).connection.close()
        self._count += 1
        self._callers[self._count] = _Caller(ClientConnection(self._loop, sock, self._count, self))

    # Called by connections (`ConnectionOwner`).

    def received(self, number: int, chunk: bytes) -> None:
        """Adds bytes of a caller, and answers every complete line."""
        caller = self._callers[number]
        *lines, caller.line = (caller.line + chunk).split(b"\n")
        caller.answers += [self._answer(line) for line in lines if line.strip()]
        unread_bytes = sum(map(len, caller.answers))
        if len(caller.line) > LINE_BYTES_MAX or unread_bytes > UNREAD_BYTES_MAX:
            caller.connection.close()
        else:
            caller.connection.flush_soon()

    def fetch(self, number: int, _bytes_max: int) -> list[bytes]:
        """The answers that wait for a caller."""
        caller = self._callers[number]
        answers, caller.answers = caller.answers, []
        return answers

    def lost(self, number: int) -> None:
        """The caller has closed its end; its earlier requests stay in force."""

    def closed(self, number: int) -> None:
        """The connection has ended: forgets the caller."""
        del self._callers[number]

    def _answer(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=AdminRequest)
            if request.verb == "cut":
                self._endpoint.cut = frozenset([_place(one) for one in request.peers])
            elif request.verb == "lose":
                self._endpoint.loss = request.loss
            elif request.verb != "status":
                raise ValueError(f"no verb {request.verb!r}; there are status, cut and lose")
        except (msgspec.DecodeError, ValueError) as error:
            return msgspec.json.encode({"error": str(error)}) + b"\n"
        return msgspec.json.encode(self._status()) + b"\n"


def _place(text: str) -> Place:
    host, _, port = text.rpartition(":")
    return str(IPv4Address(host)), int(port)
