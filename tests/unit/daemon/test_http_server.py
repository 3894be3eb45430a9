"""The small HTTP server: its answers, and slow or misbehaving clients."""

import socket
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.admin import http_server
from hopring.daemon.admin.http_server import BadRequest, HttpResponse, HttpServer, parse_place, path_of
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError


@pytest.fixture
def server(loop: Loop) -> Iterator[HttpServer]:
    pages = {"/metrics": lambda: HttpResponse(HTTPStatus.OK, "long" * 100_000)}
    server = HttpServer(loop, ("127.0.0.1", 0), pages)
    yield server
    server.close()


class Visitor:
    def __init__(self, loop: Loop, server: HttpServer) -> None:
        self.loop = loop
        self.answer = b""
        self.over = False
        self.sock = socket.create_connection(server.address)
        self.sock.setblocking(False)

    def say(self, said: bytes) -> bytes:
        self.sock.sendall(said)
        run_until(self.loop, self.read)
        return self.answer

    def read(self) -> bool:
        try:
            while chunk := self.sock.recv(1 << 16):
                self.answer += chunk
        except BlockingIOError:
            # The loop would sleep until something happens at the server.
            self.loop.call_soon(lambda: None)
            return False
        except ConnectionResetError:
            pass
        self.sock.close()
        self.over = True
        return True


def test_a_page_comes_whole_and_then_the_connection_ends(loop: Loop, server: HttpServer) -> None:
    answer = Visitor(loop, server).say(b"GET /metrics?x=1 HTTP/1.1\r\nHost: eu1\r\nAccept: */*\r\n\r\n")

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 400000" in head
    assert b"Connection: close" in head
    assert body == b"long" * 100_000


def test_a_request_in_single_bytes_is_a_request(loop: Loop, server: HttpServer) -> None:
    visitor = Visitor(loop, server)
    for byte in b"GET /nowhere HTTP/1.0\r\n\r":
        visitor.sock.sendall(bytes([byte]))
        loop.turn()

    assert b"404 Not Found" in visitor.say(b"\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1", 400),
        (b"POST /metrics HTTP/1.1\r\nHost: a", 405),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5", 413),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", 413),
        (b"GET /metrics HTTP/2.0\r\nHost: a", 400),
        (b"GET  /metrics HTTP/1.1\r\nHost: a", 400),
        (b"GET http://a/metrics HTTP/1.1\r\nHost: a", 400),
        (b"GET /metrics HTTP/1.1\r\nHost : a", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n folded", 400),
        (b"GET /metrics HTTP/1.1\nHost: a", 400),
        (b"HOPC\x01\0\0\0", 400),
    ],
)
def test_requests_other_than_a_plain_get_are_refused(request_: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        path_of(request_)
    assert refused.value.status == status


def test_a_request_that_is_too_long_is_refused_before_it_ends(loop: Loop, server: HttpServer) -> None:
    answer = Visitor(loop, server).say(b"GET /metrics HTTP/1.1\r\nHost: " + b"a" * 5_000)

    assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_slow_client_is_disconnected(loop: Loop, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_US", 50_000)
    slow = Visitor(loop, server)

    assert slow.say(b"GET /met") == b""
    assert slow.over


def test_many_slow_clients_do_not_block_another(loop: Loop, server: HttpServer) -> None:
    slow = [Visitor(loop, server) for _ in range(http_server.CONNECTIONS_MAX + 4)]
    for one in slow:
        one.sock.sendall(b"GET")
    answer = Visitor(loop, server).say(b"GET /metrics HTTP/1.0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200")
    assert sum(one.read() for one in slow) == 5
    for one in slow:
        one.sock.close()


def test_a_taken_port_is_an_error_with_a_remedy(loop: Loop, server: HttpServer) -> None:
    with pytest.raises(BindError, match="choose another place for --metrics"):
        HttpServer(loop, server.address, {})


def test_addresses_are_parsed_or_refused() -> None:
    assert parse_place("9464") == ("127.0.0.1", 9464)
    assert parse_place("0.0.0.0:9464") == ("0.0.0.0", 9464)
    assert parse_place("[::1]:9464") == ("::1", 9464)
    for bad in ("", "host", "host:", "host:99999", "1:x"):
        with pytest.raises(ValueError, match="ADDRESS:PORT"):
            parse_place(bad)
