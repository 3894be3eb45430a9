"""The calls of sessions and groups for request and reply, and the checks of their arguments.

The package `blocks` has the code, and is imported when it is first used.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from hopring.client.arguments import (
    check_number,
    check_plain_group,
    check_seconds,
    check_service,
    checked_data,
    checked_envelope,
    got,
)
from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import Quorum, Replies, Reply, Request
from hopring.client.outgoing import Data
from hopring.client.session_base import OutgoingValues
from hopring.groups.names import HANDLERS_MAX
from hopring.services import Service

ReplyTo = Literal["caller", "group"]
"""Who gets the reply to a request."""

Handler = Callable[[Request], Data | Awaitable[Data | None] | None]
BlockingHandler = Callable[[Request], Data | None]
"""Functions that do a request and return the data of the reply; None is a reply without data."""

PARALLEL_DEFAULT: Final = 64
"""Requests that a handler with coroutines works on at a time."""


class RequestArguments(NamedTuple):
    """The checked arguments of a request."""

    group: str
    data: bytes
    service: Service
    headers: Mapping[str, str]
    wait: int | Quorum
    to_group: bool
    timeout_seconds: float | None
    handler: int  # The number of the handler lock whose holder answers; 0: all servers do.


def request_of(
    group: str,
    data: Data,
    wait: int | Quorum,
    reply_to: ReplyTo,
    service: Service,
    headers: Mapping[str, str] | None,
    timeout_seconds: float | None,
    handler: int | None = None,
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
    number = checked_handler(handler)
    if number and wait != 1:
        raise WrongValue("wait", f"{wait} replies of one handler", "leave it out: one server answers")
    body = checked_data(data)
    to_group = reply_to == "group"
    return RequestArguments(group, body, service, headers or {}, wait, to_group, timeout_seconds, number)


def check_function(function: object) -> None:
    """Checks the function that does requests."""
    if not callable(function):
        raise WrongType("function", got(function), "give one that takes a Request and returns bytes")


def checked_handler(handler: object) -> int:
    """The number of a handler lock, or 0 for none."""
    if handler is None:
        return 0
    check_number("handler", handler, 1, HANDLERS_MAX)
    assert isinstance(handler, int), "it was checked"
    return handler


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


class AioRequests(OutgoingValues):
    """The calls of an asyncio session for request and reply; blocks/ has the code."""

    _calls: Any = None  # Made by the first of these calls.
    _listeners: list[Any]  # Groups with a state; `received` is called when bytes have arrived.

    async def request(
        self,
        group: str,
        data: Data,
        *,
        wait: int | Quorum = 1,
        handler: int | None = None,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of a group, and returns as many replies as `wait` says.

        The session need not be a member. NoResponders: nobody serves the group. MissingReplies: too few servers
        are left; RepliesTimedOut is one of these. RequestFailed: a server could not do it, and too few others
        are left. With `handler`, a number from 1 to 6, one server answers: the holder of this handler lock.
        """
        asked = request_of(
            group, data, wait, reply_to, service, self._headers(headers), timeout_seconds, handler
        )
        replies: Replies = await self._use_calls().request(asked)
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
        asked = request_of(group, data, Quorum.ALL, reply_to, service, self._headers(headers), timeout_seconds)
        replies: AsyncIterator[Reply] = self._use_calls().replies(asked)
        return replies

    def serve(
        self, group: str, function: Handler, *, handler: int | None = None, parallel: int = PARALLEL_DEFAULT
    ) -> Serving:
        """Registers the function that does requests to a group; it returns the data of the reply.

        A plain function is called for one request after the other. Coroutines run side by side, up to
        `parallel`. An error that it raises goes to the caller as RequestFailed. With `handler`, a number from
        1 to 6, it gets requests for this handler only, and only while this session holds the handler's lock.
        """
        check_plain_group(group)
        check_function(function)
        check_number("parallel", parallel, 1)
        number = checked_handler(handler)
        serving: Serving = self._use_calls().serve(group, function, parallel, number)
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
        handler: int | None = None,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of the group; see `Session.request`."""
        headers = self.session._headers(headers)
        asked = request_of(self.name, data, wait, reply_to, service, headers, timeout_seconds, handler)
        replies: Replies = await self.session._use_calls().request(asked)
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
        asked = request_of(
            self.name, data, Quorum.ALL, reply_to, service, self.session._headers(headers), timeout_seconds
        )
        replies: AsyncIterator[Reply] = self.session._use_calls().replies(asked)
        return replies

    def serve(
        self, function: Handler, *, handler: int | None = None, parallel: int = PARALLEL_DEFAULT
    ) -> Serving:
        """Registers the function that does requests to the group; see `Session.serve`. It ends with a leave."""
        return self.session.serve(self.name, function, handler=handler, parallel=parallel)


class BlockingRequests(OutgoingValues):
    """The calls of a blocking session for request and reply; blocks/ has the code."""

    _calls: Any = None

    def request(
        self,
        group: str,
        data: Data,
        *,
        wait: int | Quorum = 1,
        handler: int | None = None,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of a group, and returns as many replies as `wait` says.

        The session need not be a member. NoResponders: nobody serves the group. MissingReplies: too few servers
        are left; RepliesTimedOut is one of these. RequestFailed: a server could not do it, and too few others
        are left. With `handler`, a number from 1 to 6, one server answers: the holder of this handler lock.
        """
        asked = request_of(
            group, data, wait, reply_to, service, self._headers(headers), timeout_seconds, handler
        )
        replies: Replies = self._use_calls().request(asked)
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
        asked = request_of(group, data, Quorum.ALL, reply_to, service, self._headers(headers), timeout_seconds)
        replies: Iterator[Reply] = self._use_calls().replies(asked)
        return replies

    def serve(self, group: str, function: BlockingHandler, *, handler: int | None = None) -> BlockingHandler:
        """Registers the function that does requests to a group; `handle_requests` calls it. Returns it.

        With `handler`, a number from 1 to 6, it gets requests for this handler only, and only while this
        session holds the handler's lock.
        """
        check_plain_group(group)
        check_function(function)
        self._use_calls().serve(group, function, checked_handler(handler))
        return function

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
        handler: int | None = None,
        reply_to: ReplyTo = "caller",
        service: Service = Service.AGREED,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Replies:
        """Sends a request to the servers of the group; see `Session.request`."""
        headers = self.session._headers(headers)
        asked = request_of(self.name, data, wait, reply_to, service, headers, timeout_seconds, handler)
        replies: Replies = self.session._use_calls().request(asked)
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
        asked = request_of(
            self.name, data, Quorum.ALL, reply_to, service, self.session._headers(headers), timeout_seconds
        )
        replies: Iterator[Reply] = self.session._use_calls().replies(asked)
        return replies

    def serve(self, function: BlockingHandler, *, handler: int | None = None) -> BlockingHandler:
        """Registers the function that does requests to the group; see `Session.serve`. It ends with a leave."""
        return self.session.serve(self.name, function, handler=handler)
