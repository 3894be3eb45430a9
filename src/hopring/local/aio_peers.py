"""Peers on this machine for asyncio: `hopring.local_peers`. Requests to peers run in threads."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hopring.check.rmp.peer_events import PeerEvent
from hopring.client.aio import Session, connect
from hopring.client.events import Quorum
from hopring.local.peer_processes import PeerNames, PeerProcesses


class Peers:
    """Peers for a block: `async with local_peers(5) as peers`. They end with it."""

    def __init__(
        self,
        count: int = 3,
        *,
        minimum: int | Quorum = 1,
        directory: Path | None = None,
        trace: bool = True,
    ) -> None:
        """`minimum` is the default of `join(minimum=...)`."""
        self._core = PeerProcesses(count, minimum, directory, trace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._core.close)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all peers."""
        return self._core.names

    @property
    def living(self) -> tuple[str, ...]:
        """The peers that run: those whose sessions are connected, or were a moment ago."""
        return self._core.living

    @property
    def directory(self) -> Path:
        """The directory of the traces."""
        return self._core.directory

    def url(self, name: str) -> str:
        """The URL of a peer, for one session at a time."""
        return self._core.url(name)

    async def connect(self, name: str, **options: Any) -> Session[Any]:
        """The session of a peer, which begins with it; by default it has the peer's name, and ends with it."""
        session = await connect(self.url(name), **{"name": name, "reconnect": False, **options})
        await asyncio.to_thread(self._core.apply, name)
        return session

    async def partition(self, *sides: PeerNames) -> None:
        """Cuts all traffic between sides; peers that are not named form one more side."""
        await asyncio.to_thread(self._core.partition, sides)

    async def heal(self) -> None:
        """Removes all cuts between peers."""
        await asyncio.to_thread(self._core.partition, [])

    async def crash(self, name: str) -> None:
        """Kills a peer, which tells the others nothing; `connect` begins another one of this name."""
        await asyncio.to_thread(self._core.crash, name)

    async def status(self, name: str) -> dict[str, Any]:
        """The status of a peer: its process, its groups, its counters."""
        return await asyncio.to_thread(self._core.status, name)

    def histories(self) -> dict[str, list[PeerEvent]]:
        """What all peers have written so far, by group, for the checks."""
        return self._core.histories()


local_peers = Peers
