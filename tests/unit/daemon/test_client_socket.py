"""Listeners: how fast they accept."""

import socket
from pathlib import Path

from tests.unit.daemon.waiting import run_until

from hopring.daemon.client_ports import open_unix
from hopring.daemon.client_socket import ClientListener
from hopring.daemon.loop import Loop
from hopring.links.bucket import Bucket


def test_who_comes_too_fast_waits_and_is_accepted_later(loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "s"
    accepted: list[int] = []
    rate = Bucket(rate_bytes_per_second=50, burst_bytes=3)

    def welcome(sock: socket.socket) -> None:
        accepted.append(loop.now_us())
        sock.close()

    listener = ClientListener(loop, open_unix(path), welcome, rate)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(6)]
    for client in clients:
        client.connect(str(path))
    run_until(loop, lambda: len(accepted) == 6)

    # One may overdraw the bucket.
    assert accepted[5] - accepted[0] >= 2 * 20_000 - 1_000
    listener.close()
    for client in clients:
        client.close()
