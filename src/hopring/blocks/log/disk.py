"""Writes the records of a log's member to its disk, in a thread, for a program with an event loop.

Below       a store (store.py).
Above       driver.py; processes of the long-haul service.
Invariants  one write at a time is on its way. What the disk refuses is tried again, until it is there or it is
            not known what the disk has.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from hopring.blocks.log.records import LogImage, LogRecord
from hopring.blocks.log.store import LogStore
from hopring.spool.errors import SpoolError, SyncFailed, WriterClosed

RETRY_SECONDS: Final = 1.0
"""A write that the disk refused is repeated after this time."""


class DiskUser(Protocol):
    """Is told what became of its records."""

    def synced(self) -> None:
        """The records that were given to the disk are on it."""
        ...

    def disk_refuses(self, reason: str) -> None:
        """The disk does not take the records now: they are tried again."""
        ...

    def disk_lost(self, reason: str) -> None:
        """It is not known what the disk has; nothing more is written."""
        ...


class LogDisk:
    """The disk of one member."""

    def __init__(self, store: LogStore, user: DiskUser) -> None:
        self._store = store
        self._user = user
        self._task: asyncio.Task[None] | None = None

    @property
    def image(self) -> LogImage:
        """What the disk has, and will have with what was written."""
        return self._store.image

    def write(self, records: Sequence[LogRecord]) -> None:
        """Begins to write records; the user is told when they are synced."""
        self._task = asyncio.create_task(self._write(records))

    async def close(self) -> None:
        """Waits for what the thread has in hand, and lets another process open the store."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._store.close()

    async def _write(self, records: Sequence[LogRecord]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            written = loop.run_in_executor(None, self._store.write, records)
            try:
                await asyncio.shield(written)
                break
            except (SyncFailed, WriterClosed) as error:
                self._user.disk_lost(str(error))
                return
            except SpoolError as error:
                self._user.disk_refuses(str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except asyncio.CancelledError:
                with suppress(SpoolError):
                    await written  # The store is closed after that.
                raise
        self._user.synced()
