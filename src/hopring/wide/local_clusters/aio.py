"""Clusters of this machine for asyncio: `hopring.wide.local`. Requests to processes run in threads."""

import asyncio
from types import TracebackType
from typing import Any, Self

from hopring.client.aio import Connecting, connect
from hopring.wide.local_clusters.blocking import LocalWideBase
from hopring.wide.local_clusters.processes import START_SECONDS, wait_ready


class AioLocalWide(LocalWideBase):
    """Clusters for a block: `async with wide.local(...) as world`. They end with it."""

    async def __aenter__(self) -> Self:
        """Starts them; returns when all serve and are linked."""
        try:
            await asyncio.to_thread(self._core.launch)
            await self.settled()
        except BaseException:
            self._core.discard()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._core.discard()
            return
        try:
            await asyncio.to_thread(self._core.close)
        except asyncio.CancelledError:
            self._core.discard()
            raise

    def connect(self, cluster: str, **options: Any) -> Connecting[Any]:
        """A session at a daemon of a cluster, with the options of `hopring.connect`."""
        return connect(self.url(cluster), **options)

    async def status(self, cluster: str) -> list[dict[str, Any]]:
        """The status of each member of a cluster that answers."""
        return await asyncio.to_thread(self._core.statuses, cluster)

    async def cut(self, one: str, other: str) -> None:
        """Cuts the link between two clusters: connections end, and no others are made."""
        await asyncio.to_thread(self._core.cut, one, other)

    async def heal(self) -> None:
        """Ends all cuts of links."""
        await asyncio.to_thread(self._core.heal)

    async def crash(self, member: str) -> None:
        """Kills a member, as a power cut does."""
        await asyncio.to_thread(self._core.crash, member)

    async def crash_cluster(self, cluster: str) -> None:
        """Kills all members of a cluster; its daemons go on."""
        await asyncio.to_thread(self._core.crash_cluster, cluster)

    async def restart(self, name: str) -> None:
        """Starts a member, or those of a cluster that do not run."""
        await asyncio.to_thread(self._core.restart, name)

    async def settled(self, timeout_seconds: float = START_SECONDS) -> None:
        """Waits until all that runs serves and is linked."""
        await asyncio.to_thread(wait_ready, self._core, timeout_seconds)
