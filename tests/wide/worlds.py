"""What tests of joined clusters share: stories with a limit, and conditions on what members show."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from hopring.client.aio import connect
from hopring.wide.library.events import WideEvent, WideMessage
from hopring.wide.library.sets import JoinedSet, join
from hopring.wide.local_clusters.blocking import LocalWide

STORY_SECONDS: Final = 240.0
NAMES: Final = ("hub", "norway", "sandiego")


def run(story: Coroutine[Any, Any, None]) -> None:
    """Runs a story, which may take minutes on a busy machine."""

    async def limited() -> None:
        async with asyncio.timeout(STORY_SECONDS):
            await story

    asyncio.run(limited())


async def comes(condition: Callable[[], Awaitable[object]]) -> None:
    """Waits for a condition, as long as the limit of the story."""
    while not await condition():
        await asyncio.sleep(0.05)


def best(world: LocalWide, cluster: str) -> dict[str, Any]:
    """The status of a cluster, by a member that serves."""
    found = world.status(cluster)
    return max(found, key=lambda one: (bool(one["serving"]), int(one["epoch"])), default={"serving": False})


async def serves(world: LocalWide, cluster: str) -> bool:
    """Whether a majority of a cluster serves."""
    return bool((await asyncio.to_thread(best, world, cluster))["serving"])


async def spool(world: LocalWide, cluster: str, name: str, to: str | None) -> dict[str, Any]:
    """One spool of a cluster, as a member shows it."""
    found = await asyncio.to_thread(best, world, cluster)
    return next((one for one in found["spools"] if (one["set"], one["to"]) == (name, to)), {})


async def texts(joined: JoinedSet, count: int) -> list[str]:
    """The next messages of a set, without other events."""
    found: list[str] = []
    while len(found) < count:
        event = await joined.receive()
        if isinstance(event, WideMessage):
            found.append(event.data.decode())
    return found


async def events(joined: JoinedSet, count: int) -> list[WideEvent]:
    """The next events of a set."""
    return [await joined.receive() for _ in range(count)]


class Member:
    """A program in one cluster that has joined a set, for the block of a story."""

    def __init__(
        self, world: LocalWide, cluster: str, name: str, app: str | None = None, **options: Any
    ) -> None:
        self._session = connect(world.url(cluster), name=app or f"app-{cluster}")
        self._name = name
        self._options = options
        self._joined: JoinedSet

    async def __aenter__(self) -> JoinedSet:
        session = await self._session.__aenter__()
        self._joined = join(session, self._name, timeout_seconds=120.0, **self._options)
        return await self._joined.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._joined.__aexit__(*error)
        await self._session.__aexit__(*error)
