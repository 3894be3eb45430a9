"""What both shells' sessions share: the facts of a session, and how one is described before it is there."""

import random
import socket
import time
from collections.abc import Sequence
from typing import Final

from hopring.client.core import Core
from hopring.client.retrying import Reconnect
from hopring.client.sending import Data, Many, Sending, check_type, checked_groups
from hopring.client.url import any_name, parse_urls
from hopring.services import Service

SILENT_SECONDS: Final = 10
PROBE_SECONDS: Final = 3
PROBES_MAX: Final = 3
"""After so long a silence TCP asks the daemon's host whether it is there, so often, that many times."""


class SessionFacts:
    """What is known of a session."""

    _core: Core

    @property
    def name(self) -> str:
        """The session's name at its daemon."""
        return self._core.name

    @property
    def daemon(self) -> str:
        """The daemon's name; while there is no connection, of the last one."""
        return self._core.welcomed.daemon

    @property
    def private_group(self) -> str:
        """The group that only this session is in; messages sent there reach it without a join."""
        return self._core.welcomed.private_group

    @property
    def message_bytes_max(self) -> int:
        """The largest message that the daemon takes."""
        return self._core.welcomed.message_bytes_max

    @property
    def joined(self) -> tuple[str, ...]:
        """The groups that the session is in; while there is no connection, those that it will join again."""
        return tuple(sorted(self._core.groups))

    @property
    def dropped_again(self) -> int:
        """Messages of batches that came again and that the session had had, so that it dropped them."""
        return self._core.kept.once.dropped

    @property
    def connected(self) -> bool:
        """Whether there is a daemon at the other end now."""
        return self._core.connected


def core_of(
    url: str | Sequence[str],
    name: str | None,
    membership: bool,
    window_bytes: int,
    slow: str,
    priority: bool,
    timeout_seconds: float,
    reconnect: bool | Reconnect,
) -> Core:
    """The core for what an application asks of `connect`; ValueError says what is wrong with it."""
    if reconnect is True:
        reconnect = Reconnect()
    return Core(
        parse_urls(url),
        any_name() if name is None else name,
        window_bytes,
        membership,
        slow=slow,
        priority=priority,
        reconnect=reconnect or None,
        answer_seconds=timeout_seconds,
        epoch_us=time.time_ns() // 1000 - now_us(),
        chance=random.random,
    )


def sending_of(
    groups: str | Sequence[str], data: Data, service: Service, message_type: int, self_discard: bool
) -> Sending:
    """A message as an application gave it; several buffers become one."""
    names = checked_groups((groups,) if isinstance(groups, str) else tuple(groups))
    check_type(message_type)
    if isinstance(data, bytes):
        return Sending(names, data, service, message_type, bool(self_discard))
    whole = bytes(data) if isinstance(data, bytearray | memoryview) else b"".join(data)
    return Sending(names, whole, service, message_type, bool(self_discard))


def many_of(
    groups: str | Sequence[str],
    bodies: Sequence[bytes],
    service: Service,
    message_type: int,
    self_discard: bool,
) -> Many:
    """Messages as an application gave them."""
    names = checked_groups((groups,) if isinstance(groups, str) else tuple(groups))
    check_type(message_type)
    return Many(Sending(names, b"", service, message_type, bool(self_discard)), bodies)


def tune(sock: socket.socket) -> None:
    """What is written goes at once, and a host that has vanished without a word is noticed all the same."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES_MAX)
    vanished_ms = 1000 * (SILENT_SECONDS + PROBES_MAX * PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, vanished_ms)


def reason_of(error: Exception) -> str:
    """What a socket's error says, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def now_us() -> int:
    """The shells' clock."""
    return time.monotonic_ns() // 1000
