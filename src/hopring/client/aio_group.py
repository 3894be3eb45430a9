"""A group of an asyncio session: a name to send to, and its part of the session's events."""

from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from hopring.client.batches import Numbered
from hopring.client.events import Event, Message, Receipt
from hopring.client.queries import GroupMembers
from hopring.client.sending import Data
from hopring.client.sequence import EventSequence
from hopring.client.verbs import MANY_MESSAGES
from hopring.services import Service

if TYPE_CHECKING:
    from hopring.client.aio import Session


class Group:
    """A group that the session is in. Iterate over it for its events alone."""

    def __init__(self, session: "Session", name: str) -> None:
        """Use `Session.join`."""
        self.session = session
        self.name = name

    async def multicast(
        self, data: Data, *, service: Service = Service.AGREED, type: int = 0, self_discard: bool = False
    ) -> None:
        """Sends a message to the group; waits only for room in the window."""
        await self.session.multicast(self.name, data, service=service, type=type, self_discard=self_discard)

    async def multicast_many(
        self,
        bodies: Sequence[bytes],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Sends many messages to the group; see `Session.multicast_many`."""
        await self.session.multicast_many(
            self.name, bodies, service=service, type=type, self_discard=self_discard
        )

    async def multicast_wait(
        self,
        data: Data,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        timeout_seconds: float | None = None,
    ) -> Receipt:
        """Sends a message to the group and returns its place in the order; see `Session.multicast_wait`."""
        return await self.session.multicast_wait(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            timeout_seconds=timeout_seconds,
        )

    async def multicast_batch(
        self,
        messages: Iterable[Numbered],
        *,
        app: str,
        batch: int,
        service: Service = Service.SAFE,
        timeout_seconds: float | None = None,
    ) -> Receipt | None:
        """Sends a batch that counts once to the group; see `Session.multicast_batch`."""
        return await self.session.multicast_batch(
            self.name, messages, app=app, batch=batch, service=service, timeout_seconds=timeout_seconds
        )

    async def members(self) -> GroupMembers:
        """Who is in the group, as the daemon knows it now; views among the events tell it in their order."""
        return await self.session.members(self.name)

    async def leave(self) -> None:
        """Is a member no longer when this returns."""
        await self.session.leave(self.name)

    async def receive(self) -> Event:
        """The next event of this group."""
        return await self.session._receive(self.name)

    async def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence:
        """Many events of this group; see `Session.receive_many`."""
        return await self.session._receive_many(self.name, max_messages, max_wait_seconds)

    def __aiter__(self) -> AsyncIterator[Event]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._iterate(self.name)

    async def messages(self) -> AsyncIterator[Message]:
        """The group's messages, for those who do not care for views."""
        async for event in self:
            if isinstance(event, Message):
                yield event


class Joining:
    """A join that can be awaited, or used as `async with`."""

    def __init__(
        self, session: "Session", group: str, since: int | None = None, spool: Path | str | None = None
    ) -> None:
        self._session = session
        self._group = group
        self._from = (since, spool)

    def __await__(self) -> Generator[object, None, Group]:
        """Waits until the session is a member."""
        return self._session._join(self._group, *self._from).__await__()

    async def __aenter__(self) -> Group:
        return await self._session._join(self._group, *self._from)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._session._core.is_over(self._group):
            await self._session.leave(self._group)
