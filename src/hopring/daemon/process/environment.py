"""The environment of a daemon's process: state directory, paths, limits, memory, and its parent.

A daemon allocates and frees blocks of a packet's size thousands of times a second. By default the C library
gives such memory back to the kernel at once and asks for it again, which then clears each page anew: a
tenth of the time of a daemon under load. `keep_memory` prevents that.
"""

import argparse
import contextlib
import ctypes
import gc
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hopring.config import AdminVerb, Config
from hopring.daemon.clients.listening import (
    UNIX_PATH_BYTES_MAX,
    ClientAddresses,
    spread_place,
    tcp_place,
    tls_place,
)
from hopring.daemon.clients.spill import SpillPlace
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.command_line import HopdExit, StartRefused
from hopring.daemon.process.trace_file import Number, TraceFile
from hopring.engine import Snapshot
from hopring.ids import DaemonId, Process
from hopring.session.options import SessionOptions
from hopring.system.kernel import kernel

DESCRIPTORS_RESERVED: Final = 512
"""Descriptors that connections of clients cannot use: for links, admin, metrics, files and spills.

Links take one for each other site, and 128 for connections without a greeting or a network; admin and metrics
take 16 each; all spills together take one. Where the system allows fewer than twice as many, half of all
descriptors are reserved."""

DESCRIPTORS_FOR_REFUSALS: Final = 64
"""For clients above the limit of sessions, which are told so; further ones wait in the listen backlog."""

NO_SOCKET: Final = (
    "no Unix socket for clients: the state directory cannot be written, or the path is longer than "
    f"{UNIX_PATH_BYTES_MAX} bytes; choose another one with --socket"
)


def session_options(config: Config, arguments: argparse.Namespace) -> SessionOptions:
    """The options of sessions; flags override the configuration."""
    given: dict[str, Any] = config.clients.given()
    if arguments.clients_max is not None:
        given["sessions_max"] = arguments.clients_max
    return SessionOptions(slow_allowed=arguments.slow, **given)


def admin_place(arguments: argparse.Namespace, config: Config) -> Path | None:
    """The path of the admin socket, if there is one; flags override the configuration."""
    if arguments.no_admin:
        return None
    if arguments.admin is not None:
        return Path(arguments.admin)
    if config.admin.socket is None:
        return None
    return Path(config.admin.socket.format(name=arguments.name, cluster=config.cluster))


def admin_verbs(arguments: argparse.Namespace, config: Config) -> frozenset[AdminVerb]:
    """The requests that the admin channel allows beside the status."""
    return frozenset(AdminVerb if arguments.dangerous else config.admin.allow)


def open_trace(
    path: Path,
    me: Process,
    names: dict[DaemonId, str],
    loop: Loop,
    snapshot: Callable[[], Snapshot],
    number: Number,
) -> TraceFile:
    """Opens the trace, to be continued; StartRefused if that fails."""
    try:
        return TraceFile(path, me, names, loop.now_us, snapshot, number)
    except OSError as error:
        problem = f"{path}: the trace cannot be written ({error.strerror})"
        raise StartRefused(HopdExit.FAILURE, f"{problem}; choose another file for --trace") from None


def client_addresses(
    arguments: argparse.Namespace, state: Path, config: Config, me: DaemonId
) -> ClientAddresses:
    """The addresses at which clients may connect."""
    own = config.daemons[me]
    path: Path | None = arguments.socket
    if path is None:
        path = state_path(state, config.cluster, own.name, "sock")
        if len(os.fsencode(path)) > UNIX_PATH_BYTES_MAX or not kernel().files.access(state, os.W_OK):
            path = None
    spread = spread_place(own, arguments.listen)
    sockets: Path = arguments.spread_sockets
    spread_path = None if spread is None else sockets / str(spread[1])
    tls = tls_place(own, arguments.listen_tls)
    return ClientAddresses(path, tcp_place(own, arguments.listen), spread_path, spread, tls)


def wanted_descriptors(clients: int) -> int:
    """The limit of open files that a daemon with so many clients needs."""
    return clients + DESCRIPTORS_FOR_REFUSALS + DESCRIPTORS_RESERVED


def allow_descriptors(clients: int) -> int:
    """Raises the limit of open files to what clients need, as far as the system allows.

    Returns how many descriptors connections of clients may use.
    """
    wanted = wanted_descriptors(clients)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return for_clients(soft)


def for_clients(descriptors: int) -> int:
    """How many of these descriptors connections of clients may use."""
    return descriptors - min(DESCRIPTORS_RESERVED, descriptors // 2)


def spill_place(directory: Path) -> SpillPlace | None:
    """The directory of spills; None if it cannot be made, and then no client may spill."""
    try:
        return SpillPlace(directory)
    except OSError:
        return None


def where_clients_come(addresses: ClientAddresses) -> dict[str, object]:
    """The addresses for clients, as fields of the log."""
    where: dict[str, object] = {} if addresses.path is None else {"socket": addresses.path}
    if addresses.address is not None:
        where["clients"] = f"{addresses.address[0]} port {addresses.address[1]}"
    if addresses.tls_address is not None:
        where["tls"] = f"{addresses.tls_address[0]} port {addresses.tls_address[1]}"
    spread = [] if addresses.spread_address is None else ["{} port {}".format(*addresses.spread_address)]
    spread += [] if addresses.spread_path is None else [str(addresses.spread_path)]
    if spread:
        where["spread"] = ", ".join(spread)
    return where


def state_directory(directory: Path | None) -> Path:
    """The state directory, which is made if needed; if that fails, the counter file warns."""
    if directory is None:
        given = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        directory = Path(given) if given else Path(base) / "hopring"
    with contextlib.suppress(OSError):
        make_directories(directory)
    return directory


def make_directories(directory: Path) -> None:
    """Makes a directory with those that it is in; OSError if that fails."""
    files = kernel().files
    try:
        files.mkdir(directory)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(directory.parent)
        files.mkdir(directory)


def state_path(state: Path, cluster: str, daemon: str, kind: str) -> Path:
    """The path of something that a daemon has in the state directory: CLUSTER.DAEMON.KIND.

    Where a name has a dot, `@` parts them, which no name has: otherwise daemon `b.c` of cluster `a` and daemon
    `c` of cluster `a.b` would share their files.
    """
    between = "@" if "." in cluster or "." in daemon else "."
    return state / f"{cluster}{between}{daemon}.{kind}"


STDIN: Final = 0
_READ_BYTES: Final = 4096


def end_with_descriptor(loop: Loop, fd: int, leave: Callable[[], None]) -> None:
    """Calls `leave` once, when the descriptor reaches its end; bytes before that are discarded."""

    def read(_events: int) -> None:
        try:
            said = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            said = b""  # A terminal that was hung up.
        if not said:
            loop.unregister(fd)
            leave()

    try:
        os.set_blocking(fd, False)
        loop.register(fd, read)
    except OSError:
        leave()  # Closed, or a file, which is at its end already.


COLLECT_OBJECTS: Final = 50_000
"""The number of new objects after which the garbage collector runs."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""Limit of free memory that is not returned to the kernel."""

MAPPED_BYTES_MIN: Final = 4 * 1024 * 1024
"""Blocks from this size on are mapped one by one, and returned to the kernel as soon as they are free."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def spare_the_collector() -> None:
    """Runs the garbage collector rarely: messages make no cycles, and the search takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)


def keep_memory() -> bool:
    """Asks the C library to keep free memory for the next packet; returns whether it supports that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # Only glibc has it.
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN))
