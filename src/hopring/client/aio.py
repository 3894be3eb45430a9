"""The client library for asyncio.

    async with connect("hop://localhost:4893", name="pricer") as session:
        group = await session.join("trades")
        await group.multicast(b"EURUSD 1.0842")
        async for event in session: ...

All of a session belongs to one event loop and its thread. Every wait may be cancelled; a request that has gone
out is carried out nevertheless. There are no tasks and no callbacks behind it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from types import TracebackType
from typing import Final

from hopring.client.aio_group import Group, Joining
from hopring.client.core import WINDOW_BYTES_DEFAULT, Core, Request
from hopring.client.errors import ConnectError, SessionClosed, TimedOut
from hopring.client.events import Event
from hopring.client.url import NO_DAEMON, URL_DEFAULT, any_name, parse_url
from hopring.services import Service

__all__ = ["Group", "Session", "connect"]

CONNECT_SECONDS: Final = 5.0
GOODBYE_SECONDS: Final = 10.0


class Session:
    """A client at a daemon: made by `connect`. Iterate over it for all events, in their order."""

    def __init__(self, core: Core) -> None:
        """Use `connect`."""
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._flush_due = False
        self._asking: set[Request] = set()

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

    def join(self, group: str) -> Joining:
        """Becomes a member: `await` it, or use it as `async with`, which leaves in the end."""
        return Joining(self, group)

    async def leave(self, group: str) -> None:
        """Is a member no longer when this returns."""
        await self._until(self._core.may_ask)
        await self._ask("leave", group, self._core.leave)

    async def multicast(
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
        if not outgoing.has_room(run, data):
            await self._until(lambda: self._core.outgoing.has_room(run, data))
        outgoing.send(run, bytes(data), type)
        self._flush_soon()

    async def receive(self) -> Event:
        """The next event of all; SessionClosed if there will be none."""
        return await self._receive(None)

    def __aiter__(self) -> AsyncIterator[Event]:
        """All events until the session is closed here; an error if it ends in another way."""
        return self._iterate(None)

    async def close(self) -> None:
        """Ends the session when all that it asked for is done."""
        if self._core.ended is None:
            self._core.quit()
            self._flush_soon()
            try:
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._until(lambda: self._core.ended is not None)
            except TimeoutError:
                raise TimedOut("close", GOODBYE_SECONDS) from None
            finally:
                self.abort()
        self.abort()

    def abort(self) -> None:
        """Ends the session at once; the daemon notices by itself."""
        self._core.lost("it was closed here")
        if self._transport is not None:
            self._transport.abort()

    # Within the library.

    async def _receive(self, group: str | None) -> Event:
        await self._until(lambda: self._core.stream.waits(group) or self._is_over(group))
        event = self._core.take(group)
        if event is None:
            raise self._core.ended or SessionClosed(f"{group} was left")
        self._flush_soon()
        return event

    async def _iterate(self, group: str | None) -> AsyncIterator[Event]:
        while True:
            await self._until(lambda: self._core.stream.waits(group) or self._is_over(group))
            event = self._core.take(group)
            if event is None:
                if self._core.ended is not None and not self._core.quit_done and self._in(group):
                    raise self._core.ended
                return
            self._flush_soon()
            yield event

    def _in(self, group: str | None) -> bool:
        return group is None or group in self._core.groups

    def _is_over(self, group: str | None) -> bool:
        return self._core.ended is not None or not self._in(group)

    async def _join(self, group: str) -> Group:
        await self._until(self._core.may_ask)
        await self._ask("join", group, self._core.join)
        return Group(self, group)

    async def _ask(self, request: str, group: str, ask: Callable[[str], None]) -> None:
        key = (request, group)
        await self._until(lambda: key not in self._asking)
        self._asking.add(key)
        self._core.answers.pop(key, None)  # Of a call that was cancelled.
        try:
            ask(group)
            self._flush_soon()
            await self._until(lambda: self._core.answered(key))
        finally:
            self._asking.discard(key)
            self._wake()
        answer = self._core.answers.pop(key)
        if answer is not None:
            raise answer

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._transport is not None and not self._transport.is_closing():
            output = self._core.output()
            if output:
                self._transport.write(output)

    async def _open(self, seconds: float) -> None:
        where = parse_url(self._core.url)
        self._core.hello()
        try:
            async with asyncio.timeout(seconds):
                if where.path:
                    await self._loop.create_unix_connection(lambda: _Wire(self), where.path)
                else:
                    await self._loop.create_connection(lambda: _Wire(self), where.host, where.port)
                await self._until(lambda: self._core.welcome is not None or self._core.ended is not None)
        except TimeoutError:
            self.abort()
            raise ConnectError(self._core.url, f"no answer for {seconds:g} s", NO_DAEMON) from None
        except OSError as error:
            raise ConnectError(self._core.url, error.strerror or str(error), NO_DAEMON) from error
        except asyncio.CancelledError:
            self.abort()
            raise
        if self._core.ended is not None and self._core.welcome is None:
            self.abort()
            raise self._core.ended


class _Wire(asyncio.Protocol):
    """The connection's end in the event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "streams have such transports"
        self._session._transport = transport
        self._session._flush()

    def data_received(self, data: bytes) -> None:
        self._session._core.receive(data)
        if self._session._core.ended is not None and self._session._transport is not None:
            self._session._transport.close()
        self._session._flush_soon()
        self._session._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._session._core.lost("the daemon is gone" if exc is None else f"the connection broke ({exc})")
        self._session._wake()


class Connecting:
    """A connection that can be awaited, or used as `async with`."""

    def __init__(self, core: Core, seconds: float) -> None:
        self._core = core
        self._seconds = seconds
        self._session: Session | None = None

    def __await__(self) -> Generator[object, None, Session]:
        """Waits until the session is there."""
        return self._open().__await__()

    async def _open(self) -> Session:
        self._session = Session(self._core)
        await self._session._open(self._seconds)
        return self._session

    async def __aenter__(self) -> Session:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None, "it was entered"
        if kind is None:
            await self._session.close()
        else:
            self._session.abort()


def connect(
    url: str = URL_DEFAULT,
    *,
    name: str | None = None,
    membership: bool = True,
    window_bytes: int = WINDOW_BYTES_DEFAULT,
    slow: str = "kick",
    priority: bool = False,
    timeout_seconds: float = CONNECT_SECONDS,
) -> Connecting:
    """Connects to a daemon: `await connect(...)` or `async with connect(...) as session`.

    The name is the session's at its daemon; without one it gets one. `membership=False` does without views and
    transitions. `window_bytes` is how much of what the daemon sends may wait here; what the application does
    not take beyond that waits at the daemon. `slow` is what it does when too much waits there: "kick" ends the
    session (SlowConsumer), "drop" drops messages (Gap), "spill" keeps them on disk, "block" lets senders wait.
    With `priority` what the session sends and receives goes before what others do.
    """
    parse_url(url)
    return Connecting(
        Core(url, any_name() if name is None else name, window_bytes, membership, slow, priority),
        timeout_seconds,
    )
