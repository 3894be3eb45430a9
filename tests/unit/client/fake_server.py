"""A fake daemon behind a real Unix socket, for tests of the asyncio and blocking shells."""

import contextlib
import socket
import threading
from pathlib import Path

from tests.unit.session.fake_daemon import FakeDaemon

from hopring.session.session import SessionPhase


class FakeServer:
    """Serves connections one read at a time, in its own thread."""

    def __init__(self, path: Path) -> None:
        self.url = f"hop+unix://{path}"
        self.fake = FakeDaemon()
        self.lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._clients: dict[int, socket.socket] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            number += 1
            with self.lock:
                self._clients[number] = client
                self.fake.open(number)
            threading.Thread(target=self._serve, args=(number, client), daemon=True).start()

    def _serve(self, number: int, client: socket.socket) -> None:
        while True:
            try:
                chunk = client.recv(1 << 16)
            except OSError:
                chunk = b""
            with self.lock:
                if not chunk:
                    self.fake.lose(number)
                    self._clients.pop(number, None)
                    return
                self.fake.say(number, chunk)
                self._send()

    def _send(self) -> None:
        for number, client in list(self._clients.items()):
            last = number in self.fake.closed
            # The connection may have been cut, and its thread has not noticed.
            with contextlib.suppress(OSError):
                client.sendall(self.fake.fetch(number))
                if last:
                    client.shutdown(socket.SHUT_WR)

    def is_ending(self) -> bool:
        """Whether a client has sent QUIT and its end is not ordered yet."""
        with self.lock:
            return any(one.phase is SessionPhase.ENDING for one in self.fake.server.sessions.values())

    def cut(self) -> None:
        """Cuts all connections without a notice."""
        with self.lock:
            for client in self._clients.values():
                client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()
