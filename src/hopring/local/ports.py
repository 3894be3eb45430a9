"""Free ports of loopback, reserved among all programs of this machine that look for them here.

A port is free while the daemon that it is meant for has not started yet, or has been killed. Without a
reservation another cluster would choose it then.
"""

import random
import socket
import sys
from collections.abc import Iterable
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below the range from which the kernel gives ports to other programs."""

_BLOCK: Final = 8
"""Ports are reserved in blocks of this size, so that large clusters need few descriptors."""

_TRIES: Final = 200


class ReservedPorts:
    """Consecutive free ports, which nobody else reserves until they are released or this process ends."""

    def __init__(self, count: int) -> None:
        """OSError if there are none."""
        self._holds: list[socket.socket] = []
        self.base = self._reserve(count)

    def _reserve(self, count: int) -> int:
        dice = random.Random()
        for _ in range(_TRIES):
            base = dice.randrange(PORTS.start, PORTS.stop - count, _BLOCK)
            if self._hold(base, count) and all_free(range(base, base + count)):
                return base
            self.release()
        raise OSError("no free ports on 127.0.0.1")

    def _hold(self, base: int, count: int) -> bool:
        """Holds all blocks of these ports; another holder of one of them is the end of the attempt."""
        # Such a name belongs to the network, as ports do, and the kernel frees it when its holder is killed.
        if sys.platform == "linux":
            for block in range(base, base + count, _BLOCK):
                hold = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._holds.append(hold)
                try:
                    hold.bind(f"\0hopring-ports-{block}")
                except OSError:
                    return False
        return True

    def release(self) -> None:
        """Leaves the ports to others."""
        for hold in self._holds:
            hold.close()
        self._holds = []

    def __del__(self) -> None:
        self.release()


def free_base_port(count: int) -> int:
    """The first of `count` consecutive free ports. Another process may take one first: be ready to retry."""
    ports = ReservedPorts(count)
    ports.release()
    return ports.base


def all_free(ports: Iterable[int]) -> bool:
    """Whether all these ports of loopback are free, for UDP and TCP."""
    return all(_is_free(port, kind) for port in ports for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM))


def tcp_free(port: int) -> bool:
    """Whether a daemon could listen for clients on this port."""
    return _is_free(port, socket.SOCK_STREAM)


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as probe:
        if kind == socket.SOCK_STREAM:
            # As a daemon does: connections that have just ended do not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
