"""Common parts of the asyncio and the blocking session: properties, and values made of checked arguments."""

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from hopring.client.arguments import (
    Reconnect,
    check_flag,
    check_number,
    check_plain_group,
    check_seconds,
    check_service,
    check_session_name,
    check_type,
    checked_bodies,
    checked_data,
    checked_envelope,
    got,
    groups_named,
    parse_url,
    parse_urls,
    random_name,
)
from hopring.client.connection import ChannelMaker, ClientIdentity
from hopring.client.core import ClientCore
from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import Quorum, Replies, Reply, Request
from hopring.client.outgoing import Data, OutgoingMessage, OutgoingSeries
from hopring.client.sockets import now_us
from hopring.errors import HopError
from hopring.services import Service
from hopring.session.options import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, Slow, SlowPolicy

PathName = str | PathLike[str]
"""The path of a file, as applications give it."""

ReplyTo = Literal["caller", "group"]
"""Who gets the reply to a request."""

Handler = Callable[[Request], Data | Awaitable[Data | None] | None]
BlockingHandler = Callable[[Request], Data | None]
"""Functions that do a request and return the data of the reply; None is a reply without data."""

PARALLEL_DEFAULT: Final = 64
"""Requests that a handler with coroutines works on at a time."""

USER_CHARACTERS_MAX: Final = 256


class SessionProperties:
    """The properties that both forms of a session have."""

    _core: ClientCore

    @property
    def name(self) -> str:
        """The session's name at its daemon."""
        return self._core.name

    @property
    def daemon(self) -> str:
        """The daemon's name; without a connection, that of the last one."""
        return self._core.welcomed.daemon

    @property
    def private_group(self) -> str:
        """The group of this session alone; messages to it need no join."""
        return self._core.welcomed.private_group

    @property
    def message_bytes_max(self) -> int:
        """The largest message that the daemon accepts."""
        return self._core.welcomed.message_bytes_max

    @property
    def joined(self) -> tuple[str, ...]:
        """The groups of the session; without a connection, those that it will join again."""
        return tuple(sorted(self._core.groups - self._core.state.hidden))

    @property
    def dropped_again(self) -> int:
        """The number of dropped messages: those of repeated batches that the session had received already."""
        return self._core.state.dedup.dropped

    @property
    def connected(self) -> bool:
        """Whether there is a connection to a daemon now."""
        return self._core.connected

    @property
    def ended(self) -> HopError | None:
        """Why the session has ended; None while it goes on, with a connection or between two."""
        return self._core.ended

    # Within the library.

    def _skip_batches(self, group: str, marks: Mapping[str, int]) -> None:
        """Drops messages of batches that a spool of this group has already, by its marks."""
        self._core.state.dedup.remember(group, marks)


class RequestArguments(NamedTuple):
    """The checked arguments of a request."""

    group: str
    data: bytes
    service: Service
    headers: Mapping[str, str]
    wait: int | Quorum
    to_group: bool
    timeout_seconds: float | None


def request_of(
    group: str,
    data: Data,
    wait: int | Quorum,
    reply_to: ReplyTo,
    service: Service,
    headers: Mapping[str, str] | None,
    timeout_seconds: float | None,
) -> RequestArguments:
    """Checks the arguments of a request."""
    check_plain_group(group)
    if not isinstance(wait, Quorum):
        if not isinstance(wait, int) or isinstance(wait, bool):
            raise WrongType("wait", got(wait), "give an int, 1 or more, MAJORITY or ALL")
        if wait < 1:
            raise WrongValue("wait", f"{wait} is out of range", "give an int, 1 or more, MAJORITY or ALL")
    if reply_to not in ("caller", "group"):
        raise WrongValue("reply_to", f"got {reply_to!r}", 'give "caller" or "group"')
    check_service(service)
    if not service.total:
        reason = "a request needs a place in the order"
        raise WrongValue("service", reason, "use Service.CAUSAL, AGREED or SAFE")
    if headers is not None:
        checked_envelope(headers)
    check_seconds("timeout_seconds", timeout_seconds)
    body = checked_data(data)
    return RequestArguments(group, body, service, headers or {}, wait, reply_to == "group", timeout_seconds)


def check_handler(handler: object) -> None:
    """Checks the handler of requests."""
    if not callable(handler):
        raise WrongType("handler", got(handler), "give a function that takes a Request and returns bytes")


class Serving:
    """A handler that is registered: `await` it to be sure that it gets requests; `async with` ends it.

    It may be called like the handler, so `serve` can be used as a decorator.
    """

    def __init__(
        self,
        handler: Handler,
        joined: Awaitable[None],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self._handler = handler
        self._joined = joined
        self._stop = stop

    def __call__(self, request: Request) -> Data | Awaitable[Data | None] | None:
        return self._handler(request)

    def __await__(self) -> Generator[object, None, None]:
        """Waits until requests are served."""
        yield from self._joined.__await__()

    async def stop(self) -> None:
        """Ends it; requests that wait are not done."""
        await self._stop()

    async def __aenter__(self) -> "Serving":
        await self._joined
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()


class AioRequests:
    """The calls of an asyncio session for request and reply; blocks/ has the code."""

    _calls: Any = None  # Made by the first of these calls.

    async def request(
        self,
        group: str,
        data: Data,
        *,
        wait: int | Quorum = 1,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of a group, and returns as many replies as `wait` says.

        The session need not be a member. NoResponders: nobody serves the group. MissingReplies: too few servers
        are left; RepliesTimedOut is one of these. RequestFailed: a server could not do it, and too few others
        are left.
        """
        asked = request_of(group, data, wait, reply_to, service, headers, timeout_seconds)
        replies: Replies = await self._use_calls().request(*asked)
        return replies

    def replies_to(
        self,
        group: str,
        data: Data,
        *,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[Reply]:
        """Sends a request and yields the reply of each server as it arrives, failures included.

        At the end it raises NoResponders, or MissingReplies if servers have left or died.
        """
        asked = request_of(group, data, Quorum.ALL, reply_to, service, headers, timeout_seconds)
        replies: AsyncIterator[Reply] = self._use_calls().replies(*asked)
        return replies

    def serve(self, group: str, handler: Handler, *, parallel: int = PARALLEL_DEFAULT) -> Serving:
        """Registers the handler of requests to a group; it returns the data of the reply.

        A plain function is called for one request after the other. Coroutines run side by side, up to
        `parallel`. An error that it raises goes to the caller as RequestFailed.
        """
        check_plain_group(group)
        check_handler(handler)
        check_number("parallel", parallel, 1)
        serving: Serving = self._use_calls().serve(group, handler, parallel)
        return serving

    def _use_calls(self) -> Any:
        if self._calls is None:
            # Most sessions do not need it, and packages import downwards only.
            self._calls = import_module("hopring.blocks.aio_calls").AioCalls(self)
        return self._calls


class AioGroupRequests:
    """The same calls for a group."""

    session: AioRequests
    name: str

    async def request(
        self,
        data: Data,
        *,
        wait: int | Quorum = 1,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of the group; see `Session.request`."""
        asked = request_of(self.name, data, wait, reply_to, service, headers, timeout_seconds)
        replies: Replies = await self.session._use_calls().request(*asked)
        return replies

    def replies_to(
        self,
        data: Data,
        *,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[Reply]:
        """Sends a request and yields each reply; see `Session.replies_to`."""
        asked = request_of(self.name, data, Quorum.ALL, reply_to, service, headers, timeout_seconds)
        replies: AsyncIterator[Reply] = self.session._use_calls().replies(*asked)
        return replies

    def serve(self, handler: Handler, *, parallel: int = PARALLEL_DEFAULT) -> Serving:
        """Registers the handler of requests to the group; see `Session.serve`. It ends with a leave."""
        return self.session.serve(self.name, handler, parallel=parallel)


class BlockingRequests:
    """The calls of a blocking session for request and reply; blocks/ has the code."""

    _calls: Any = None

    def request(
        self,
        group: str,
        data: Data,
        *,
        wait: int | Quorum = 1,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of a group, and returns as many replies as `wait` says.

        The session need not be a member. NoResponders: nobody serves the group. MissingReplies: too few servers
        are left; RepliesTimedOut is one of these. RequestFailed: a server could not do it, and too few others
        are left.
        """
        asked = request_of(group, data, wait, reply_to, service, headers, timeout_seconds)
        replies: Replies = self._use_calls().request(*asked)
        return replies

    def replies_to(
        self,
        group: str,
        data: Data,
        *,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Iterator[Reply]:
        """Sends a request and yields the reply of each server as it arrives, failures included.

        At the end it raises NoResponders, or MissingReplies if servers have left or died.
        """
        asked = request_of(group, data, Quorum.ALL, reply_to, service, headers, timeout_seconds)
        replies: Iterator[Reply] = self._use_calls().replies(*asked)
        return replies

    def serve(self, group: str, handler: BlockingHandler) -> BlockingHandler:
        """Registers the handler of requests to a group, which `handle_requests` calls; returns the handler."""
        check_plain_group(group)
        check_handler(handler)
        self._use_calls().serve(group, handler)
        return handler

    def handle_requests(self, *, max_requests: int | None = None, timeout_seconds: float | None = None) -> int:
        """Calls handlers as requests arrive, for this time or up to this many; returns how many there were."""
        if max_requests is not None:
            check_number("max_requests", max_requests, 1)
        check_seconds("timeout_seconds", timeout_seconds)
        handled: int = self._use_calls().handle(max_requests, timeout_seconds)
        return handled

    def _use_calls(self) -> Any:
        if self._calls is None:
            self._calls = import_module("hopring.blocks.blocking_calls").BlockingCalls(self)
        return self._calls


class BlockingGroupRequests:
    """The same calls for a group."""

    session: BlockingRequests
    name: str

    def request(
        self,
        data: Data,
        *,
        wait: int | Quorum = 1,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of the group; see `Session.request`."""
        asked = request_of(self.name, data, wait, reply_to, service, headers, timeout_seconds)
        replies: Replies = self.session._use_calls().request(*asked)
        return replies

    def replies_to(
        self,
        data: Data,
        *,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Iterator[Reply]:
        """Sends a request and yields each reply; see `Session.replies_to`."""
        asked = request_of(self.name, data, Quorum.ALL, reply_to, service, headers, timeout_seconds)
        replies: Iterator[Reply] = self.session._use_calls().replies(*asked)
        return replies

    def serve(self, handler: BlockingHandler) -> BlockingHandler:
        """Registers the handler of requests to the group; see `Session.serve`. It ends with a leave."""
        return self.session.serve(self.name, handler)


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """The arguments of `connect` that say who the client is, and whom it trusts."""

    user: str | None = None
    key: PathName | None = None
    token: PathName | None = None
    ca: PathName | None = None
    certificate: PathName | None = None


NO_CREDENTIALS: Final = SessionCredentials()


def core_of(
    url: str | Sequence[str],
    name: str | None,
    membership: bool,
    window_bytes: int,
    slow: SlowPolicy,
    priority: bool,
    timeout_seconds: float,
    reconnect: bool | Reconnect,
    credentials: SessionCredentials = NO_CREDENTIALS,
) -> ClientCore:
    """Checks the arguments of `connect`, and makes the core of the session."""
    urls = parse_urls(url)
    if name is not None:
        check_session_name(name)
    check_flag("membership", membership)
    check_number("window_bytes", window_bytes, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    policies = [one.value for one in Slow]
    if not isinstance(slow, str):
        raise WrongType("slow", got(slow), f"give one of {', '.join(policies)}")
    if slow not in policies:
        raise WrongValue("slow", f"got {slow!r}", f"give one of {', '.join(policies)}")
    check_flag("priority", priority)
    check_seconds("timeout_seconds", timeout_seconds, forever=False, above_zero=True)
    if reconnect is True:
        reconnect = Reconnect()
    elif reconnect is not False and not isinstance(reconnect, Reconnect):
        raise WrongType("reconnect", got(reconnect), "give True, False or a Reconnect")
    identity, tls = _identity_of(credentials), _tls_of(urls, credentials)
    user = credentials.user if tls is None or tls.user is None else tls.user
    core = ClientCore(
        urls,
        random_name(user) if name is None else name,
        window_bytes,
        membership,
        slow=slow,
        priority=priority,
        identity=identity,
        tls=tls,
        reconnect=reconnect or None,
        answer_seconds=timeout_seconds,
        epoch_us=time.time_ns() // 1000 - now_us(),
        chance=random.random,
    )
    core.named = name is not None
    return core


def _identity_of(credentials: SessionCredentials) -> ClientIdentity | None:
    """Checks `user`, `key` and `token`, and loads the files; None without any of them."""
    user, key, token = credentials.user, credentials.key, credentials.token
    for argument in ("key", "token", "ca", "certificate"):
        value = getattr(credentials, argument)
        if value is not None and not isinstance(value, str | PathLike):
            raise WrongType(argument, got(value), "give the path of a file")
    if credentials.certificate is not None and (user, key, token) != (None, None, None):
        raise WrongValue("certificate", "given beside user, key or token", "give one kind of credentials")
    if user is not None and not isinstance(user, str):
        raise WrongType("user", got(user), "give the name that [[users]] of the daemon has")
    if token is not None and (user is not None or key is not None):
        raise WrongValue("token", "given beside user or key", "give a token, or a user and a key")
    if (user is None) != (key is None):
        raise WrongValue(
            "user" if user is None else "key", "missing", "give both, a user and the file of a key"
        )
    if user is not None and not 0 < len(user) <= USER_CHARACTERS_MAX:
        raise WrongValue("user", "empty or too long", "give the name that [[users]] of the daemon has")
    if user is None and token is None:
        return None
    # It takes long to import, and most sessions do not need it.
    files = import_module("hopring.credentials.client_identity")
    identity: ClientIdentity = (
        files.TokenIdentity(Path(token)) if token else files.KeyIdentity(user, Path(key or ""))
    )
    return identity


def _tls_of(urls: Sequence[str], credentials: SessionCredentials) -> ChannelMaker | None:
    """Checks `ca` and `certificate`, and loads the files if an address is one for TLS."""
    ca, certificate = credentials.ca, credentials.certificate
    if not any(parse_url(url).tls for url in urls):
        if certificate is not None:
            raise WrongValue("certificate", "given without TLS", "write hops:// in the URL")
        return None  # Commands may have `ca` from their environment.
    if ca is None:
        remedy = (
            'give ca="keys/ca.crt", the certificate of the cluster\'s authority (of commands: --ca, HOP_CA)'
        )
        raise WrongValue("ca", "missing for hops://", remedy)
    files = import_module("hopring.credentials.client_tls")
    tls: ChannelMaker = files.ClientTls(Path(ca), None if certificate is None else Path(certificate))
    return tls


def message_of(
    groups: str | Sequence[str],
    data: Data,
    service: Service,
    message_type: int,
    self_discard: bool,
    headers: Mapping[str, str] | None = None,
) -> OutgoingMessage:
    """Checks the arguments of a message, and joins several buffers; headers precede them as an envelope."""
    names = groups_named(groups)
    check_service(service)
    check_type(message_type)
    check_flag("self_discard", self_discard)
    envelope = b"" if headers is None else checked_envelope(headers)
    body = checked_data(data)
    return OutgoingMessage(
        names, envelope + body if envelope else body, service, message_type, self_discard, bool(envelope)
    )


def series_of(
    groups: str | Sequence[str],
    bodies: Sequence[bytes],
    service: Service,
    message_type: int,
    self_discard: bool,
) -> OutgoingSeries:
    """Checks the arguments of `multicast_many`."""
    names = groups_named(groups)
    check_service(service)
    check_type(message_type)
    check_flag("self_discard", self_discard)
    return OutgoingSeries(
        OutgoingMessage(names, b"", service, message_type, self_discard), checked_bodies(bodies)
    )
