"""The client library for programs without an event loop: the same names, and every call waits.

A session belongs to one thread at a time. It reads from its daemon, and reconnects, only while a call waits, so
a program that makes no call for long is a slow receiver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack, cast, overload

from hopring.client import calls, queries
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
from hopring.client.blocking_transport import BlockingTransport
from hopring.client.calls import MANY_MESSAGES, BatchItem, Call, batch_of, multicast_batch
from hopring.client.core import CONNECT_SECONDS, WINDOW_BYTES_DEFAULT, ClientCore
from hopring.client.events import Event, Message, Quorum, Receipt, V
from hopring.client.features.requests import BlockingGroupRequests, BlockingRequests
from hopring.client.features.synchrony import BlockingGroupSynchrony, BlockingSynchrony
from hopring.client.locks.handles import BlockingGroupLocks, BlockingLocks
from hopring.client.outgoing import Data
from hopring.client.queries import DaemonFacts, DaemonView, GroupInfo, GroupMembers, LinkWeights, Query
from hopring.client.receiving.fetching import BlockingFetcher, fetching_core
from hopring.client.receiving.sequence import EventSequence
from hopring.client.session_base import (
    SessionCredentials,
    SessionProperties,
    core_of,
    message_of,
    series_of,
)
from hopring.client.sockets import now_us
from hopring.client.values.codecs import Codec, CodecName, bodies_of, codec_of, decoded, decoded_each, encoded
from hopring.client.values.providers import StateProvider, check_state
from hopring.client.values.tracing import check_tracing
from hopring.ids import NEVER, Place
from hopring.services import Service
from hopring.session.options import SlowPolicy, WhenSuspended

T = TypeVar("T")


class Session(SessionProperties, BlockingRequests, BlockingLocks, BlockingSynchrony, Generic[V]):
    """A client at a daemon, made by `connect`. Iterate over it for all events; `V` is the type of values."""

    def __init__(self, core: ClientCore, codec: Codec[V] | None = None, tracing: bool = False) -> None:
        """Called by `connect`, not by applications."""
        self._core = core
        self._codec = codec
        self._tracing = tracing
        self._line = BlockingTransport(core)

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
        timeout_seconds: float | None = None,
    ) -> "Group[V]":
        """Becomes a member.

        With `since`, an offset in the group's spool or the `Place` of a message, the events from there on come
        first, then the live ones, without a gap between them: from the spools in the directory `spool`, or
        without it from a spooler of the group. With `synchrony="view"` each message is delivered in the view in
        which it was sent: a `FlushRequest` precedes each next view, and `flush_ok` answers it.
        With `state` the members have a state in common: the provider gets that of the others, and the first
        event is `Ready`. Take the events from the group; the transfer goes on while `receive` waits.
        With `minimum`, a number of members, MAJORITY or ALL, the group is suspended below it: `Suspended`.
        With `only` messages come whose header `domain` is one of these.
        """
        check_join(self._core, group, since, spool)
        options = check_synchrony(self._core, synchrony, since)
        check_minimum(self._core, group, minimum, synchrony)
        check_only(self._core, group, only, since, synchrony, state)
        check_seconds("timeout_seconds", timeout_seconds)
        if options is not None and state is None:
            self._use_flush().join(group, options, timeout_seconds)
            return Group(self, group)
        made = Group(self, group)
        if state is not None:
            check_state(self._core, state, since, synchrony)
            made = import_module("hopring.blocks.blocking_state").open_state_group(self, group, state)
        fetcher = None
        if since is not None and spool is None:
            fetcher = BlockingFetcher(_opened(Session(fetching_core(self._core))))
        self._run(calls.join_from(self._core, group, since, spool, now_us(), timeout_seconds, fetcher))
        return made

    def leave(self, group: str, *, timeout_seconds: float | None = None) -> None:
        """Leaves a group; the session is no member when this returns."""
        check_plain_group(group)
        check_seconds("timeout_seconds", timeout_seconds)
        if self._calls is not None:
            self._calls.leave(group)
        if self._flush_groups is not None:
            self._flush_groups.leave(group, timeout_seconds)
        self._run(calls.leave(self._core, group, now_us(), timeout_seconds))

    def multicast(
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
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends a message to a group, a private group, or several; waits only for room in the window."""
        check_seconds("timeout_seconds", timeout_seconds)
        body = data if self._codec is None else encoded(self._codec, data)
        headers = self._headers(headers)
        sending = message_of(
            groups, body, service, type, self_discard, headers, resilience, ttl_seconds, retain
        )
        self._run(self._multicasting(sending, timeout_seconds))
        self._line.exchange(now_us())

    def multicast_many(
        self,
        groups: str | Sequence[str],
        bodies: Sequence[bytes] | Sequence[V],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        resilience: int | Quorum = 0,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends many messages that share all but their bodies, in their order, cheaper than one by one.

        Waits only for room in the window. After an error some of the first ones may have been sent.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        many = series_of(groups, bodies_of(self._codec, bodies), service, type, self_discard, resilience)
        self._run(self._multicasting_many(many, timeout_seconds))
        self._line.exchange(now_us())

    def multicast_wait(
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
        return self._run(self._multicasting_wait(sending, timeout_seconds))

    def multicast_batch(
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
        return self._run(multicast_batch(self._core, which, messages, now_us(), timeout_seconds))

    def receive(self, *, timeout_seconds: float | None = None) -> Event[V]:
        """The next event of any group; SessionClosed if none can arrive, TimedOut if none arrives in time."""
        return self._receive(None, timeout_seconds)

    def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence[V]:
        """Up to `max_messages` messages and the other events among them, in their order.

        With `max_wait_seconds` it waits up to that time and returns the events so far, perhaps none; without,
        it waits for a first event and returns all that are there. SessionClosed if none can arrive.
        """
        return self._receive_many(None, max_messages, max_wait_seconds)

    def __iter__(self) -> Iterator[Event[V]]:
        """All events until the session is closed; an error if it ends in another way."""
        return self._events(None)

    def messages(self) -> Iterator[Message[V]]:
        """The messages of all groups, without views and other events."""
        return (event for event in self if isinstance(event, Message))

    def groups(self, *, timeout_seconds: float | None = None) -> tuple[GroupInfo, ...]:
        """All groups that have members, as this daemon knows them; no join is needed."""
        return self._query(queries.groups(), timeout_seconds)

    def members(self, group: str, *, timeout_seconds: float | None = None) -> GroupMembers:
        """The members of a group."""
        return self._query(queries.members(group), timeout_seconds)

    def view(self, after: DaemonView | None = None, *, timeout_seconds: float | None = None) -> DaemonView:
        """The daemons' present view; with `after`, waits for the one that follows."""
        return self._query(queries.view(after), timeout_seconds)

    def daemon_facts(self, *, timeout_seconds: float | None = None) -> DaemonFacts:
        """The daemon's description of itself and its links."""
        return self._query(queries.daemon(), timeout_seconds)

    def link_weights(self, *, timeout_seconds: float | None = None) -> LinkWeights:
        """The weights of each link between sites: configured, measured here, and agreed for routing."""
        return self._query(queries.weights(), timeout_seconds)

    def fileno(self) -> int:
        """For `select`: when it is readable, `poll` may find an event.

        Call it each time: another connection has another number, and without one it is -1.
        """
        return self._line.fileno()

    def poll(self) -> bool:
        """Whether an event has arrived, without waiting."""
        self._line.exchange(now_us())
        return self._core.stream.waits()

    def close(self) -> None:
        """Ends the session after all its requests are done."""
        try:
            self._run(calls.close(self._core, now_us()))
        finally:
            self.abort()

    def abort(self) -> None:
        """Ends the session at once; the daemon notices by itself."""
        self._abort(None)

    def __enter__(self) -> "Session[V]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._abort(error)

    # Within the library.

    def _abort(self, cause: BaseException | None) -> None:
        """Ends it at once; an error of the application becomes the cause of errors in waiting calls."""
        self._core.close(cause)
        calls.end_replays(self._core)
        self._line.close()

    def _query(self, query: Query[T], seconds: float | None) -> T:
        check_seconds("timeout_seconds", seconds)
        return self._run(calls.query(self._core, query, now_us(), seconds))

    def _receive(self, group: str | None, seconds: float | None) -> Event[V]:
        check_seconds("timeout_seconds", seconds)
        event = self._core.take(group) or self._run(calls.receive(self._core, group, now_us(), seconds))
        return cast("Event[V]", event) if self._codec is None else decoded(self._codec, event)

    def _receive_many(self, group: str | None, messages: int, seconds: float | None) -> EventSequence[V]:
        check_number("max_messages", messages, 1)
        check_seconds("max_wait_seconds", seconds)
        self._line.exchange(now_us())  # Reads the bytes that have arrived meanwhile.
        events = self._run(calls.receive_many(self._core, group, messages, now_us(), seconds))
        return cast("EventSequence[V]", events) if self._codec is None else events.decoded_by(self._codec)

    def _events(self, group: str | None) -> Iterator[Event[V]]:
        events = self._iterate(group)
        return cast("Iterator[Event[V]]", events) if self._codec is None else decoded_each(self._codec, events)

    def _iterate(self, group: str | None) -> Iterator[Event]:
        core = self._core
        while True:
            entry = core.entry(group)
            while entry is not None and entry.end - entry.at > 1:
                # All but the last message of a bundle need nothing else.
                yield entry.message()
            event = core.take(group) or self._run(calls.following(core, group, now_us()))
            if event is None:
                return
            yield event

    def _run(self, call: Call[T]) -> T:
        try:
            wait = next(call)
            while True:
                while not wait.condition() and (wait.until_us == NEVER or now_us() < wait.until_us):
                    until_us = wait.until_us
                    if self._flush_groups is not None:
                        until_us = min(until_us, self._flush_groups.wake_at_us())
                    self._line.exchange(until_us)
                wait = call.send(now_us())
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            call.close()


class Group(BlockingGroupRequests, BlockingGroupLocks, BlockingGroupSynchrony, Generic[V]):
    """A group that the session is in. Iterate over it for its events alone."""

    session: Session[V]

    def __init__(self, session: Session[V], name: str) -> None:
        """Called by `Session.join`, not by applications."""
        self.session = session
        self.name = name

    def multicast(
        self,
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
    ) -> None:
        """Sends a message to the group; waits only for room in the window."""
        self.session.multicast(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
            ttl_seconds=ttl_seconds,
            retain=retain,
            resilience=resilience,
            timeout_seconds=timeout_seconds,
        )

    def multicast_many(
        self,
        bodies: Sequence[bytes] | Sequence[V],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        resilience: int | Quorum = 0,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends many messages to the group; see `Session.multicast_many`."""
        self.session.multicast_many(
            self.name,
            bodies,
            service=service,
            type=type,
            self_discard=self_discard,
            resilience=resilience,
            timeout_seconds=timeout_seconds,
        )

    def multicast_wait(
        self,
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
        """Sends a message to the group and returns its place in the order; see `Session.multicast_wait`."""
        return self.session.multicast_wait(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
            ttl_seconds=ttl_seconds,
            retain=retain,
            resilience=resilience,
            timeout_seconds=timeout_seconds,
        )

    def multicast_batch(
        self,
        messages: Iterable[BatchItem],
        *,
        app: str,
        batch: int,
        service: Service = Service.SAFE,
        timeout_seconds: float | None = None,
    ) -> Receipt | None:
        """Sends a batch that counts once to the group; see `Session.multicast_batch`."""
        return self.session.multicast_batch(
            self.name, messages, app=app, batch=batch, service=service, timeout_seconds=timeout_seconds
        )

    def members(self, *, timeout_seconds: float | None = None) -> GroupMembers:
        """The members of the group as the daemon knows them now; a view has them at its place in the order."""
        return self.session.members(self.name, timeout_seconds=timeout_seconds)

    def leave(self, *, timeout_seconds: float | None = None) -> None:
        """Leaves the group; the session is no member when this returns."""
        self.session.leave(self.name, timeout_seconds=timeout_seconds)

    def receive(self, *, timeout_seconds: float | None = None) -> Event[V]:
        """The next event of this group."""
        return self.session._receive(self.name, timeout_seconds)

    def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence[V]:
        """Many events of this group; see `Session.receive_many`."""
        return self.session._receive_many(self.name, max_messages, max_wait_seconds)

    def __iter__(self) -> Iterator[Event[V]]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._events(self.name)

    def messages(self) -> Iterator[Message[V]]:
        """The group's messages, without views and other events."""
        return (event for event in self if isinstance(event, Message))

    def __enter__(self) -> "Group[V]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.session._core.is_over(self.name):
            self.leave()


def _opened(session: Session[V]) -> Session[V]:
    """Connects a session; raises the error if it cannot."""
    core = session._core
    core.begin(now_us())
    while core.welcome is None and core.ended is None:
        try:
            session._line.exchange(NEVER)
        except BaseException:
            session.abort()
            raise
    if core.welcome is None:
        session.abort()
        assert core.ended is not None, "it is there or it is not"
        raise core.ended
    return session


@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: None = ..., **options: Unpack[ConnectOptions]
) -> Session[bytes]: ...
@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: CodecName, **options: Unpack[ConnectOptions]
) -> Session[Any]: ...
@overload
def connect(
    url: str | Sequence[str] = ..., *, codec: Codec[T], **options: Unpack[ConnectOptions]
) -> Session[T]: ...
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
) -> Session[Any]:
    """Connects to a daemon; `with connect(...) as session` closes it in the end. See `hopring.connect`."""
    credentials = SessionCredentials(user, key, token, ca, certificate)
    limits = window_bytes, slow, priority, require, timeout_seconds, reconnect
    core = core_of(url, name, membership, *limits, credentials, when_suspended)
    coded = codec_of(codec)
    check_tracing(trace_context)
    return _opened(Session(core, coded, trace_context))
