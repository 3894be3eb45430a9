"""Listeners limit their accept rate; connections stop reading while they are paused."""

import socket
from pathlib import Path

from tests.unit.daemon.waiting import run_until

from hopring.daemon.clients.connection import TOO_FAST, ClientConnection, ClientListener
from hopring.daemon.clients.listening import open_unix
from hopring.daemon.loop.event_loop import Loop
from hopring.links.hop.pacing import Bucket


def test_connections_above_the_rate_wait_and_are_accepted_later(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "s"
    accepted: list[int] = []
    delayed: list[str] = []
    rate = Bucket(rate_bytes_per_second=50, burst_bytes=3)

    def welcome(sock: socket.socket) -> None:
        accepted.append(loop.now_us())
        sock.close()

    listener = ClientListener(loop, open_unix(path), welcome, rate, delayed.append)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(6)]
    for client in clients:
        client.connect(str(path))
    run_until(loop, lambda: len(accepted) == 6)

    # One connection may overdraw the bucket.
    assert accepted[5] - accepted[0] >= 2 * 20_000 - 1_000
    assert set(delayed) == {TOO_FAST}
    listener.close()
    for client in clients:
        client.close()


class Owner:
    """The owner of a connection, which keeps the bytes that it reads."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended = 0
        self.waiting: list[bytes] = []

    def received(self, _number: int, chunk: bytes) -> None:
        self.heard += chunk

    def fetch(self, _number: int, _bytes_max: int) -> list[bytes]:
        out, self.waiting = self.waiting, []
        return out

    def lost(self, _number: int) -> None:
        self.ended += 1

    def closed(self, _number: int) -> None:
        self.ended += 1


def test_a_connection_that_is_paused_reads_nothing_and_then_everything(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    owner = Owner()
    connection = ClientConnection(loop, ours, 1, owner)
    connection.pause(True)
    theirs.sendall(b"early")
    loop.call_soon(lambda: None)
    loop.turn()
    assert owner.heard == b""
    connection.pause(False)
    run_until(loop, lambda: owner.heard == b"early")

    connection.pause(True)
    theirs.sendall(b" and late")
    theirs.close()
    loop.call_soon(lambda: None)
    loop.turn()
    assert (owner.heard, owner.ended) == (b"early", 0)
    connection.pause(False)
    run_until(loop, lambda: owner.ended == 2)
    assert owner.heard == b"early and late"


def test_data_sent_before_the_end_is_read_although_nothing_can_be_sent_back(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    owner = Owner()
    connection = ClientConnection(loop, ours, 1, owner)
    theirs.sendall(b"last words")
    theirs.close()
    owner.waiting = [b"for nobody"]
    connection.flush()
    run_until(loop, lambda: owner.ended == 2)

    assert owner.heard == b"last words"


def test_an_event_that_a_dialect_cannot_encode_is_skipped(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    owner = Owner()
    owner.waiting = [b"", b"said", b""]
    connection = ClientConnection(loop, ours, 1, owner)
    connection.flush()

    assert theirs.recv(100) == b"said"
    connection.close()
    theirs.close()


def test_more_than_the_kernel_takes_at_once_is_sent_in_order(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    owner = Owner()
    owner.waiting = [bytes([number]) * 50_000 for number in range(40)]
    said = b"".join(owner.waiting)
    connection = ClientConnection(loop, ours, 1, owner)
    connection.flush_soon()
    heard = bytearray()

    def all_heard() -> bool:
        try:
            heard.extend(theirs.recv(1 << 20))
        except BlockingIOError:
            return False
        return len(heard) == len(said)

    run_until(loop, all_heard)

    assert heard == said
    connection.close()
    theirs.close()
