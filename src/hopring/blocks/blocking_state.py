"""A group with a state, without an event loop: transfers go on while `receive` waits."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from hopring.blocks.state_exchange import StateExchange
from hopring.client.arguments import check_seconds
from hopring.client.blocking import Group
from hopring.client.calls import Call, Wait, until_us
from hopring.client.errors import SessionClosed, TimedOut, WrongValue
from hopring.client.events import Event, V
from hopring.client.receiving.sequence import EventSequence
from hopring.client.sockets import now_us
from hopring.client.values.codecs import decoded
from hopring.client.values.providers import StateProvider
from hopring.ids import NEVER

if TYPE_CHECKING:
    from hopring.client.blocking import Session


class BlockingStateGroup(Group[V]):
    """A group that the session is in, whose members have a state; the first event is `Ready`."""

    def __init__(self, session: "Session[V]", name: str, exchange: StateExchange) -> None:
        super().__init__(session, name)
        self._exchange = exchange

    @property
    def ready(self) -> bool:
        """Whether this member has the state of the group."""
        return self._exchange.transfer.ready

    @property
    def state_is_elsewhere(self) -> bool:
        """Whether nobody in the view has a state, although somebody had one elsewhere."""
        return self._exchange.transfer.stuck

    def begin_anew(self) -> None:
        """Begins with the state that the program has, if `state_is_elsewhere`."""
        self._exchange.begin_anew()
        self._exchange.advance()

    def receive(self, *, timeout_seconds: float | None = None) -> Event[V]:
        """The next event of this group; the first one is `Ready`."""
        check_seconds("timeout_seconds", timeout_seconds)
        event = self._following(until_us(now_us(), timeout_seconds))
        if event is not None:
            return event
        if self.session._core.is_over(self.name):
            raise self.session._core.ended or SessionClosed(f"{self.name} was left")
        raise TimedOut("receive", timeout_seconds or 0.0)

    def _following(self, end_us: int) -> Event[V] | None:
        event = self.session._run(self._receiving(end_us))
        codec = self.session._codec
        if event is None or codec is None:
            return cast("Event[V] | None", event)
        return decoded(codec, event)

    def _receiving(self, end_us: int) -> Call[Event | None]:
        core = self.session._core

        def news() -> bool:
            self._exchange.advance()  # What has arrived may have to be answered.
            return core.stream.waits(self.name) or core.is_over(self.name)

        while True:
            event = self._exchange.next()
            self._exchange.advance()
            if event is not None:
                return event
            now = yield Wait(news, end_us)
            taken = core.take(self.name)
            if taken is not None:
                self._exchange.put(taken)
            elif core.is_over(self.name) or (end_us != NEVER and now >= end_us):
                return None

    def receive_many(self, *, max_messages: int = 1, max_wait_seconds: float | None = None) -> EventSequence[V]:
        """Not there with a state: a snapshot is taken between two events."""
        del max_messages, max_wait_seconds
        raise WrongValue("receive_many", "the group has a state", "take its events one by one")

    def __iter__(self) -> Iterator[Event[V]]:
        """The group's events, the first one `Ready`, until the session leaves it."""
        core = self.session._core
        while (event := self._following(NEVER)) is not None:
            yield event
        if core.ended is not None and not (core.quit_done or core.closed_here):
            raise core.ended

    def close(self) -> None:
        """The session is not in the group any more."""
        self._exchange.close()


def open_state_group(session: "Session[Any]", group: str, provider: StateProvider) -> BlockingStateGroup[Any]:
    """Makes the group before it is joined, so that nothing is missed."""
    return BlockingStateGroup(session, group, StateExchange(session._core, group, provider))
