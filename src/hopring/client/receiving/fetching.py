"""Fetches pages of a replay from spoolers: a session of its own beside that of the program, in both forms."""

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hopring.client.arguments import Reconnect, random_name
from hopring.client.core import ClientCore
from hopring.errors import HopError

if TYPE_CHECKING:
    from hopring.client.aio import Session as AioSession
    from hopring.client.blocking import Session as BlockingSession

PAGE_SECONDS: Final = 10.0
"""How long a spooler may take for a page of a replay."""


@dataclass(slots=True)
class FetchedPage:
    """A request for a page of a replay, and what came of it."""

    data: bytes | None = None
    error: HopError | None = None

    @property
    def over(self) -> bool:
        """Whether the reply is here, or an error."""
        return self.data is not None or self.error is not None

    def take(self) -> bytes:
        """Returns the data of the reply; raises the error of the request."""
        if self.error is not None:
            raise self.error
        assert self.data is not None, "look at `over` first"
        return self.data


def fetching_core(core: ClientCore) -> ClientCore:
    """A session beside this one, of the same client, that asks spoolers for pages of a replay."""
    return ClientCore(
        core.tries.urls,
        random_name(),
        membership=False,
        identity=core.identity,
        tls=core.tls,
        reconnect=Reconnect(),
        answer_seconds=core.answer_seconds,
        epoch_us=core.epoch_us,
        chance=random.random,
    )


class AioFetcher:
    """Asks spoolers for pages of a replay, by a session of its own."""

    def __init__(self, session: "AioSession[Any]", own: "AioSession[Any]") -> None:
        self._session = session
        self._own = own
        self._tasks: set[asyncio.Task[None]] = set()

    def fetch(self, group: str, data: bytes) -> FetchedPage:
        """Sends a request in a task, and wakes the calls of the session when it is over."""
        page = FetchedPage()

        async def run() -> None:
            try:
                replies = await self._own.request(group, data, timeout_seconds=PAGE_SECONDS)
                page.data = replies.data
            except HopError as error:
                page.error = error
            self._session._wake()

        task = self._session._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return page

    def close(self) -> None:
        """Ends its session and what it waits for."""
        for task in self._tasks:
            task.cancel()
        self._own.abort()


class BlockingFetcher:
    """Asks spoolers for pages of a replay, by a session of its own, and waits for each."""

    def __init__(self, own: "BlockingSession[Any]") -> None:
        self._own = own

    def fetch(self, group: str, data: bytes) -> FetchedPage:
        """Sends a request and waits for the reply, or the error."""
        page = FetchedPage()
        try:
            page.data = self._own.request(group, data, timeout_seconds=PAGE_SECONDS).data
        except HopError as error:
            page.error = error
        return page

    def close(self) -> None:
        """Ends its session at once."""
        self._own.abort()
