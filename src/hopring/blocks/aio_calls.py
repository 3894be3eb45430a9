"""Request and reply in an event loop: futures for calls, tasks for handlers.

A handler that is a plain function is called in the event loop, one request after the other. A coroutine
function runs as a task for each request, up to `parallel` at a time; tasks begin in the order of the requests.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from hopring.blocks.call_header import ReplyResult
from hopring.blocks.exchange import (
    ActiveCall,
    CallExchange,
    ServedGroup,
    WaitingRequest,
    error_text,
    outcome_error,
)
from hopring.client import calls
from hopring.client.arguments import checked_data
from hopring.client.events import Replies, Reply
from hopring.client.features.requests import Handler, RequestArguments, Serving
from hopring.client.outgoing import Data
from hopring.client.sockets import now_us
from hopring.client.values.tracing import attached
from hopring.ids import NEVER, GroupName
from hopring.system.kernel import kernel

if TYPE_CHECKING:
    from hopring.client.aio import Session

log = logging.getLogger("hopring.requests")


@dataclass(slots=True)
class _Handler:
    """The handler of a group, and its tasks."""

    served: ServedGroup
    call: Handler
    parallel: int
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)


class AioCalls:
    """The calls and handlers of one session of the event loop."""

    def __init__(self, session: "Session[Any]") -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._exchange = CallExchange(session._core, kernel().random_bytes(8).hex())
        self._handlers: dict[GroupName, _Handler] = {}  # By the group of the servers.
        self._due = False  # `_advance` is scheduled.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_us = NEVER

    # Calls.

    async def request(self, asked: RequestArguments) -> Replies:
        """Makes a call and waits for its end."""
        call = self._start(asked, patient=False)
        future: asyncio.Future[None] = self._loop.create_future()

        def notify() -> None:
            if call.over and not future.done():
                future.set_result(None)

        call.notify = notify
        try:
            await future
        except BaseException:
            self._exchange.abandon(call, now_us())
            raise
        error = outcome_error(call)
        if error is not None:
            raise error
        return Replies([one for one in call.replies if not one.failed])

    def replies(self, asked: RequestArguments) -> AsyncIterator[Reply]:
        """Makes a call and yields each reply when it comes."""
        return self._each(self._start(asked, patient=True))

    async def _each(self, call: ActiveCall) -> AsyncIterator[Reply]:
        news = asyncio.Event()
        call.notify = news.set
        given = 0
        try:
            while given < len(call.replies) or not call.over:
                if given == len(call.replies):
                    news.clear()
                    await news.wait()
                    continue
                given += 1
                yield call.replies[given - 1]
        finally:
            self._exchange.abandon(call, now_us())
        error = outcome_error(call)
        if error is not None:
            raise error

    def _start(self, asked: RequestArguments, *, patient: bool) -> ActiveCall:
        alone = self._exchange.idle and not self._exchange.calls
        call = self._exchange.start(asked, patient=patient, now_us=now_us())
        if alone:
            self._advance()  # At once: there is nothing that it could share a packet with.
        else:
            self._soon()
        return call

    # Handlers.

    def serve(self, group: str, function: Handler, parallel: int, number: int) -> Serving:
        """Registers a handler; the session joins the group of servers in the background."""
        served = self._exchange.serve(group, number)
        handler = self._handlers[served.name] = _Handler(served, function, parallel)
        task = self._loop.create_task(self._join(handler))

        async def stop() -> None:
            await self._stop(handler)

        return Serving(function, task, stop)

    async def _join(self, handler: _Handler) -> None:
        try:
            await self._session._run(calls.join(self._session._core, handler.served.name, now_us()))
        except Exception as error:
            self._forget(handler)
            log.error("requests to %s are not served: %s", handler.served.group, error)
            raise
        if handler.served.lock is not None:
            handler.served.lock.joined()
            self._soon()

    async def leave(self, group: str) -> None:
        """Ends serving a group, if it is served; requests that wait are not done."""
        for handler in [one for one in self._handlers.values() if one.served.group == group]:
            await self._stop(handler)

    async def _stop(self, handler: _Handler) -> None:
        name = handler.served.name
        if self._handlers.get(name) is not handler:
            return
        self._forget(handler)
        if not self._session._core.is_over(name):
            await self._session._run(calls.leave(self._session._core, name, now_us()))

    def _forget(self, handler: _Handler) -> None:
        self._handlers.pop(handler.served.name, None)
        self._exchange.unserve(handler.served)
        for task in handler.tasks:
            task.cancel()

    def _run_handlers(self) -> None:
        self._exchange.has_requests = False
        for handler in list(self._handlers.values()):
            ready = handler.served.ready
            while ready and len(handler.tasks) < handler.parallel:
                self._run_one(handler, ready.popleft())

    def _run_one(self, handler: _Handler, waiting: WaitingRequest) -> None:
        if self._session._tracing:
            with attached(waiting.request):
                self._call(handler, waiting)
        else:
            self._call(handler, waiting)

    def _call(self, handler: _Handler, waiting: WaitingRequest) -> None:
        try:
            result = handler.call(waiting.request)
            if isawaitable(result):
                task = self._loop.create_task(self._finish_later(handler, waiting, result))
                handler.tasks.add(task)
                task.add_done_callback(handler.tasks.discard)
                return
            data = b"" if result is None else checked_data(result)
        except Exception as error:
            self._failed(handler, waiting, error)
        else:
            self._exchange.finish(handler.served, waiting, ReplyResult.DONE, data)

    async def _finish_later(
        self, handler: _Handler, waiting: WaitingRequest, result: Awaitable[Data | None]
    ) -> None:
        try:
            data = await result
            body = b"" if data is None else checked_data(data)
        except Exception as error:
            self._failed(handler, waiting, error)
        else:
            self._exchange.finish(handler.served, waiting, ReplyResult.DONE, body)
        if handler.served.ready:
            # A place among the tasks is free as soon as this one is done.
            self._exchange.has_requests = True
        self._soon()

    def _failed(self, handler: _Handler, waiting: WaitingRequest, error: Exception) -> None:
        log.warning("the handler of %s failed", handler.served.group, exc_info=error)
        self._exchange.finish(handler.served, waiting, ReplyResult.FAILED, error_text(error))

    # The session.

    def received(self) -> None:
        """After bytes have arrived, or the connection has changed."""
        if self._session._core.ended is not None:
            self.ended()
            return
        self._exchange.advance(now_us())
        if self._exchange.has_requests:
            self._soon()  # Handlers run outside of the code that reads.
        self._set_timer()

    def flush(self) -> None:
        """Sends what waits, before the session is closed."""
        self._advance()

    def _soon(self) -> None:
        """Sends requests and replies of this turn of the event loop together."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._advance)

    def _advance(self) -> None:
        self._due = False
        if self._exchange.has_requests:
            self._run_handlers()
        self._exchange.advance(now_us())
        if self._session._core.connection.has_output:
            self._session._flush()
        self._set_timer()

    def _set_timer(self) -> None:
        at_us = self._exchange.wake_at_us
        if at_us == self._timer_at_us or (self._timer is not None and self._timer_at_us < at_us):
            return  # A timer that is early looks again: calls that end soon start and cancel none.
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at_us = at_us
        if at_us != NEVER:
            delay_us = max(0, at_us - now_us())
            self._timer = self._loop.call_later(delay_us / 1_000_000, self._time_passed)

    def _time_passed(self) -> None:
        self._timer, self._timer_at_us = None, NEVER
        self._advance()

    def ended(self) -> None:
        """The session has ended: no handler goes on."""
        self._exchange.advance(now_us())
        for handler in list(self._handlers.values()):
            self._forget(handler)
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at_us = None, NEVER
