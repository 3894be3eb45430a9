"""Locks as applications hold them, and the verbs of sessions and groups, in both forms of the library.

    async with group.lock("row-17", timeout_seconds=1) as fence: ...

If the lock is lost inside of the block, the asyncio form cancels it and raises LockLost at its end; the
blocking form raises LockLost at its end.
"""

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any, Final

from hopring.client import queries
from hopring.client.arguments import check_plain_group
from hopring.client.core import ClientCore
from hopring.client.locks.calls import claim_held, claim_of, lock, lost
from hopring.client.locks.claims import ClaimedLock
from hopring.client.queries import LockInfo, Query
from hopring.client.sockets import now_us

LEADER: Final = "leader"
"""The lock of `elect`."""


class Locking:
    """A lock of a group: await it, or use it as `async with`, which releases it in the end."""

    def __init__(self, session: Any, claim: Any, seconds: float | None) -> None:
        self._session = session
        self._claim: ClaimedLock = claim
        self._seconds = seconds
        self._task: asyncio.Task[object] | None = None
        self._cancelled = False

    @property
    def held(self) -> bool:
        """Whether the session holds the lock, as far as it knows."""
        return self._claim.held

    def __await__(self) -> Generator[object, None, int]:
        """Waits until the session holds the lock; returns the fence. `Group.unlock` releases it."""
        return self._lock().__await__()

    async def _lock(self) -> int:
        core = self._session._core
        fence: int = await self._session._run(lock(core, self._claim, now_us(), self._seconds))
        return fence

    async def __aenter__(self) -> int:
        fence = await self._lock()
        self._task = asyncio.current_task()
        self._session._holding += (self,)
        self.check()
        return fence

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session._holding = tuple([one for one in self._session._holding if one is not self])
        task, self._task = self._task, None
        was_lost = not self._claim.held
        self._session._core.unlock(self._claim)
        self._session._flush_soon()
        if self._cancelled and task is not None:
            self._cancelled = False
            if task.uncancel() > 0 or kind is not asyncio.CancelledError:
                return  # Somebody else cancels it, too, or it ended in another way.
            raise lost(self._claim) from error
        if was_lost and kind is None:
            raise lost(self._claim)

    def check(self) -> None:
        """Cancels the block if the lock is lost."""
        if self._task is not None and not self._cancelled and not self._claim.held:
            self._cancelled = True
            self._task.cancel()


class BlockingLocking:
    """A lock of a group, for `with`: it is released in the end."""

    def __init__(self, session: Any, claim: Any, seconds: float | None) -> None:
        self._session = session
        self._claim: ClaimedLock = claim
        self._seconds = seconds

    @property
    def held(self) -> bool:
        """Whether the session holds the lock; reads what the daemon has said meanwhile."""
        if self._claim.held and self._session._core.ended is None:
            self._session._line.exchange(now_us())
        return self._claim.held

    def acquire(self) -> int:
        """Waits until the session holds the lock; returns the fence. `Group.unlock` releases it."""
        core = self._session._core
        fence: int = self._session._run(lock(core, self._claim, now_us(), self._seconds))
        return fence

    def __enter__(self) -> int:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_lost = not self.held
        core = self._session._core
        core.unlock(self._claim)
        if core.ended is None:
            self._session._line.exchange(now_us())
        if was_lost and kind is None:
            raise lost(self._claim)


class AioLocks:
    """The verbs of an asyncio session for locks."""

    _core: ClientCore
    _holding: tuple[Locking, ...] = ()  # Blocks that are cancelled if their locks are lost.

    def lock(
        self, group: str, name: str, *, timeout_seconds: float | None = None, partial: bool = False
    ) -> Locking:
        """A lock of a group that the session is in: `async with session.lock(...) as fence`, or `await` it.

        The fence is an int above those of all earlier holders. NotPrimary: the daemon's view is not primary.
        LockTimedOut: others held it for so long. If the lock is lost, the block is cancelled, and LockLost
        raised in its place. With `partial`, the lock is also granted on a side that is not primary, with a
        negative fence that counts within that side only.
        """
        check_plain_group(group)
        return Locking(self, claim_of(group, name, timeout_seconds, partial), timeout_seconds)

    def elect(self, group: str, *, timeout_seconds: float | None = None, partial: bool = False) -> Locking:
        """Waits to be the leader of a group, which is the holder of its lock "leader"; see `lock`."""
        return self.lock(group, LEADER, timeout_seconds=timeout_seconds, partial=partial)

    async def unlock(self, group: str, name: str, fence: int) -> None:
        """Releases a lock that was awaited; LockNotHeld if the session does not hold it with this fence."""
        check_plain_group(group)
        self._core.unlock(claim_held(self._core, group, name, fence))
        self._flush_soon()

    async def locks(self, group: str) -> tuple[LockInfo, ...]:
        """The locks of a group that somebody claims: holder, fence and how many wait; no join is needed."""
        found: tuple[LockInfo, ...] = await self._query(queries.locks(group))
        return found

    async def _query(self, query: Query[Any]) -> Any:
        raise NotImplementedError

    def _flush_soon(self) -> None:
        raise NotImplementedError

    def _check_locks(self) -> None:
        """Cancels the blocks whose locks are lost."""
        for one in self._holding:
            one.check()


class AioGroupLocks:
    """The same verbs for a group."""

    session: Any
    name: str

    def lock(self, name: str, *, timeout_seconds: float | None = None, partial: bool = False) -> Locking:
        """A lock of the group: `async with group.lock("row-17") as fence`; see `Session.lock`."""
        locking: Locking = self.session.lock(self.name, name, timeout_seconds=timeout_seconds, partial=partial)
        return locking

    def elect(self, *, timeout_seconds: float | None = None, partial: bool = False) -> Locking:
        """Waits to be the leader of the group; see `Session.elect`."""
        return self.lock(LEADER, timeout_seconds=timeout_seconds, partial=partial)

    async def unlock(self, name: str, fence: int) -> None:
        """Releases a lock that was awaited; see `Session.unlock`."""
        await self.session.unlock(self.name, name, fence)

    async def locks(self) -> tuple[LockInfo, ...]:
        """The locks of the group that somebody claims; see `Session.locks`."""
        found: tuple[LockInfo, ...] = await self.session.locks(self.name)
        return found


class BlockingLocks:
    """The verbs of a blocking session for locks."""

    _core: ClientCore

    def lock(
        self, group: str, name: str, *, timeout_seconds: float | None = None, partial: bool = False
    ) -> BlockingLocking:
        """A lock of a group that the session is in: `with session.lock(...) as fence`.

        The fence is an int above those of all earlier holders. NotPrimary: the daemon's view is not primary.
        LockTimedOut: others held it for so long. A session reads only while a call waits: look at `held`
        of the lock, or call something, more often than once in a second; LockLost is raised at the end of the
        block. With `partial`, the lock is also granted on a side that is not primary, with a negative fence
        that counts within that side only.
        """
        check_plain_group(group)
        return BlockingLocking(self, claim_of(group, name, timeout_seconds, partial), timeout_seconds)

    def elect(
        self, group: str, *, timeout_seconds: float | None = None, partial: bool = False
    ) -> BlockingLocking:
        """Waits to be the leader of a group, which is the holder of its lock "leader"; see `lock`."""
        return self.lock(group, LEADER, timeout_seconds=timeout_seconds, partial=partial)

    def unlock(self, group: str, name: str, fence: int) -> None:
        """Releases a lock that was acquired; LockNotHeld if the session does not hold it with this fence."""
        check_plain_group(group)
        self._core.unlock(claim_held(self._core, group, name, fence))
        self.poll()

    def locks(self, group: str, *, timeout_seconds: float | None = None) -> tuple[LockInfo, ...]:
        """The locks of a group that somebody claims: holder, fence and how many wait; no join is needed."""
        found: tuple[LockInfo, ...] = self._query(queries.locks(group), timeout_seconds)
        return found

    def _query(self, query: Query[Any], timeout_seconds: float | None) -> Any:
        raise NotImplementedError

    def poll(self) -> bool:
        raise NotImplementedError


class BlockingGroupLocks:
    """The same verbs for a group."""

    session: Any
    name: str

    def lock(
        self, name: str, *, timeout_seconds: float | None = None, partial: bool = False
    ) -> BlockingLocking:
        """A lock of the group: `with group.lock("row-17") as fence`; see `Session.lock`."""
        locking: BlockingLocking = self.session.lock(
            self.name, name, timeout_seconds=timeout_seconds, partial=partial
        )
        return locking

    def elect(self, *, timeout_seconds: float | None = None, partial: bool = False) -> BlockingLocking:
        """Waits to be the leader of the group; see `Session.elect`."""
        return self.lock(LEADER, timeout_seconds=timeout_seconds, partial=partial)

    def unlock(self, name: str, fence: int) -> None:
        """Releases a lock that was acquired; see `Session.unlock`."""
        self.session.unlock(self.name, name, fence)

    def locks(self, *, timeout_seconds: float | None = None) -> tuple[LockInfo, ...]:
        """The locks of the group that somebody claims; see `Session.locks`."""
        found: tuple[LockInfo, ...] = self.session.locks(self.name, timeout_seconds=timeout_seconds)
        return found
