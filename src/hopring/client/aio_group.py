"""A group that a session has joined: the session's calls with the group filled in, for asyncio."""

from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic

from hopring.client.arguments import ViewSynchrony
from hopring.client.calls import MANY_MESSAGES, BatchItem
from hopring.client.events import Event, Message, Quorum, Receipt, V
from hopring.client.features.requests import AioGroupRequests
from hopring.client.features.synchrony import AioGroupSynchrony
from hopring.client.locks.handles import AioGroupLocks
from hopring.client.outgoing import Data
from hopring.client.queries import GroupMembers
from hopring.client.receiving.sequence import EventSequence
from hopring.client.values.providers import StateProvider
from hopring.ids import Place
from hopring.services import Service

if TYPE_CHECKING:
    from hopring.client.aio import Session


class Group(AioGroupRequests, AioGroupLocks, AioGroupSynchrony, Generic[V]):
    """A group that the session is in. Iterate over it for its events alone."""

    session: "Session[V]"

    def __init__(self, session: "Session[V]", name: str) -> None:
        """Called by `Session.join`, not by applications."""
        self.session = session
        self.name = name

    async def multicast(
        self,
        data: Data | V,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        retain: bool = False,
        resilience: int | Quorum = 0,
    ) -> None:
        """Sends a message to the group; waits only for room in the window."""
        await self.session.multicast(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
            ttl_seconds=ttl_seconds,
            retain=retain,
            resilience=resilience,
        )

    async def multicast_many(
        self,
        bodies: Sequence[bytes] | Sequence[V],
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        resilience: int | Quorum = 0,
    ) -> None:
        """Sends many messages to the group; see `Session.multicast_many`."""
        await self.session.multicast_many(
            self.name, bodies, service=service, type=type, self_discard=self_discard, resilience=resilience
        )

    async def multicast_wait(
        self,
        data: Data | V,
        *,
        service: Service = Service.AGREED,
        type: int = 0,
        self_discard: bool = False,
        headers: Mapping[str, str] | None = None,
        ttl_seconds: float | None = None,
        retain: bool = False,
        resilience: int | Quorum = 0,
        timeout_seconds: float | None = None,
    ) -> Receipt:
        """Sends a message to the group and returns its place in the order; see `Session.multicast_wait`."""
        return await self.session.multicast_wait(
            self.name,
            data,
            service=service,
            type=type,
            self_discard=self_discard,
            headers=headers,
            ttl_seconds=ttl_seconds,
            retain=retain,
            resilience=resilience,
            timeout_seconds=timeout_seconds,
        )

    async def multicast_batch(
        self,
        messages: Iterable[BatchItem],
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
        """The members of the group as the daemon knows them now; a view has them at its place in the order."""
        return await self.session.members(self.name)

    async def leave(self) -> None:
        """Leaves the group; the session is no member when this returns."""
        await self.session.leave(self.name)

    async def receive(self) -> Event[V]:
        """The next event of this group."""
        return await self.session._receive(self.name)

    async def receive_many(
        self, *, max_messages: int = MANY_MESSAGES, max_wait_seconds: float | None = None
    ) -> EventSequence[V]:
        """Many events of this group; see `Session.receive_many`."""
        return await self.session._receive_many(self.name, max_messages, max_wait_seconds)

    def __aiter__(self) -> AsyncIterator[Event[V]]:
        """The group's events until the session leaves it; each event is taken once, here or at the session."""
        return self.session._events(self.name)

    async def messages(self) -> AsyncIterator[Message[V]]:
        """The group's messages, without views and other events."""
        async for event in self:
            if isinstance(event, Message):
                yield event


class Joining(Generic[V]):
    """A join that can be awaited, or used as `async with`."""

    def __init__(
        self,
        session: "Session[V]",
        group: str,
        since: int | Place | None = None,
        spool: Path | str | None = None,
        synchrony: ViewSynchrony | None = None,
        state: StateProvider | None = None,
    ) -> None:
        self._session = session
        self._group = group
        self._options = (since, spool, synchrony, state)

    def __await__(self) -> Generator[object, None, Group[V]]:
        """Waits until the session is a member."""
        return self._session._join(self._group, *self._options).__await__()

    async def __aenter__(self) -> Group[V]:
        return await self._session._join(self._group, *self._options)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._session._core.is_over(self._group):
            await self._session.leave(self._group)
