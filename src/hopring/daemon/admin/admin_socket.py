"""The admin channel of a daemon: a Unix socket for its own user, root, and, if the mode allows it, its group.

There is none unless `--admin` or the configuration names a path.
"""

import contextlib
import os
import socket
import struct
from array import array
from collections.abc import Collection
from pathlib import Path
from typing import Final

from hopring.config import AdminVerb
from hopring.daemon.admin.protocol import (
    LINE_BYTES_MAX,
    Controls,
    NotJson,
    answer,
    busy_answer,
    denial_answer,
    garbage_answer,
    too_long_answer,
    watched_after,
)
from hopring.daemon.clients.authentication import uid_identity
from hopring.daemon.clients.connection import ClientConnection, ClientListener
from hopring.daemon.clients.listening import open_unix
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.audit import AuditFile
from hopring.daemon.process.event_store import EventStore, StoredEvent

CALLERS_MAX: Final = 16
"""One more closes the connection that was silent for longest, so idle callers do not keep others out."""

UNREAD_BYTES_MAX: Final = 1 << 20
"""Answers that a caller has not read; above this its connection is closed."""

WATCHERS_MAX: Final = 8
"""Callers that get events as they come; one more is refused."""

UNREAD_EVENTS_BYTES_MAX: Final = 6 << 20
"""Above all events that a daemon keeps: a watcher that has not read more than this is disconnected."""

OWNER_ONLY: Final = 0o600
"""With any other mode, members of the socket's group may call, too."""

_SO_PEERGROUPS: Final = 59  # Of Linux; Python has no name for it.
_GROUPS_BYTES_MAX: Final = 4 * 65_536
_CREDENTIALS: Final = struct.Struct("=iII")  # pid, uid, gid
_ROOT: Final = 0
_NO_ADMIN: Final = "call as the daemon's own user, or as root"


class _Caller:
    """A connection, the incomplete line that it sent last, and the answers that wait for it."""

    def __init__(self, connection: ClientConnection, uid: int) -> None:
        self.connection = connection
        self.line = b""
        self.answers: list[bytes] = []
        self.uid = uid
        self.watches = False


class AdminSocket:
    """All callers of one daemon."""

    def __init__(
        self,
        loop: Loop,
        log: DaemonLog,
        path: Path,
        controls: Controls,
        allowed: Collection[AdminVerb] = (),
        mode: int = OWNER_ONLY,
    ) -> None:
        """Listens; raises BindError. Requests for the status are always allowed, others by `allowed`."""
        self._loop = loop
        self._log = log
        self.path = path
        self._controls = controls
        self.allowed = allowed
        self.audit: AuditFile | None = None
        self._events: EventStore | None = None
        self._mode = mode
        self._callers: dict[int, _Caller] = {}  # In the order of their last requests.
        self._count = 0
        self._listener = ClientListener(loop, open_unix(path, "admin socket", "--admin", mode), self._welcome)

    def offer(self, events: EventStore) -> None:
        """Callers may watch these events from now on."""
        self._events = events
        events.watchers.append(self._publish)

    def _publish(self, event: StoredEvent) -> None:
        for caller in [one for one in self._callers.values() if one.watches]:
            caller.answers.append(event.line + b"\n")
            self._send(caller)

    def close(self) -> None:
        """Closes the socket, its file, and all connections of callers."""
        self._listener.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        for caller in list(self._callers.values()):
            caller.connection.close()

    def _welcome(self, sock: socket.socket) -> None:
        uid = caller_uid(sock)
        if uid not in (_ROOT, os.geteuid()) and not self._in_group(sock):
            remedy = _NO_ADMIN if self._mode == OWNER_ONLY else f"{_NO_ADMIN}, or in the socket's group"
            self._log.say("refused", admin=f"user {uid}", remedy=remedy)
            self._note("refused", uid, request="admin")
            with contextlib.suppress(OSError):
                sock.send(denial_answer(f"user {uid} is no admin of this daemon", remedy))
            sock.close()
            return
        if len(self._callers) == CALLERS_MAX:
            next(one for one in self._callers.values() if not one.watches).connection.close()
        self._count += 1
        self._callers[self._count] = _Caller(ClientConnection(self._loop, sock, self._count, self), uid)

    def _note(self, event: str, uid: int, **fields: object) -> None:
        if self.audit is not None:
            self.audit.write(event, identity=uid_identity(uid), **fields)

    def _in_group(self, sock: socket.socket) -> bool:
        return self._mode != OWNER_ONLY and self.path.stat().st_gid in caller_gids(sock)

    # Called by connections (`ConnectionOwner`).

    def received(self, number: int, chunk: bytes) -> None:
        """Adds bytes of a caller, and answers every complete line."""
        caller = self._callers[number] = self._callers.pop(number)
        *lines, caller.line = (caller.line + chunk).split(b"\n")
        try:
            for line in lines:
                self._handle_line(caller, line)
        except NotJson:
            caller.connection.finish(b"".join(caller.answers) + garbage_answer())
            return
        if len(caller.line) > LINE_BYTES_MAX:
            caller.connection.finish(b"".join(caller.answers) + too_long_answer())
        else:
            self._send(caller)

    def _send(self, caller: _Caller) -> None:
        """Sends the answers of a caller, unless it does not read them."""
        unread_bytes_max = UNREAD_EVENTS_BYTES_MAX if caller.watches else UNREAD_BYTES_MAX
        if sum(map(len, caller.answers)) > unread_bytes_max:
            caller.connection.close()
        else:
            caller.connection.flush_soon()

    def _handle_line(self, caller: _Caller, line: bytes) -> None:
        if len(line) > LINE_BYTES_MAX:
            raise NotJson
        if (after := watched_after(line)) is not None:
            self._watch(caller, line, after)
        elif line.strip():
            said = answer(line, self._controls, self.allowed)
            if b'"status"' not in line:  # Requests for the status are not logged.
                self._note("admin", caller.uid, request=line.decode(errors="replace"))
                self._log.say(
                    "admin",
                    user=caller.uid,
                    request=line.decode(errors="replace"),
                    answer=said.decode().strip(),
                )
            caller.answers.append(said)

    def _watch(self, caller: _Caller, line: bytes, after: int) -> None:
        watchers = sum([one.watches for one in self._callers.values()])
        if self._events is None or (watchers >= WATCHERS_MAX and not caller.watches):
            caller.answers.append(busy_answer(WATCHERS_MAX))
            return
        caller.answers.append(answer(line, self._controls, self.allowed))
        caller.answers += [one.line + b"\n" for one in self._events.after(after)]
        caller.watches = True

    def fetch(self, number: int, _bytes_max: int) -> list[bytes]:
        """The answers that wait for a caller."""
        caller = self._callers[number]
        answers, caller.answers = caller.answers, []
        return answers

    def lost(self, number: int) -> None:
        """The caller has closed its end; its earlier requests stay in force."""

    def closed(self, number: int) -> None:
        """The connection has ended: forgets the caller."""
        del self._callers[number]


def caller_uid(sock: socket.socket) -> int:
    """The user at the other end of a Unix socket, as the kernel reports it."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, _gid = _CREDENTIALS.unpack(credentials)
    return int(uid)


def caller_gids(sock: socket.socket) -> set[int]:
    """The groups of the user at the other end of a Unix socket, as the kernel reports them."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, _uid, gid = _CREDENTIALS.unpack(credentials)
    try:
        others = array("I", sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES_MAX))
    except OSError:
        others = array("I")  # A kernel before 4.13 reports only the first one.
    return {int(gid), *others}
