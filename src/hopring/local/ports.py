"""Ports of this machine that nobody uses at the moment."""

import random
import socket
from collections.abc import Iterable
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below those that the kernel gives to others."""

_TRIES: Final = 200


def free_base_port(count: int) -> int:
    """The first of so many consecutive ports that are free. Somebody may still be faster: be ready to retry."""
    dice = random.Random()
    for _ in range(_TRIES):
        base = dice.randrange(PORTS.start, PORTS.stop - count)
        if all_free(range(base, base + count)):
            return base
    raise OSError("no free ports on 127.0.0.1")


def all_free(ports: Iterable[int]) -> bool:
    """Whether nobody on loopback has any of these, for UDP or TCP."""
    return all(_is_free(port, kind) for port in ports for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM))


def tcp_free(port: int) -> bool:
    """Whether a daemon could listen there for clients."""
    return _is_free(port, socket.SOCK_STREAM)


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM:
            # As a daemon does: connections that ended a moment ago are in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
