"""The client library for programs without an event loop: the same names, and every call waits.

A session belongs to one thread at a time. It reads from its daemon only while a call waits, so a program that
calls nothing for long is a slow receiver.
"""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final

from hopring.client.core import WINDOW_BYTES_DEFAULT, Core
from hopring.client.errors import ConnectError, SessionClosed, TimedOut
from hopring.client.events import Event, Message
from hopring.client.url import NO_DAEMON, URL_DEFAULT, any_name, parse_url
from hopring.services import Service

CONNECT_SECONDS: Final = 5.0
GOODBYE_SECONDS: Final = 10.0
READ_BYTES: Final = 1 << 18


class Session:
    """A client at a daemon: made by `connect`. Iterate over it for all events, in their order."""

    def __init__(self, core: Core, sock: socket.socket) -> None:
        """Use `connect`."""
        self._core = core
        self._socket = sock
        self._rest = memoryview(b"")  # What the kernel has not taken.
        sock.setblocking(False)

    @property
    def name(self) -> str:
        """The session's name at its daemon."""
        return self._core.name

    @property
    def daemon(self) -> str:
        """The daemon's name."""
        return self._core.welcomed.daemon

    @property
    def private_group(self) -> str:
        """The group that only this session is in; messages sent there reach it without a join."""
        return self._core.welcomed.private_group

    @property
    def message_bytes_max(self) -> int:
        """The largest message that the daemon takes."""
        return self._core.welcomed.message_bytes_max

    def join(self, group: str, *, timeout_seconds: float | None = None) -> "Group":
        """Becomes a member."""
        self._ask("join", group, self._core.join, timeout_seconds)
        return Group(self, group)

    def leave(self, group: str, *, timeout_seconds: float | None = None) -> None:
        """Is a member no longer when this returns."""
        self._ask("leave", group, self._core.leave, timeout_seconds)

    def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        service: Service = Service.AGREED,
        type: int = 0,  # The papers' word.
        self_discard: bool = False,
    ) -> None:
        """Sends a message to a group, a private group, or several; waits only for room in the window."""
        outgoing = self._core.outgoing
        run = outgoing.run((groups,) if isinstance(groups, str) else groups, service, self_discard)
        outgoing.check(data, type)
        self._until(lambda: self._core.outgoing.has_room(run, data), "multicast", None)
        outgoing.send(run, bytes(data), type)
        self._exchange(0.0)

    def receive(self, *, timeout_seconds: float | None = None) -> Event:
        """The next event of all; SessionClosed if there will be none, TimedOut if it does not come in time."""
        return self._receive(None, timeout_seconds)

    def __iter__(self) -> Iterator[Event]:
        """All events until the session is closed here; an error if it ends in another way."""
        return self._iterate(None)

    def fileno(self) -> int:
        """For `select`: when it is readable, `poll` may find an event."""
        return self._socket.fileno()

    def poll(self) -> bool:
        """Whether an event is here, without waiting."""
        self._exchange(0.0)
        return self._core.stream.waits()

    def close(self) -> None:
        """Ends the session when all that it asked for is done."""
        try:
            if self._core.ended is None:
                self._core.quit()
                self._until(lambda: self._core.ended is not None, "close", GOODBYE_SECONDS)
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends the session at once; the daemon notices by itself."""
        self._core.lost("it was closed here")
        self._socket.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    # Within the library.

    def _receive(self, group: str | None, seconds: float | None) -> Event:
        self._until(lambda: self._core.stream.waits(group) or self._is_over(group), "receive", seconds)
        event = self._core.take(group)
        if event is None:
            raise self._core.ended or SessionClosed(f"{group} was left")
        return event

    def _iterate(self, group: str | None) -> Iterator[Event]:
        while True:
            self._until(lambda: self._core.stream.waits(group) or self._is_over(group), "receive", None)
            event = self._core.take(group)
            if event is None:
                if self._core.ended is not None and not self._core.quit_done and self._in(group):
                    raise self._core.ended
                return
            yield event

    def _in(self, group: str | None) -> bool:
        return group is None or group in self._core.groups

    def _is_over(self, group: str | None) -> bool:
        return self._core.ended is not None or not self._in(group)

    def _ask(self, request: str, group: str, ask: Callable[[str], None], seconds: float | None) -> None:
        key = (request, group)
        self._until(self._core.may_ask, request, seconds)
        self._core.answers.pop(key, None)  # Of a call that did not wait for it.
        ask(group)
        self._until(lambda: self._core.answered(key), request, seconds)
        answer = self._core.answers.pop(key)
        if answer is not None:
            raise answer

    def _until(self, condition: Callable[[], bool], what: str, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while not condition():
            wait = None if end is None else end - time.monotonic()
            if wait is not None and wait <= 0:
                raise TimedOut(what, seconds or 0.0)
            self._exchange(wait)

    def _exchange(self, seconds: float | None) -> None:
        """Writes what there is, and reads; waits for either, but not for writing once all is written."""
        if self._core.ended is not None:
            return
        try:
            self._write()
            waiting = [self._socket] if self._rest else []
            readable, writable, _ = select.select([self._socket], waiting, [], seconds)
            if writable:
                self._write()
            if readable:
                self._read()
        except OSError as error:
            self._core.lost(f"the connection broke ({error.strerror or error})")

    def _write(self) -> None:
        if not self._rest:
            self._rest = memoryview(self._core.output())
        with contextlib.suppress(BlockingIOError):
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest) :]

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = self._socket.recv(READ_BYTES)
            if chunk:
                self._core.receive(chunk)
            else:
                self._core.lost("the daemon is gone")


class Group:
    """A group that the session is in. Iterate over it for its events alone."""

    def __init__(self, session: Session, name: str) -> None:
        """Use `Session.join`."""
        self.session = session
        self.name = name

    def multicast(
        self, data: bytes, *, service: Service = Service.AGREED, type: int = 0, self_discard: bool = False
    ) -> None:
        """Sends a message to the group; waits only for room in the window."""
        self.session.multicast(self.name, data, service=service, type=type, self_discard=self_discard)

    def leave(self) -> None:
        """Is a member no longer when this returns."""
        self.session.leave(self.name)

    def receive(self, *, timeout_seconds: float | None = None) -> Event:
        """The next event of this group."""
        return self.session._receive(self.name, timeout_seconds)

    def __iter__(self) -> Iterator[Event]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._iterate(self.name)

    def messages(self) -> Iterator[Message]:
        """The group's messages, for those who do not care for views."""
        return (event for event in self if isinstance(event, Message))

    def __enter__(self) -> "Group":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.session._in(self.name) and self.session._core.ended is None:
            self.leave()


def connect(
    url: str = URL_DEFAULT,
    *,
    name: str | None = None,
    membership: bool = True,
    window_bytes: int = WINDOW_BYTES_DEFAULT,
    slow: str = "kick",
    priority: bool = False,
    timeout_seconds: float = CONNECT_SECONDS,
) -> Session:
    """Connects to a daemon; `with connect(...) as session` closes it in the end. See `hopring.connect`."""
    where = parse_url(url)
    core = Core(url, any_name() if name is None else name, window_bytes, membership, slow, priority)
    try:
        if where.path:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout_seconds)
            sock.connect(where.path)
        else:
            sock = socket.create_connection((where.host, where.port), timeout_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise ConnectError(url, error.strerror or str(error), NO_DAEMON) from error
    session = Session(core, sock)
    core.hello()
    try:
        session._until(lambda: core.welcome is not None or core.ended is not None, "connect", timeout_seconds)
    except TimedOut:
        session.abort()
        raise ConnectError(url, f"no answer for {timeout_seconds:g} s", NO_DAEMON) from None
    if core.welcome is None:
        session.abort()
        assert core.ended is not None, "it is there or it is not"
        raise core.ended
    return session
