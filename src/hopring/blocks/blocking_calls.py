"""Request and reply without an event loop: a call waits, and handlers run inside `handle_requests`."""

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
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
from hopring.client.features.requests import BlockingHandler, RequestArguments
from hopring.client.sockets import now_us
from hopring.client.values.tracing import attached
from hopring.ids import NEVER, GroupName
from hopring.system.kernel import kernel

if TYPE_CHECKING:
    from hopring.client.blocking import Session

log = logging.getLogger("hopring.requests")


class BlockingCalls:
    """The calls and handlers of one blocking session."""

    def __init__(self, session: "Session[Any]") -> None:
        self._session = session
        self._exchange = CallExchange(session._core, kernel().random_bytes(8).hex())
        self._handlers: dict[
            GroupName, tuple[ServedGroup, BlockingHandler]
        ] = {}  # By the group of the servers.

    def request(self, asked: RequestArguments) -> Replies:
        """Makes a call and waits for its end."""
        call = self._exchange.start(asked, patient=False, now_us=now_us())
        try:
            self._until(lambda: call.over)
        finally:
            self._exchange.abandon(call, now_us())
        error = outcome_error(call)
        if error is not None:
            raise error
        return Replies([one for one in call.replies if not one.failed])

    def replies(self, asked: RequestArguments) -> Iterator[Reply]:
        """Makes a call and yields each reply when it comes."""
        return self._each(self._exchange.start(asked, patient=True, now_us=now_us()))

    def _each(self, call: ActiveCall) -> Iterator[Reply]:
        given = 0
        try:
            while given < len(call.replies) or not call.over:
                if given == len(call.replies):
                    self._until(lambda had=given: had < len(call.replies) or call.over)  # type: ignore[misc]
                    continue
                given += 1
                yield call.replies[given - 1]
        finally:
            self._exchange.abandon(call, now_us())
        error = outcome_error(call)
        if error is not None:
            raise error

    def serve(self, group: str, function: BlockingHandler, number: int) -> None:
        """Registers a handler, and joins the group of servers."""
        served = self._exchange.serve(group, number)
        self._handlers[served.name] = (served, function)
        try:
            self._session._run(calls.join(self._session._core, served.name, now_us()))
        except BaseException:
            self._forget(served)
            raise
        if served.lock is not None:
            served.lock.joined()

    def leave(self, group: str) -> None:
        """Ends serving a group, if it is served; requests that wait are not done."""
        for served in [one for one, _ in self._handlers.values() if one.group == group]:
            self._forget(served)
            if not self._session._core.is_over(served.name):
                self._session._run(calls.leave(self._session._core, served.name, now_us()))

    def _forget(self, served: ServedGroup) -> None:
        del self._handlers[served.name]
        self._exchange.unserve(served)

    def handle(self, most: int | None, seconds: float | None) -> int:
        """Runs handlers for this time, or this often; returns the number of requests that were handled."""
        end_us = NEVER if seconds is None else now_us() + int(seconds * 1_000_000)
        handled = 0
        while True:
            self._exchange.advance(now_us())
            count = self._handle_ready(None if most is None else most - handled)
            handled += count
            core = self._session._core
            if core.ended is not None:
                raise core.ended
            if count:
                continue  # The next turn sends the replies.
            if now_us() >= end_us or handled == most:
                self._session._line.exchange(now_us())
                return handled
            self._session._line.exchange(min(end_us, self._exchange.wake_at_us))

    def _handle_ready(self, most: int | None) -> int:
        count = 0
        for served, handler in list(self._handlers.values()):
            while served.ready and count != most:
                self._handle_one(served, handler, served.ready.popleft())
                count += 1
        return count

    def _handle_one(self, served: ServedGroup, handler: BlockingHandler, waiting: WaitingRequest) -> None:
        tracing = self._session._tracing
        try:
            with attached(waiting.request) if tracing else nullcontext():
                result = handler(waiting.request)
            data = b"" if result is None else checked_data(result)
        except Exception as error:
            log.warning("the handler of %s failed", served.group, exc_info=error)
            self._exchange.finish(served, waiting, ReplyResult.FAILED, error_text(error))
        else:
            self._exchange.finish(served, waiting, ReplyResult.DONE, data)

    def _until(self, condition: Callable[[], bool]) -> None:
        while True:
            self._exchange.advance(now_us())
            if condition():
                return
            self._session._line.exchange(self._exchange.wake_at_us)
