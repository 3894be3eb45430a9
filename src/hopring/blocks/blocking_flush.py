"""View synchrony without an event loop: agreements are sent while a call of the session waits."""

from typing import TYPE_CHECKING

from hopring.blocks.flush_exchange import FlushExchange, flush_group
from hopring.client import calls
from hopring.client.arguments import ViewSynchrony
from hopring.client.calls import until_us
from hopring.client.events import FlushRequest
from hopring.client.sockets import now_us
from hopring.ids import NEVER

if TYPE_CHECKING:
    from hopring.client.blocking import Session


class BlockingFlush:
    """The groups with view synchrony of one blocking session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.exchange = FlushExchange(session._core)

    def join(self, group: str, options: ViewSynchrony, seconds: float | None) -> None:
        """Joins a group, and then its members with view synchrony."""
        session, core = self._session, self._session._core
        end_us = until_us(now_us(), seconds)
        self.exchange.open(group, options)
        try:
            session._run(calls.join(core, group, now_us(), seconds))
            left = None if end_us == NEVER else max(0, end_us - now_us()) / 1_000_000
            try:
                session._run(calls.join(core, flush_group(group), now_us(), left))
            except BaseException:
                if not core.is_over(group):
                    core.leave(group)
                raise
        except BaseException:
            self.exchange.close(group)
            raise

    def leave(self, group: str, seconds: float | None) -> None:
        """Leaves the members with view synchrony, if the session is one; the shell leaves the group."""
        if group not in self.exchange.groups:
            return
        core, base = self._session._core, flush_group(group)
        if not core.is_over(base):
            self._session._run(calls.leave(core, base, now_us(), seconds))
        self.exchange.close(group)

    def agree(self, request: FlushRequest) -> None:
        """Agrees to a flush for the application."""
        self.exchange.agree(request)
        self._session._line.exchange(now_us())

    def wake_at_us(self) -> int:
        """When a waiting call has to look at the time."""
        self.exchange.advance(now_us())
        return self.exchange.wake_at_us
