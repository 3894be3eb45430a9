"""Local clusters for asyncio: `hopring.local_cluster`.

Requests to daemons run in threads, so that the event loop is not blocked. A cluster belongs to one event loop.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hopring.client.aio import Connecting, connect
from hopring.local.daemons import LOOK_SECONDS, SETTLE_SECONDS, START_SECONDS, ClusterBase, LocalDaemons
from hopring.local.plan import Names
from hopring.local.process import ClusterError, NotSettled


class Cluster(ClusterBase):
    """Daemons for a block: `async with local_cluster(...) as cluster`. They end with it."""

    async def __aenter__(self) -> Self:
        self._daemons = LocalDaemons(self._plan, self._directory, self._tracing)
        try:
            await asyncio.to_thread(self._daemons.launch)
            await _wait(self._daemons.ready, START_SECONDS, "the daemons")
            await self.settled()
        except BaseException:
            self._daemons.discard()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._core.discard()
            return
        try:
            await asyncio.to_thread(self._core.close)
        except asyncio.CancelledError:
            self._core.discard()
            raise

    def connect(self, daemon: str, **options: Any) -> Connecting:
        """A session at a daemon, with the options of `hopring.connect`."""
        return connect(self.url(daemon), **options)

    async def status(self, daemon: str) -> dict[str, Any]:
        """The status that a daemon reports: view, members, counters."""
        return await asyncio.to_thread(self._core.status, daemon)

    async def partition(self, *sides: Names) -> None:
        """Cuts all traffic between sides of sites and daemons; those not named form one more side."""
        await asyncio.to_thread(self._core.partition, sides)

    async def heal(self) -> None:
        """Removes all cuts; delays and loss stay."""
        await asyncio.to_thread(self._core.partition, [])

    async def shape(
        self,
        link: tuple[Names, Names],
        delay: str = "0ms",
        *,
        jitter: str = "0ms",
        loss: float = 0.0,
        rate_bits_per_second: int = 0,  # 0 is no limit.
    ) -> None:
        """Sets delay, loss and rate between two sites or daemons, in both directions."""
        await asyncio.to_thread(self._core.shape, link, delay, jitter, loss, rate_bits_per_second)

    async def crash(self, daemon: str) -> None:
        """Kills a daemon, which tells the others nothing."""
        await asyncio.to_thread(self._core.crash, daemon)

    async def stop(self, daemon: str) -> None:
        """Ends a daemon in an orderly way."""
        await asyncio.to_thread(self._core.stop, daemon)

    async def restart(self, daemon: str) -> None:
        """Starts a daemon again; a running one is ended first."""
        if daemon in self._core.processes:
            await self.stop(daemon)
        await asyncio.to_thread(self._core.start, daemon)
        await _wait(lambda: self._core.back(daemon), START_SECONDS, daemon)

    async def settled(self, timeout_seconds: float = SETTLE_SECONDS) -> None:
        """Waits until daemons that reach each other share one view; NotSettled if not in time."""
        seen: dict[str, str] = {}
        end = _now() + timeout_seconds
        while not await asyncio.to_thread(self._core.settled, seen.__setitem__):
            if _now() >= end:
                raise NotSettled(timeout_seconds, seen)
            await asyncio.sleep(LOOK_SECONDS)


async def _wait(condition: Callable[[], bool], seconds: float, whom: str) -> None:
    end = _now() + seconds
    while not await asyncio.to_thread(condition):
        if _now() >= end:
            raise ClusterError(whom, f"does not answer after {seconds:g} s")
        await asyncio.sleep(LOOK_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()


local_cluster = Cluster
