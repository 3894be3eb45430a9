"""View synchrony in an event loop."""

import asyncio
from typing import TYPE_CHECKING

from hopring.blocks.flush_exchange import FlushExchange, flush_group
from hopring.client import calls
from hopring.client.arguments import ViewSynchrony
from hopring.client.events import FlushRequest
from hopring.client.sockets import now_us
from hopring.ids import NEVER

if TYPE_CHECKING:
    from hopring.client.aio import Session


class AioFlush:
    """The groups with view synchrony of one session of the event loop."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self.exchange = FlushExchange(session._core)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_us = NEVER

    async def join(self, group: str, options: ViewSynchrony) -> None:
        """Joins a group, and then its members with view synchrony."""
        session, core = self._session, self._session._core
        self.exchange.open(group, options)
        try:
            await session._run(calls.join(core, group, now_us()))
            try:
                await session._run(calls.join(core, flush_group(group), now_us()))
            except BaseException:
                if not core.is_over(group):
                    core.leave(group)
                raise
        except BaseException:
            self.exchange.close(group)
            raise

    async def leave(self, group: str) -> None:
        """Leaves the members with view synchrony, if the session is one; the shell leaves the group."""
        if group not in self.exchange.groups:
            return
        core, base = self._session._core, flush_group(group)
        if not core.is_over(base):
            await self._session._run(calls.leave(core, base, now_us()))
        self.exchange.close(group)

    def agree(self, request: FlushRequest) -> None:
        """Agrees to a flush for the application."""
        self.exchange.agree(request)
        self.received()

    # The session.

    def received(self) -> None:
        """After bytes have arrived, the connection has changed, or time has passed."""
        self.exchange.advance(now_us())
        self._session._flush_soon()
        self._set_timer()

    def _set_timer(self) -> None:
        at_us = NEVER if self._session._core.ended is not None else self.exchange.wake_at_us
        if at_us == self._timer_at_us:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at_us = at_us
        if at_us != NEVER:
            delay_us = max(0, at_us - now_us())
            self._timer = self._loop.call_later(delay_us / 1_000_000, self._time_passed)

    def _time_passed(self) -> None:
        self._timer, self._timer_at_us = None, NEVER
        self.received()
