"""What the floors have in common: sockets, and processes that work until they are ended."""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from hopring.daemon.net.udp import ask_buffers, ask_for_trains

_BUFFER_BYTES: Final = 8 << 20


def connection() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def endpoint() -> socket.socket:
    """A UDP socket that takes trains whole."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    ask_buffers(sock, _BUFFER_BYTES)
    if not ask_for_trains(sock):
        raise SystemExit("this kernel has no trains of datagrams (UDP_SEGMENT, UDP_GRO)")
    return sock


@contextmanager
def working(work: Mapping[str, Callable[[], None]]) -> Iterator[dict[str, int]]:
    """Processes that do this until they are ended here, by name."""
    pids = {name: _start(one) for name, one in work.items()}
    try:
        yield pids
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _start(work: Callable[[], None]) -> int:
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    return pid
