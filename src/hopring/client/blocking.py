"""The client library for programs without an event loop: the same names, and every call waits.

A session belongs to one thread at a time. It reads from its daemon, and reconnects, only while a call waits, so
a program that makes no call for long is a slow receiver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from hopring.client import calls, queries
from hopring.client.arguments import (
    URL_DEFAULT,
    Reconnect,
    check_join,
    check_messages,
    check_number,
    check_plain_group,
    check_seconds,
)
from hopring.client.blocking_transport import BlockingTransport
from hopring.client.calls import MANY_MESSAGES, BatchItem, Call, batch_of, multicast_batch
from hopring.client.core import CONNECT_SECONDS, WINDOW_BYTES_DEFAULT, ClientCore
from hopring.client.events import Event, Message, Receipt
from hopring.client.outgoing import Data
from hopring.client.queries import DaemonFacts, DaemonView, GroupInfo, GroupMembers, LinkWeights, Query
from hopring.client.sequence import EventSequence
from hopring.client.session_base import (
    BlockingGroupRequests,
    BlockingRequests,
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

T = TypeVar("T")


class Session(SessionProperties, BlockingRequests):
    """A client at a daemon: made by `connect`. Iterate over it for all events, in their order."""

    def __init__(self, core: ClientCore) -> None:
        """Called by `connect`, not by applications."""
        self._core = core
        self._line = BlockingTransport(core)

    def join(
        self,
        group: str,
        since: int | None = None,
        spool: Path | str | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> "Group":
        """Becomes a member.

        With `since`, an offset in the group's spool in the directory `spool`, the events from there on come
        first, then the live ones, without a gap between them.
        """
        check_join(self._core, group, since, spool)
        check_seconds("timeout_seconds", timeout_seconds)
        self._run(calls.join_from(self._core, group, since, spool, now_us(), timeout_seconds))
        return Group(self, group)

    def leave(self, group: str, *, timeout_seconds: float | None = None) -> None:
        """Leaves a group; the session is no member when this returns."""
        check_plain_group(group)
        check_seconds("timeout_seconds", timeout_seconds)
        if self._calls is not None:
            self._calls.leave(group)
        self._run(calls.leave(self._core, group, now_us(), timeout_seconds))

    def multicast(
        self,
        groups: str | Sequence[str],
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,  # The papers' word.
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends a message to a group, a private group, or several; waits only for room in the window."""
        check_seconds("timeout_seconds", timeout_seconds)
        sending = message_of(groups, data, service, type, self_discard, headers)
        self._run(calls.multicast(self._core, sending, now_us(), timeout_seconds))
        self._line.exchange(now_us())

    def multicast_many(
        self,
        groups: str | Sequence[str],
        bodies: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends many messages that share all but their bodies, in their order, cheaper than one by one.

        Waits only for room in the window. After an error some of the first ones may have been sent.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        many = series_of(groups, bodies, service, type, self_discard)
        self._run(calls.multicast_many(self._core, many, now_us(), timeout_seconds))
        self._line.exchange(now_us())

    def multicast_wait(
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
        return self._run(calls.multicast_wait(self._core, sending, now_us(), timeout_seconds))

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
        check_messages(messages)
        check_seconds("timeout_seconds", timeout_seconds)
        return self._run(multicast_batch(self._core, which, messages, now_us(), timeout_seconds))

    def receive(self, *, timeout_seconds: float | None = None) -> Event:
        """The next event of any group; SessionClosed if none can arrive, TimedOut if none arrives in time."""
        return self._receive(None, timeout_seconds)

    def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence:
        """Up to `max_messages` messages and the other events among them, in their order.

        With `max_wait_seconds` it waits up to that time and returns the events so far, perhaps none; without,
        it waits for a first event and returns all that are there. SessionClosed if none can arrive.
        """
        return self._receive_many(None, max_messages, max_wait_seconds)

    def __iter__(self) -> Iterator[Event]:
        """All events until the session is closed; an error if it ends in another way."""
        return self._iterate(None)

    def messages(self) -> Iterator[Message]:
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

    def __enter__(self) -> "Session":
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
        self._line.close()

    def _query(self, query: Query[T], seconds: float | None) -> T:
        check_seconds("timeout_seconds", seconds)
        return self._run(calls.query(self._core, query, now_us(), seconds))

    def _receive(self, group: str | None, seconds: float | None) -> Event:
        check_seconds("timeout_seconds", seconds)
        return self._core.take(group) or self._run(calls.receive(self._core, group, now_us(), seconds))

    def _receive_many(self, group: str | None, messages: int, seconds: float | None) -> EventSequence:
        check_number("max_messages", messages, 1)
        check_seconds("max_wait_seconds", seconds)
        self._line.exchange(now_us())  # Reads the bytes that have arrived meanwhile.
        return self._run(calls.receive_many(self._core, group, messages, now_us(), seconds))

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
                    self._line.exchange(wait.until_us)
                wait = call.send(now_us())
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            call.close()


class Group(BlockingGroupRequests):
    """A group that the session is in. Iterate over it for its events alone."""

    session: Session

    def __init__(self, session: Session, name: str) -> None:
        """Called by `Session.join`, not by applications."""
        self.session = session
        self.name = name

    def multicast(
        self,
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
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
            timeout_seconds=timeout_seconds,
        )

    def multicast_many(
        self,
        bodies: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        timeout_seconds: float | None = None,
    ) -> None:
        """Sends many messages to the group; see `Session.multicast_many`."""
        self.session.multicast_many(
            self.name,
            bodies,
            service=service,
            type=type,
            self_discard=self_discard,
            timeout_seconds=timeout_seconds,
        )

    def multicast_wait(
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
        return self.session.multicast_wait(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
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

    def receive(self, *, timeout_seconds: float | None = None) -> Event:
        """The next event of this group."""
        return self.session._receive(self.name, timeout_seconds)

    def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence:
        """Many events of this group; see `Session.receive_many`."""
        return self.session._receive_many(self.name, max_messages, max_wait_seconds)

    def __iter__(self) -> Iterator[Event]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._iterate(self.name)

    def messages(self) -> Iterator[Message]:
        """The group's messages, without views and other events."""
        return (event for event in self if isinstance(event, Message))

    def __enter__(self) -> "Group":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self.session._core.is_over(self.name):
            self.leave()


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
) -> Session:
    """Connects to a daemon; `with connect(...) as session` closes it in the end. See `hopring.connect`."""
    credentials = SessionCredentials(user, key, token, ca, certificate)
    core = core_of(url, name, membership, window_bytes, slow, priority, timeout_seconds, reconnect, credentials)
    session = Session(core)
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
