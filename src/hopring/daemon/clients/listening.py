"""Listening sockets for clients: a Unix socket, and TCP on loopback or another given address."""

import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from hopring.config import Daemon
from hopring.daemon.net.bind_errors import BindError
from hopring.system.kernel import kernel

BACKLOG: Final = 512
UNIX_PATH_BYTES_MAX: Final = 107
"""The longest path of a Unix socket that the kernel accepts."""

_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ClientAddresses:
    """The addresses of a daemon for clients; None where it does not listen."""

    path: Path | None
    address: tuple[str, int] | None
    spread_path: Path | None = None
    spread_address: tuple[str, int] | None = None
    tls_address: tuple[str, int] | None = None


def tcp_place(daemon: Daemon, listen: str | None) -> tuple[str, int] | None:
    """The TCP address for clients, if there is a `client_port`; on loopback unless `listen` is given."""
    return _tcp_place(daemon, listen, daemon.client_port)


def spread_place(daemon: Daemon, listen: str | None) -> tuple[str, int] | None:
    """The TCP address for Spread clients, if there is a `spread_port`."""
    return _tcp_place(daemon, listen, daemon.spread_port)


def tls_place(daemon: Daemon, listen: str | None) -> tuple[str, int] | None:
    """The address for clients with TLS, if there is a `tls_port`: the daemon's, unless `listen` is given."""
    return None if daemon.tls_port is None else (listen or daemon.address, daemon.tls_port)


def _tcp_place(daemon: Daemon, listen: str | None, port: int | None) -> tuple[str, int] | None:
    if port is None:
        return None
    own = daemon.address if ip_address(daemon.address).is_loopback else _LOOPBACK
    return listen or own, port


def open_tcp(address: tuple[str, int], key: str = "client_port", option: str = "--listen") -> socket.socket:
    """Opens a listening TCP socket; BindError if that fails."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = kernel().socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        what = f"clients' TCP port {address[1]} of {address[0]}: {error.strerror or error}"
        raise BindError(f"{what}; choose another {key}, or another address for {option}") from error
    return sock


def open_spread(path: Path) -> socket.socket:
    """Opens the Unix socket for Spread clients, which has the same path on every host."""
    remedy = "remove what is there, or choose another directory for --spread-sockets"
    return open_unix(path, "Spread clients' socket", "--spread-sockets", 0o666, remedy)


def open_unix(
    path: Path,
    what: str = "clients' socket",
    option: str = "--socket",
    mode: int = 0o600,
    remedy: str = "",
) -> socket.socket:
    """Opens a listening Unix socket, for this user unless `mode` allows others; a stale one is replaced."""
    if len(os.fsencode(path)) > UNIX_PATH_BYTES_MAX:
        problem = f"{what} {path}: the path is longer than {UNIX_PATH_BYTES_MAX} bytes"
        raise BindError(f"{problem}; choose a shorter one for {option}")
    sock = kernel().socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o777 & ~mode)
    try:
        try:
            sock.bind(os.fspath(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or _somebody_listens(path):
                raise
            path.unlink()
            sock.bind(os.fspath(path))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        problem = f"{what} {path}: {error.strerror or error}"
        raise BindError(f"{problem}; {remedy or f'choose another one for {option}'}") from error
    finally:
        os.umask(before)
    return sock


def _somebody_listens(path: Path) -> bool:
    if not path.is_socket():
        return True  # Not a socket, so it must not be removed.
    with kernel().socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        failure = probe.connect_ex(os.fspath(path))
    return failure not in (errno.ECONNREFUSED, errno.ENOENT)
