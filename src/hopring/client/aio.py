"""The client library for asyncio.

    async with connect("hop://localhost:4893", name="pricer") as session:
        group = await session.join("trades")
        await group.multicast(b"EURUSD 1.0842")
        async for event in session: ...

A session belongs to one event loop and its thread. Every wait may be cancelled; a request that was sent is
carried out nevertheless. A session uses one timer and, while it connects, one task.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from hopring.client import calls, queries
from hopring.client.aio_transport import AioTransport, dial
from hopring.client.arguments import (
    URL_DEFAULT,
    Reconnect,
    check_join,
    check_messages,
    check_number,
    check_plain_group,
    check_seconds,
)
from hopring.client.calls import MANY_MESSAGES, BatchItem, Call, batch_of, multicast_batch
from hopring.client.core import CONNECT_SECONDS, WINDOW_BYTES_DEFAULT, ClientCore
from hopring.client.events import Event, Message, Receipt
from hopring.client.outgoing import Data
from hopring.client.queries import DaemonFacts, DaemonView, GroupInfo, GroupMembers, LinkWeights, Query
from hopring.client.sequence import EventSequence
from hopring.client.session_base import (
    AioGroupRequests,
    AioRequests,
    PathName,
    SessionCredentials,
    SessionProperties,
    core_of,
    message_of,
    series_of,
)
from hopring.client.sockets import now_us
from hopring.ids import NEVER
from hopring.services import Service
from hopring.session.options import SlowPolicy

__all__ = ["Connecting", "Group", "Joining", "Session", "connect"]

T = TypeVar("T")


class Session(SessionProperties, AioRequests):
    """A client at a daemon: made by `connect`. Iterate over it for all events, in their order."""

    def __init__(self, core: ClientCore) -> None:
        """Called by `connect`, not by applications."""
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._socket: AioTransport | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._dialing: asyncio.Task[None] | None = None

    def join(self, group: str, since: int | None = None, spool: Path | str | None = None) -> "Joining":
        """Becomes a member: `await` it, or use it as `async with`, which leaves in the end.

        With `since`, an offset in the group's spool in the directory `spool`, the events from there on come
        first, then the live ones, without a gap between them.
        """
        check_join(self._core, group, since, spool)
        return Joining(self, group, since, spool)

    async def leave(self, group: str) -> None:
        """Leaves a group; the session is no member when this returns."""
        check_plain_group(group)
        if self._calls is not None:
            await self._calls.leave(group)
        await self._run(calls.leave(self._core, group, now_us()))

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,  # The papers' word.
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a message to a group, a private group, or several; waits only for room in the window."""
        if headers is None and self._core.try_send(groups, data, service, type, self_discard):
            if not self._flush_due:
                self._flush_due = True
                self._loop.call_soon(
                    self._flush
                )  # In the next turn of the loop: messages of this turn share a bundle.
            return
        sending = message_of(groups, data, service, type, self_discard, headers)
        if self._core.has_room(sending):
            self._core.send(sending)
            self._flush_soon()
        else:
            await self._run(calls.multicast(self._core, sending, now_us()))

    async def multicast_many(
        self,
        groups: str | Sequence[str],
        bodies: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Sends many messages that share all but their bodies, in their order, cheaper than one by one.

        Waits only for room in the window. If it is cancelled, or the connection is lost, some of the first
        ones may have been sent.
        """
        many = series_of(groups, bodies, service, type, self_discard)
        if many.left and self._core.has_room_for_some(many):
            self._core.send_some(many)
            self._flush_soon()
        if many.left:
            await self._run(calls.multicast_many(self._core, many, now_us()))

    async def multicast_wait(
        self,
        groups: str | Sequence[str],
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Receipt:
        """Sends a message and waits until it is delivered at the session's daemon; returns its place.

        No membership is needed. For a Safe message it means that all daemons of the view have it. NoReceipt
        and InDoubt say that the message was sent and may be delivered or not; after any other error it was not
        sent.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        sending = message_of(groups, data, service, type, self_discard, headers)
        return await self._run(calls.multicast_wait(self._core, sending, now_us(), timeout_seconds))

    async def multicast_batch(
        self,
        group: str,
        messages: Iterable[BatchItem],
        *,
        app: str,
        batch: int,
        service: Service = Service.SAFE,
        timeout_seconds: float | None = None,
    ) -> Receipt | None:
        """Sends messages, each with an optional type, as a batch of an application that counts once.

        Returns the last receipt (None for an empty batch) when the session's daemon has delivered all messages.
        BatchInDoubt says that the connection was lost, or that nothing moved for `timeout_seconds`: the same
        messages may then be sent again under the same number, by any session, and receivers drop those that
        they have had.
        """
        which = batch_of(group, app, batch, service)
        check_messages(messages)
        check_seconds("timeout_seconds", timeout_seconds)
        return await self._run(multicast_batch(self._core, which, messages, now_us(), timeout_seconds))

    async def receive(self) -> Event:
        """The next event of any group; SessionClosed if none can arrive."""
        return await self._receive(None)

    async def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence:
        """Up to `max_messages` messages and the other events among them, in their order.

        With `max_wait_seconds` it waits up to that time and returns the events so far, perhaps none; without,
        it waits for a first event and returns all that are there. SessionClosed if none can arrive.
        """
        return await self._receive_many(None, max_messages, max_wait_seconds)

    def __aiter__(self) -> AsyncIterator[Event]:
        """All events until the session is closed; an error if it ends in another way."""
        return self._iterate(None)

    async def messages(self) -> AsyncIterator[Message]:
        """The messages of all groups, without views and other events."""
        async for event in self:
            if isinstance(event, Message):
                yield event

    async def groups(self) -> tuple[GroupInfo, ...]:
        """All groups that have members, as this daemon knows them; no join is needed."""
        return await self._query(queries.groups())

    async def members(self, group: str) -> GroupMembers:
        """The members of a group."""
        return await self._query(queries.members(group))

    async def view(self, after: DaemonView | None = None) -> DaemonView:
        """The daemons' present view; with `after`, waits for the one that follows."""
        return await self._query(queries.view(after))

    async def daemon_facts(self) -> DaemonFacts:
        """The daemon's description of itself and its links."""
        return await self._query(queries.daemon())

    async def link_weights(self) -> LinkWeights:
        """The weights of each link between sites: configured, measured here, and agreed for routing."""
        return await self._query(queries.weights())

    async def close(self) -> None:
        """Ends the session after all its requests are done."""
        if self._calls is not None:
            self._calls.flush()
        try:
            await self._run(calls.close(self._core, now_us()))
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends the session at once; the daemon notices by itself."""
        self._abort(None)

    # Within the library.

    def _abort(self, cause: BaseException | None) -> None:
        """Ends it at once; an error of the application becomes the cause of errors in waiting calls."""
        self._core.close(cause)
        if self._dialing is not None:
            self._dialing.cancel()
        self._check_connection()  # Calls and handlers end, too.

    async def _query(self, query: Query[T]) -> T:
        return await self._run(calls.query(self._core, query, now_us()))

    async def _receive(self, group: str | None) -> Event:
        core = self._core
        event = core.take(group)
        if event is None:
            event = await self._next(group)
        if event is None:
            return await self._run(calls.receive(core, group, now_us()))
        if not self._flush_due and core.connection.has_output:
            self._flush_soon()
        return event

    async def _next(self, group: str | None) -> Event | None:
        """Waits for the next event on the fast path of most messages; check first that there is none.

        It waits like `_until`, but without a condition. None if the general call has to take over.
        """
        core = self._core
        event = None
        while event is None and not core.replays and not core.is_over(group):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter in self._waiters:  # It was not woken.
                    self._waiters.remove(waiter)
                raise
            event = core.take(group)
        return event

    async def _receive_many(self, group: str | None, messages: int, seconds: float | None) -> EventSequence:
        check_number("max_messages", messages, 1)
        check_seconds("max_wait_seconds", seconds)
        core = self._core
        if seconds is None and not core.replays:
            # The fast path of the call: enough as long as events arrive.
            if not core.has_news(group):
                await self._until(lambda: core.has_news(group), NEVER)
            if core.stream.waits(group) and not core.replays:
                events = core.take_many(messages, group)
                self._flush_soon()
                return events
        return await self._run(calls.receive_many(self._core, group, messages, now_us(), seconds))

    async def _iterate(self, group: str | None) -> AsyncIterator[Event]:
        core = self._core
        while True:
            entry = core.entry(group)
            while entry is not None and entry.end - entry.at > 1:
                # All but the last message of a bundle need nothing else.
                yield entry.message()
            event = core.take(group)
            if event is None:
                event = await self._next(group)
            if event is None:
                event = await self._run(calls.following(core, group, now_us()))
            if event is None:
                return
            if not self._flush_due and core.connection.has_output:
                self._flush_soon()
            yield event

    async def _join(self, group: str, since: int | None, spool: Path | str | None) -> "Group":
        await self._run(calls.join_from(self._core, group, since, spool, now_us()))
        return Group(self, group)

    async def _run(self, call: Call[T]) -> T:
        try:
            wait = next(call)
            self._flush_soon()
            while True:
                await self._until(wait.condition, wait.until_us)
                wait = call.send(now_us())
                self._flush_soon()
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            call.close()
            self._flush_soon()
            if self._waiters:
                self._wake()  # Other calls may wait for the end of this one.

    async def _until(self, condition: Callable[[], bool], until_us: int) -> None:
        while not condition() and (until_us == NEVER or now_us() < until_us):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                if until_us == NEVER:
                    await waiter
                else:
                    await asyncio.wait([waiter], timeout=max(0, until_us - now_us()) / 1_000_000)
            finally:
                if waiter in self._waiters:  # Nobody has woken it.
                    self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _flush_soon(self) -> None:
        if not self._flush_due and self._core.connection.has_output:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        sock = self._socket
        if sock is None:
            return
        transport, channel = sock.transport, sock.channel
        if channel is not None and not channel.established:
            return
        if transport is not None and not transport.is_closing():
            output = self._core.output()
            if output:
                transport.write(output if channel is None else channel.encrypt(output))

    # Connections.

    async def _open(self) -> None:
        self._core.begin(now_us())
        self._check_connection()
        try:
            await self._until(lambda: self._core.welcome is not None or self._core.ended is not None, NEVER)
        except asyncio.CancelledError:
            self.abort()
            raise
        if self._core.ended is not None and self._core.welcome is None:
            self.abort()
            raise self._core.ended

    def _check_connection(self) -> None:
        """After any event: drops an ended connection, connects if it is time, and sets the timer."""
        core = self._core
        core.tick(now_us())
        if core.connection.ended is not None and self._socket is not None:
            self._socket.close(at_once=not core.quit_done)
            self._socket = None
        url = core.dial(now_us())
        if url is not None:
            if self._dialing is not None:
                self._dialing.cancel()
            self._dialing = self._loop.create_task(dial(self, url))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if core.ended is None and core.wake_at_us != NEVER:
            delay_us = max(0, core.wake_at_us - now_us())
            self._timer = self._loop.call_later(delay_us / 1_000_000, self._check_connection)
        if self._calls is not None:
            self._calls.received()
        self._flush_soon()
        self._wake()


class Group(AioGroupRequests):
    """A group that the session is in. Iterate over it for its events alone."""

    session: Session

    def __init__(self, session: Session, name: str) -> None:
        """Called by `Session.join`, not by applications."""
        self.session = session
        self.name = name

    async def multicast(
        self,
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sends a message to the group; waits only for room in the window."""
        await self.session.multicast(
            self.name, data, service=service, type=type, self_discard=self_discard, headers=headers
        )

    async def multicast_many(
        self,
        bodies: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Sends many messages to the group; see `Session.multicast_many`."""
        await self.session.multicast_many(
            self.name, bodies, service=service, type=type, self_discard=self_discard
        )

    async def multicast_wait(
        self,
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Receipt:
        """Sends a message to the group and returns its place in the order; see `Session.multicast_wait`."""
        return await self.session.multicast_wait(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
            timeout_seconds=timeout_seconds,
        )

    async def multicast_batch(
        self,
        messages: Iterable[BatchItem],
        *,
        app: str,
        batch: int,
        service: Service = Service.SAFE,
        timeout_seconds: float | None = None,
    ) -> Receipt | None:
        """Sends a batch that counts once to the group; see `Session.multicast_batch`."""
        return await self.session.multicast_batch(
            self.name, messages, app=app, batch=batch, service=service, timeout_seconds=timeout_seconds
        )

    async def members(self) -> GroupMembers:
        """The members of the group as the daemon knows them now; a view has them at its place in the order."""
        return await self.session.members(self.name)

    async def leave(self) -> None:
        """Leaves the group; the session is no member when this returns."""
        await self.session.leave(self.name)

    async def receive(self) -> Event:
        """The next event of this group."""
        return await self.session._receive(self.name)

    async def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence:
        """Many events of this group; see `Session.receive_many`."""
        return await self.session._receive_many(self.name, max_messages, max_wait_seconds)

    def __aiter__(self) -> AsyncIterator[Event]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._iterate(self.name)

    async def messages(self) -> AsyncIterator[Message]:
        """The group's messages, without views and other events."""
        async for event in self:
            if isinstance(event, Message):
                yield event


class Joining:
    """A join that can be awaited, or used as `async with`."""

    def __init__(
        self, session: Session, group: str, since: int | None = None, spool: Path | str | None = None
    ) -> None:
        self._session = session
        self._group = group
        self._from = (since, spool)

    def __await__(self) -> Generator[object, None, Group]:
        """Waits until the session is a member."""
        return self._session._join(self._group, *self._from).__await__()

    async def __aenter__(self) -> Group:
        return await self._session._join(self._group, *self._from)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._session._core.is_over(self._group):
            await self._session.leave(self._group)


class Connecting:
    """A connection that can be awaited, or used as `async with`."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._session: Session | None = None

    def __await__(self) -> Generator[object, None, Session]:
        """Waits until the session is there."""
        return self._open().__await__()

    async def _open(self) -> Session:
        self._session = Session(self._core)
        await self._session._open()
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
            self._session._abort(error)


def connect(
    url: str | Sequence[str] = URL_DEFAULT,
    *,
    name: str | None = None,
    membership: bool = True,
    window_bytes: int = WINDOW_BYTES_DEFAULT,
    slow: SlowPolicy = "kick",
    priority: bool = False,
    user: str | None = None,
    key: PathName | None = None,
    token: PathName | None = None,
    ca: PathName | None = None,
    certificate: PathName | None = None,
    timeout_seconds: float = CONNECT_SECONDS,
    reconnect: bool | Reconnect = True,
) -> Connecting:
    """Connects to a daemon: `await connect(...)` or `async with connect(...) as session`.

    `url` may name several daemons, in a list or separated by commas; the first that answers within
    `timeout_seconds` is used. `name` is the session's name at its daemon; without one, a unique name is made.
    `membership=False` omits views and transitions. `window_bytes` limits the events that wait in this process;
    further ones wait at the daemon. `slow` is the daemon's policy when that backlog is too long: "kick" ends
    the session (SlowConsumer), "drop" drops messages (Gap), "spill" writes them to disk, "block" lets senders
    wait. With `priority` the session's messages and events go first.

    A `hops://` address is that of a daemon's port for TLS. The file `ca` has the certificate of the cluster's
    authority (`keys/ca.crt` of `hop keys`): only a daemon of that cluster is spoken to.

    A daemon with grants asks who the client is: `user` with the file `key` of that user's private key, the
    file `token` with a token, or, by TLS, the file `certificate` of `hop keys user NAME --certificate`. Tokens
    and certificates are read again for each connection. NotAllowed says that it was refused.

    When the connection is lost the session reconnects, joins its groups again, and puts a `Reconnected` among
    its events; meanwhile calls wait. `reconnect=False` ends it with SessionClosed instead, and a `Reconnect`
    sets how long it tries. The first connection is tried once at each daemon.
    """
    credentials = SessionCredentials(user, key, token, ca, certificate)
    return Connecting(
        core_of(url, name, membership, window_bytes, slow, priority, timeout_seconds, reconnect, credentials)
    )
