"""Handshakes of clients on a real loop: limits in number and time, small steps, clients that are refused."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.credentials.client_tls import ClientChannel, ClientTls
from hopring.credentials.daemon_tls import load_daemon_tls
from hopring.credentials.directory import KeyDirectory
from hopring.daemon.clients import tls_handshakes
from hopring.daemon.clients.connection import ClientListener
from hopring.daemon.clients.tls_handshakes import HANDSHAKES_MAX, STEPS_MAX, EncryptedClient, TlsHandshakes
from hopring.daemon.loop.event_loop import ROUNDS_MAX, Loop


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("credentials") / "keys"
    directory = KeyDirectory(root)
    directory.create("local", ["eu1"], datetime.now(UTC), 30, 30)
    directory.add_user_certificate("anna", datetime.now(UTC), 30)
    return root


class Served:
    """A listener with handshakes on a loop, and what became of them."""

    def __init__(self, loop: Loop, keys: Path) -> None:
        self.loop = loop
        self.done: list[EncryptedClient] = []
        self.refused: list[tuple[str, str]] = []
        tls = load_daemon_tls(keys, "local", "eu1", datetime.now(UTC))
        self.handshakes = TlsHandshakes(
            loop, tls, self.done.append, lambda address, reason, _detail: self.refused.append((address, reason))
        )
        sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
        sock.setblocking(False)
        self.place = sock.getsockname()
        self.listener = ClientListener(loop, sock, self.handshakes.welcome)
        self.stack = ExitStack()

    def dial(self, host: str = "127.0.0.1") -> socket.socket:
        sock = self.stack.enter_context(socket.socket())
        sock.bind((host, 0))
        sock.connect(self.place)
        sock.setblocking(False)
        return sock

    def close(self) -> None:
        self.stack.close()
        self.listener.close()
        self.handshakes.close()
        for one in self.done:
            one.sock.close()


@pytest.fixture
def served(keys: Path) -> Iterator[Served]:
    loop = Loop()
    one = Served(loop, keys)
    yield one
    one.close()
    loop.close()


def shake(served: Served, sock: socket.socket, channel: ClientChannel) -> None:
    """Completes a handshake from the client's end."""
    sock.send(channel.begin())

    def established() -> bool:
        try:
            channel.receive(sock.recv(1 << 16))
            sock.send(channel.take())
        except BlockingIOError:
            pass
        return channel.established

    run_until(served.loop, established)


def test_a_client_gets_in_with_the_bytes_behind_its_handshake(served: Served, keys: Path) -> None:
    channel, sock = ClientTls(keys / "ca.crt", keys / "users" / "anna.pem").open(), served.dial()
    shake(served, sock, channel)
    sock.send(channel.encrypt(b"hello"))
    run_until(served.loop, lambda: bool(served.done))

    (client,) = served.done
    assert (client.user, client.digest, channel.daemon) == ("anna", channel.binding, "eu1")
    assert len(channel.binding) == 32
    assert client.data in (b"", b"hello")
    assert len(served.handshakes) == 0


def test_one_too_many_closes_the_oldest_of_the_host_that_has_most(served: Served) -> None:
    first = served.dial("127.0.0.9")
    run_until(served.loop, lambda: len(served.handshakes) == 1)
    flood = []
    for at in range(HANDSHAKES_MAX + 20):
        flood.append(served.dial("127.0.0.2"))
        run_until(served.loop, lambda at=at: len(served.handshakes) + len(served.refused) == at + 2)  # type: ignore[misc]

    assert len(served.handshakes) == HANDSHAKES_MAX
    assert len(served.refused) == 21
    assert {(address.split()[0], reason) for address, reason in served.refused} == {("127.0.0.2", "too_many")}
    assert flood[0].recv(1) == b""
    with pytest.raises(BlockingIOError):
        first.recv(1)
    with pytest.raises(BlockingIOError):
        flood[-1].recv(1)


def test_a_handshake_has_a_deadline(served: Served, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_handshakes, "HANDSHAKE_US", 20_000)
    silent, partial = served.dial(), served.dial()
    partial.send(ClientTls(keys / "ca.crt", None).open().begin()[:50])
    run_until(served.loop, lambda: len(served.refused) == 2)

    assert [reason for _, reason in served.refused] == ["timeout", "timeout"]
    assert silent.recv(1) == b""
    assert len(served.handshakes) == 0


def answered(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_a_turn_of_the_loop_does_few_steps(served: Served, keys: Path) -> None:
    tls = ClientTls(keys / "ca.crt", None)
    clients = [(served.dial(), tls.open()) for _ in range(30)]
    run_until(served.loop, lambda: len(served.handshakes) == 30)
    for sock, channel in clients:
        sock.send(channel.begin())
    counts = [0]
    while counts[-1] < 30:
        served.loop.turn()
        counts.append(sum(answered(sock) for sock, _ in clients))

    assert max(after - before for before, after in pairwise(counts)) <= ROUNDS_MAX * STEPS_MAX
    for sock, channel in clients:
        channel.receive(sock.recv(1 << 16))
        assert channel.established


@pytest.mark.parametrize(
    ("said", "reason"),
    [(b"GET / HTTP/1.1\r\n\r\n", "clear_text"), (b"\x16\x03\x01\x00\x05abcde", "tls_handshake")],
)
def test_what_is_no_handshake_is_refused_and_read_to_its_end(served: Served, said: bytes, reason: str) -> None:
    sock = served.dial()
    sock.send(said)
    run_until(served.loop, lambda: bool(served.refused))
    sock.send(b"more")
    sock.shutdown(socket.SHUT_WR)
    run_until(served.loop, lambda: len(served.handshakes) == 0)

    assert [one for _, one in served.refused] == [reason]
    sock.setblocking(True)
    while sock.recv(1 << 16):  # An alert and the end, no reset.
        pass


def test_a_client_that_goes_away_is_no_offence(served: Served) -> None:
    sock = served.dial()
    run_until(served.loop, lambda: len(served.handshakes) == 1)
    sock.close()
    run_until(served.loop, lambda: len(served.handshakes) == 0)

    assert served.refused == []
