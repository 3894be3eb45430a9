"""A group with a state, in an event loop."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from hopring.blocks.state_exchange import StateExchange
from hopring.client import calls
from hopring.client.aio_group import Group
from hopring.client.errors import WrongValue
from hopring.client.events import Event, V
from hopring.client.receiving.sequence import EventSequence
from hopring.client.sockets import now_us
from hopring.client.values.codecs import decoded
from hopring.client.values.providers import StateProvider

if TYPE_CHECKING:
    from hopring.client.aio import Session


class StateGroup(Group[V]):
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

    async def begin_anew(self) -> None:
        """Begins with the state that the program has, if `state_is_elsewhere`."""
        self._exchange.begin_anew()
        self._advance()

    async def receive(self) -> Event[V]:
        """The next event of this group; the first one is `Ready`."""
        while True:
            event = self._next()
            if event is not None:
                return event
            self._exchange.put(await self.session._take(self.name))

    async def receive_many(
        self, *, max_messages: int = 1, max_wait_seconds: float | None = None
    ) -> EventSequence[V]:
        """Not there with a state: a snapshot is taken between two events."""
        del max_messages, max_wait_seconds
        raise WrongValue("receive_many", "the group has a state", "take its events one by one")

    def __aiter__(self) -> AsyncIterator[Event[V]]:
        """The group's events, the first one `Ready`, until the session leaves it."""
        return self._events()

    async def _events(self) -> AsyncIterator[Event[V]]:
        core = self.session._core
        while True:
            event = self._next()
            if event is not None:
                yield event
                continue
            taken = core.take(self.name) or await self.session._run(calls.following(core, self.name, now_us()))
            if taken is None:
                return
            self._exchange.put(taken)

    def _next(self) -> Event[V] | None:
        try:
            event = self._exchange.next()
        finally:
            self._advance()
        codec = self.session._codec
        if event is None or codec is None:
            return cast("Event[V] | None", event)
        return decoded(codec, event)

    def _advance(self) -> None:
        self._exchange.advance()
        if self.session._core.ended is None:
            self.session._flush_soon()

    def received(self) -> None:
        """Sends what is due after bytes have arrived."""
        self._exchange.advance()

    def close(self) -> None:
        """Ends it: the session is not in the group any more."""
        self._exchange.close()
        if self in self.session._listeners:
            self.session._listeners.remove(self)


async def join_state(session: "Session[Any]", group: str, provider: StateProvider) -> StateGroup[Any]:
    """Joins a group with a state; its transfer begins before the join, so that nothing is missed."""
    made: StateGroup[Any] = StateGroup(session, group, StateExchange(session._core, group, provider))
    session._listeners.append(made)
    try:
        await session._run(calls.join(session._core, group, now_us()))
    except BaseException:
        made.close()
        raise
    return made
