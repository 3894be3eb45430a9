"""Socket options, clock and memory settings for the transports of both forms of a session."""

import socket
from functools import cache
from typing import Final

from hopring.system.kernel import kernel

SILENT_SECONDS: Final = 10
PROBE_SECONDS: Final = 3
PROBES_MAX: Final = 3
"""TCP probes a silent daemon's host after SILENT_SECONDS, every PROBE_SECONDS, up to PROBES_MAX times."""


def tune(sock: socket.socket) -> None:
    """Sets TCP options: output is sent at once, and a host that vanished silently is noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES_MAX)
    vanished_ms = 1000 * (SILENT_SECONDS + PROBES_MAX * PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, vanished_ms)


def reason_of(error: Exception) -> str:
    """The text of a socket error, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def now_us() -> int:
    """The monotonic clock of sessions, in microseconds."""
    return kernel().monotonic_ns() // 1000


LONGEST_BYTES: Final = 8 * 1024 * 1024
"""The size of that block: the C library then keeps up to twice as much. Never touched, it takes no memory."""


@cache
def expect_blocks() -> None:
    """Makes the C library keep freed blocks, once per process; settings of the application take precedence.

    Frames are blocks of up to some hundred kilobytes with short lives. By default the C library of Linux
    returns their memory to the kernel at once, which clears each page again for the next frame: three tenths
    of a receiver's time under full load. The library keeps more after it has freed a long block once.
    """
    bytearray(LONGEST_BYTES)
