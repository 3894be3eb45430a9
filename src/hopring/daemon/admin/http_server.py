"""A minimal HTTP server on the daemon's loop: GET of a few paths, one request for each connection.

A request that is too long, too slow or malformed ends its connection. When all connections are taken, a new
one closes the oldest, so slow clients do not keep others out.
"""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from hopring.daemon.clients.connection import ClientConnection, ClientListener
from hopring.daemon.loop.event_loop import Alarm, Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.ids import NEVER

CONNECTIONS_MAX: Final = 16
REQUEST_BYTES_MAX: Final = 4_096
REQUEST_US: Final = 3_000_000
"""How long a client may take for its request; for reading the response it has LINGER_US."""

_BACKLOG: Final = 32
_LINE: Final = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response to one request."""

    status: HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"

    def encode(self) -> bytes:
        """The response as bytes of HTTP/1.1."""
        body = self.body.encode()
        allow = "Allow: GET\r\n" if self.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: {self.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
        )
        return head.encode() + body


class BadRequest(Exception):
    """The request is malformed, or not supported here."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def path_of(request: bytes) -> str:
    """The path in a complete head of a request; BadRequest has the reason if it is malformed."""
    line, *rest = request.split(b"\r\n")
    first = _LINE.fullmatch(line)
    if first is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no request line of HTTP/1.1")
    fields: dict[bytes, bytes] = {}
    for one in rest:
        field = _FIELD.fullmatch(one)
        if field is None:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "no header field")
        fields[field[1].lower()] = field[2]
    if first[3] == b"1" and b"host" not in fields:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no Host")
    if fields.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in fields:
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request with a body")
    if first[1] != b"GET":
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET")
    return first[2].partition(b"?")[0].decode()


@dataclass(slots=True)
class _Visitor:
    connection: ClientConnection
    deadline: Alarm
    request: bytes = b""
    answered: bool = False


class HttpServer:
    """Serves a few pages, by their paths."""

    def __init__(
        self, loop: Loop, address: tuple[str, int], pages: dict[str, Callable[[], HttpResponse]]
    ) -> None:
        """Starts to listen; raises BindError."""
        self._loop = loop
        self._pages = pages
        self._visitors: dict[int, _Visitor] = {}  # The oldest first.
        self._count = 0
        sock = _open(address)
        self.address: tuple[str, int] = sock.getsockname()[:2]
        self._listener = ClientListener(loop, sock, self._welcome)

    def close(self) -> None:
        """Closes the listener and all connections."""
        self._listener.close()
        for visitor in list(self._visitors.values()):
            visitor.connection.close()

    def _welcome(self, sock: socket.socket) -> None:
        if len(self._visitors) >= CONNECTIONS_MAX:
            next(iter(self._visitors.values())).connection.close()
        self._count += 1
        number = self._count
        connection = ClientConnection(self._loop, sock, number, self)
        deadline = self._loop.alarm(connection.close)
        deadline.set(self._loop.now_us() + REQUEST_US)
        self._visitors[number] = _Visitor(connection, deadline)

    # Called by connections (`ConnectionOwner`).

    def received(self, number: int, chunk: bytes) -> None:
        """Adds bytes of a request, and answers it when its head is complete."""
        visitor = self._visitors[number]
        if visitor.answered:
            return
        visitor.request += chunk
        head, end, rest = visitor.request.partition(b"\r\n\r\n")
        if end or len(visitor.request) > REQUEST_BYTES_MAX:
            visitor.answered = True
            visitor.deadline.set(NEVER)
            visitor.connection.finish(self._answer(head, len(head) <= REQUEST_BYTES_MAX and not rest).encode())

    def fetch(self, number: int, bytes_max: int) -> list[bytes]:  # noqa: ARG002
        """Nothing: the whole response is sent when the connection is finished."""
        return []

    def lost(self, number: int) -> None:
        """The client has closed its end."""

    def closed(self, number: int) -> None:
        """The connection has ended: forgets it."""
        self._visitors.pop(number).deadline.set(NEVER)

    def _answer(self, head: bytes, fits: bool) -> HttpResponse:
        if not fits:
            return HttpResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long\n")
        try:
            page = self._pages.get(path_of(head))
        except BadRequest as error:
            return HttpResponse(error.status, f"{error}\n")
        if page is None:
            return HttpResponse(HTTPStatus.NOT_FOUND, f"there is {' and '.join(self._pages)}\n")
        return page()


def parse_place(text: str) -> tuple[str, int]:
    """Parses `ADDRESS:PORT`, or a port of loopback; raises ValueError with the reason."""
    address, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 0xFFFF:
        raise ValueError(f"{text!r} is no ADDRESS:PORT; write 127.0.0.1:9464, or [::1]:9464")
    return address.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _open(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        what = f"metrics: TCP port {address[1]} of {address[0]}: {error.strerror or error}"
        raise BindError(f"{what}; choose another place for --metrics") from error
    return sock
