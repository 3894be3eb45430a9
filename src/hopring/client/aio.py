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
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast, overload

from hopring.client import calls, queries
from hopring.client.aio_group import Group, Joining
from hopring.client.aio_transport import AioTransport, dial
from hopring.client.arguments import (
    URL_DEFAULT,
    ConnectOptions,
    PathName,
    Reconnect,
    Requirement,
    SynchronyName,
    ViewSynchrony,
    check_join,
    check_messages,
    check_minimum,
    check_number,
    check_only,
    check_plain_group,
    check_seconds,
    check_synchrony,
)
from hopring.client.calls import MANY_MESSAGES, BatchItem, Call, batch_of, multicast_batch
from hopring.client.core import CONNECT_SECONDS, WINDOW_BYTES_DEFAULT, ClientCore
from hopring.client.events import Event, Message, Quorum, Receipt, V
from hopring.client.features.requests import AioRequests
from hopring.client.features.synchrony import AioSynchrony
from hopring.client.locks.handles import AioLocks
from hopring.client.outgoing import Data
from hopring.client.queries import DaemonFacts, DaemonView, GroupInfo, GroupMembers, LinkWeights, Query
from hopring.client.receiving.fetching import AioFetcher, fetching_core
from hopring.client.receiving.sequence import EventSequence
from hopring.client.session_base import (
    SessionCredentials,
    SessionProperties,
    core_of,
    message_of,
    series_of,
)
from hopring.client.sockets import now_us
from hopring.client.values.codecs import Codec, CodecName, bodies_of, codec_of, decoded, decoded_later, encoded
from hopring.client.values.providers import StateProvider, check_state
from hopring.client.values.tracing import check_tracing
from hopring.ids import NEVER, Place
from hopring.services import Service
from hopring.session.options import SlowPolicy, WhenSuspended

__all__ = ["Connecting", "Group", "Joining", "Session", "connect"]

T = TypeVar("T")


class Session(SessionProperties, AioRequests, AioLocks, AioSynchrony, Generic[V]):
    """A client at a daemon, made by `connect`. Iterate over it for all events; `V` is the type of values."""

    def __init__(self, core: ClientCore, codec: Codec[V] | None = None, tracing: bool = False) -> None:
        """Called by `connect`, not by applications."""
        self._core = core
        self._codec = codec
        self._tracing = tracing
        self._loop = asyncio.get_running_loop()
        self._socket: AioTransport | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._listeners = []

    def join(
        self,
        group: str,
        since: int | Place | None = None,
        spool: Path | str | None = None,
        *,
        synchrony: ViewSynchrony | SynchronyName | None = None,
        state: StateProvider | None = None,
        minimum: int | Quorum = 1,
        only: Sequence[str] | None = None,
    ) -> "Joining[V]":
        """Becomes a member: `await` it, or use it as `async with`, which leaves in the end.

        With `since`, an offset in the group's spool or the `Place` of a message, the events from there on come
        first, then the live ones, without a gap between them: from the spools in the directory `spool`, or
        without it from a spooler of the group. With `synchrony="view"` each message is delivered in the view in
        which it was sent: a `FlushRequest` precedes each next view, and `flush_ok` answers it.
        With `state` the members have a state in common: the provider gets that of the others, and the first
        event is `Ready`; take events from the group, not from the session. With `minimum`, a number, MAJORITY
        or ALL, the group is suspended below it: `Suspended`. With `only` messages of these domains come alone.
        """
        check_join(self._core, group, since, spool)
        options = check_synchrony(self._core, synchrony, since)
        check_minimum(self._core, group, minimum, synchrony)
        check_only(self._core, group, only, since, synchrony, state)
        if state is not None:
            check_state(self._core, state, since, synchrony)
        return Joining(self, group, since, spool, options, state)

    async def leave(self, group: str) -> None:
        """Leaves a group; the session is no member when this returns."""
        check_plain_group(group)
        if self._calls is not None:
            await self._calls.leave(group)
        if self._flush_groups is not None:
            await self._flush_groups.leave(group)
        await self._run(calls.leave(self._core, group, now_us()))
        for one in [one for one in self._listeners if one.name == group]:
            one.close()

    async def multicast(
        self,
        groups: str | Sequence[str],
        data: Data | V,
        *,
        service: Service = Service.AGREED,
        type: int = 0,  # The papers' word.
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        retain: bool = False,
        resilience: int | Quorum = 0,
    ) -> None:
        """Sends a message to a group, a private group, or several; waits only for room in the window."""
        body = data if self._codec is None else encoded(self._codec, data)
        if self._tracing:
            headers = self._headers(headers)
        plain = headers is None and resilience == 0 and ttl_seconds is None and retain is False
        if plain and self._core.try_send(groups, body, service, type, self_discard):
            if not self._flush_due:
                self._flush_due = True
                # In the next turn of the loop: messages of this turn share a bundle.
                self._loop.call_soon(self._flush)
            return
        sending = message_of(
            groups, body, service, type, self_discard, headers, resilience, ttl_seconds, retain
        )
        if not self._guards(sending.groups) and self._core.has_room(sending):
            self._core.send(sending)
            self._flush_soon()
        else:
            await self._run(self._multicasting(sending))

    async def multicast_many(
        self,
        groups: str | Sequence[str],
        bodies: Sequence[bytes] | Sequence[V],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        resilience: int | Quorum = 0,
    ) -> None:
        """Sends many messages that share all but their bodies, in their order, cheaper than one by one.

        Waits only for room in the window. If it is cancelled, or the connection is lost, some of the first
        ones may have been sent.
        """
        many = series_of(groups, bodies_of(self._codec, bodies), service, type, self_discard, resilience)
        guarded = self._guards(many.sending.groups)
        if many.left and not guarded and self._core.has_room_for_some(many):
            self._core.send_some(many)
            self._flush_soon()
        if many.left or guarded:
            await self._run(self._multicasting_many(many))

    async def multicast_wait(
        self,
        groups: str | Sequence[str],
        data: Data | V,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        retain: bool = False,
        resilience: int | Quorum = 0,
        timeout_seconds: float | None = None,
    ) -> Receipt:
        """Sends a message and waits until it is delivered at the session's daemon; returns its place.

        No membership is needed. For a Safe message it means that all daemons of the view have it. NoReceipt
        and InDoubt say that the message was sent and may be delivered or not; after any other error it was not
        sent.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        body = data if self._codec is None else encoded(self._codec, data)
        headers = self._headers(headers)
        sending = message_of(
            groups, body, service, type, self_discard, headers, resilience, ttl_seconds, retain
        )
        return await self._run(self._multicasting_wait(sending, timeout_seconds))

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
        self._check_batch(which.group)
        check_messages(messages)
        check_seconds("timeout_seconds", timeout_seconds)
        return await self._run(multicast_batch(self._core, which, messages, now_us(), timeout_seconds))

    async def receive(self) -> Event[V]:
        """The next event of any group; SessionClosed if none can arrive."""
        return await self._receive(None)

    async def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence[V]:
        """Up to `max_messages` messages and the other events among them, in their order.

        With `max_wait_seconds` it waits up to that time and returns the events so far, perhaps none; without,
        it waits for a first event and returns all that are there. SessionClosed if none can arrive.
        """
        return await self._receive_many(None, max_messages, max_wait_seconds)

    def __aiter__(self) -> AsyncIterator[Event[V]]:
        """All events until the session is closed; an error if it ends in another way."""
        return self._events(None)

    async def messages(self) -> AsyncIterator[Message[V]]:
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
        calls.end_replays(self._core)
        if self._dialing is not None:
            self._dialing.cancel()
        self._check_connection()  # Calls and handlers end, too.

    async def _query(self, query: Query[T]) -> T:
        return await self._run(calls.query(self._core, query, now_us()))

    async def _receive(self, group: str | None) -> Event[V]:
        event = await self._take(group)
        return cast("Event[V]", event) if self._codec is None else decoded(self._codec, event)

    async def _take(self, group: str | None) -> Event:
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

    async def _receive_many(self, group: str | None, messages: int, seconds: float | None) -> EventSequence[V]:
        events = await self._take_many(group, messages, seconds)
        return cast("EventSequence[V]", events) if self._codec is None else events.decoded_by(self._codec)

    async def _take_many(self, group: str | None, messages: int, seconds: float | None) -> EventSequence:
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

    def _events(self, group: str | None) -> AsyncIterator[Event[V]]:
        events = self._iterate(group)
        if self._codec is None:
            return cast("AsyncIterator[Event[V]]", events)
        return decoded_later(self._codec, events)

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

    async def _join(
        self,
        group: str,
        since: int | Place | None,
        spool: Path | str | None,
        synchrony: ViewSynchrony | None,
        state: StateProvider | None,
    ) -> "Group[V]":
        if synchrony is not None:
            await self._use_flush().join(group, synchrony)
            return Group(self, group)
        if state is None:
            fetcher = None
            if since is not None and spool is None:
                fetcher = AioFetcher(self, await Connecting(fetching_core(self._core)))
            await self._run(calls.join_from(self._core, group, since, spool, now_us(), None, fetcher))
            return Group(self, group)
        return cast("Group[V]", await import_module("hopring.blocks.aio_state").join_state(self, group, state))

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
        self._check_locks()
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
        if self._flush_groups is not None:
            self._flush_groups.received()
        for one in self._listeners:
            one.received()
        self._flush_soon()
        self._wake()


class Connecting(Generic[V]):
    """A connection that can be awaited, or used as `async with`."""

    def __init__(self, core: ClientCore, codec: Codec[V] | None = None, tracing: bool = False) -> None:
        self._core = core
        self._values = codec, tracing
        self._session: Session[V] | None = None

    def __await__(self) -> Generator[object, None, Session[V]]:
        """Waits until the session is there."""
        return self._open().__await__()

    async def _open(self) -> Session[V]:
        self._session = Session(self._core, *self._values)
        await self._session._open()
        return self._session

    async def __aenter__(self) -> Session[V]:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None, "it was entered"
        if kind is None:
            await self._session.close()
        else:
            self._session._abort(error)


@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: None = ..., **options: Unpack[ConnectOptions]
) -> Connecting[bytes]: ...
@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: CodecName, **options: Unpack[ConnectOptions]
) -> Connecting[Any]: ...
@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: Codec[T], **options: Unpack[ConnectOptions]
) -> Connecting[T]: ...
def connect(
    url: str | Sequence[str] = URL_DEFAULT,
    *,
    name: str | None = None,
    membership: bool = True,
    window_bytes: int = WINDOW_BYTES_DEFAULT,
    slow: SlowPolicy = "kick",
    priority: bool = False,
    require: Requirement | None = None,
    when_suspended: WhenSuspended = "wait",
    user: str | None = None,
    key: PathName | None = None,
    token: PathName | None = None,
    ca: PathName | None = None,
    certificate: PathName | None = None,
    codec: Codec[Any] | CodecName | None = None,
    trace_context: bool = False,
    timeout_seconds: float = CONNECT_SECONDS,
    reconnect: bool | Reconnect = True,
) -> Connecting[Any]:
    """Connects to a daemon: `await connect(...)` or `async with connect(...) as session`.

    `url` may name several daemons, in a list or separated by commas; the first that answers within
    `timeout_seconds` is used. `name` is the session's name at its daemon; without one, a unique name is made.
    `membership=False` omits views and transitions. `window_bytes` limits the events that wait in this process;
    further ones wait at the daemon. `slow` is the daemon's policy when that backlog is too long: "kick" ends
    the session (SlowConsumer), "drop" drops messages (Gap), "spill" writes them to disk, "block" lets senders
    wait. With `priority` the session's messages and events go first. With `require="primary"` only a daemon
    whose view is primary is accepted; NotPrimary says that there is none. It is not asked while connected.
    Messages to suspended groups wait at the daemon, or with `when_suspended="fail"` raise GroupSuspended.

    A `hops://` address is that of a daemon's port for TLS. The file `ca` has the certificate of the cluster's
    authority (`keys/ca.crt` of `hop keys`): only a daemon of that cluster is spoken to.

    A daemon with grants asks who the client is: `user` with the file `key` of that user's private key, the
    file `token` with a token, or, by TLS, the file `certificate` of `hop keys user NAME --certificate`. Tokens
    and certificates are read again for each connection. NotAllowed says that it was refused.

    When the connection is lost the session reconnects, joins its groups again, and puts a `Reconnected` among
    its events; meanwhile calls wait. `reconnect=False` ends it with SessionClosed instead, and a `Reconnect`
    sets how long it tries. The first connection is tried once at each daemon.

    With a `codec` messages are values: "json", "msgspec", or an object with `encode` and `decode`.
    `trace_context=True` gives messages and requests the context of the active span of OpenTelemetry.
    """
    credentials = SessionCredentials(user, key, token, ca, certificate)
    coded = codec_of(codec)
    check_tracing(trace_context)
    return Connecting(
        core_of(
            url,
            name,
            membership,
            window_bytes,
            slow,
            priority,
            require,
            timeout_seconds,
            reconnect,
            credentials,
            when_suspended,
        ),
        coded,
        trace_context,
    )
