"""What the core says about bodies and files is carried out here: on the disk, on connections, and in groups.

Below       disk/member_disk.py; threads, for what takes long.
Above       member_process.py.
Invariants  items of a set go to its group in the order of the core: those behind a file wait until it is in its
            place. What the disk refuses is tried again, and said once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from hopring.blocks.log.messages import LogMessage
from hopring.haul.link.frames import ChunkFrame, LinkFrame
from hopring.haul.member_events import (
    CheckFile,
    ConnectionId,
    FileChecked,
    GiveBody,
    GivePiece,
    HandOver,
    PlaceFile,
    SendPiece,
    SendStored,
)
from hopring.haul.stored.bodies import ForgetBodies, StoreBodies
from hopring.haul.stored.keeping import body_message, piece_message
from hopring.haul.stored.names import directory_of
from hopring.haul.stored.shelf import DropFile, StoreFilePiece
from hopring.spool.errors import SpoolError, SyncFailed, WriterClosed
from hopring.wide.disk.errors import ContentDamaged
from hopring.wide.disk.member_disk import MemberDisk

RETRY_SECONDS: Final = 1.0
"""What the disk refused is tried again after this time."""

ContentOutput = (
    StoreBodies
    | ForgetBodies
    | SendStored
    | GiveBody
    | StoreFilePiece
    | DropFile
    | SendPiece
    | GivePiece
    | CheckFile
    | PlaceFile
    | HandOver
)

T = TypeVar("T")


class ContentUser(Protocol):
    """The process around the core."""

    def send_frame(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """Sends a frame to a peer."""
        ...

    def multicast_members(self, message: LogMessage) -> None:
        """Multicasts a message to the members."""
        ...

    def hand(self, output: HandOver, path: Path | None) -> None:
        """Multicasts an item to its local group; `path` is where its file is."""
        ...

    def file_checked(self, checked: FileChecked) -> None:
        """The content of a file was compared with its digest."""
        ...

    def disk_refuses(self, reason: str) -> None:
        """The disk does not take something now: it is tried again."""
        ...

    def disk_lost(self, reason: str) -> None:
        """It is not known what the disk has."""
        ...

    def run_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a task of the process, which ends with it."""
        ...


@dataclass(slots=True)
class SetQueue:
    """Items of one set, and files that are placed before them."""

    waiting: deque[PlaceFile | HandOver]
    path: Path | None = None  # Of the file that was placed last.


class StoredContent:
    """Bodies and files of one process."""

    def __init__(self, disk: MemberDisk, user: ContentUser) -> None:
        self._disk = disk
        self._user = user
        self._queues: dict[str, SetQueue] = {}  # By directory; of sets with a file on its way to its place.
        self._flushing = False

    def carry_out(self, output: ContentOutput) -> None:
        """Carries out what the core says."""
        disk, user = self._disk, self._user
        match output:
            case StoreBodies(bodies):
                disk.store_bodies(bodies)
            case ForgetBodies(keys):
                disk.forget_bodies(keys)
            case StoreFilePiece():
                disk.store_piece(output)
            case DropFile(key):
                disk.drop_file(key)
            case SendStored(connection, frame, body):
                user.send_frame(connection, replace(frame, body=disk.body(body)))
            case SendPiece(connection, key, offset, size_bytes):
                piece = disk.piece(key, offset, size_bytes)
                user.send_frame(connection, ChunkFrame(key.digest, offset, piece))
            case GiveBody(round_name, body):
                user.multicast_members(body_message(round_name, body, disk.body(body)))
            case GivePiece(round_name, key, offset, size_bytes):
                user.multicast_members(
                    piece_message(round_name, key, offset, disk.piece(key, offset, size_bytes))
                )
            case CheckFile():
                user.run_task(self._check(output))
            case PlaceFile(directory=directory):
                self._queue(directory, output)
            case HandOver():
                self._hand(output)
        self._flush_soon()

    def restart(self) -> None:
        """The session is lost: what is on its way to groups goes again."""
        self._queues.clear()

    # Items and the files before them.

    def _hand(self, output: HandOver) -> None:
        if output.stored is not None:
            # It is read now: who hands over instead of this process may let it be forgotten.
            output = replace(output, body=self._disk.body(output.stored), stored=None)
        directory = directory_of(output.set)
        if directory in self._queues:
            self._queue(directory, output)
        else:
            self._user.hand(output, None)

    def _queue(self, directory: str, output: PlaceFile | HandOver) -> None:
        queue = self._queues.get(directory)
        if queue is not None:
            queue.waiting.append(output)
            return
        self._queues[directory] = queue = SetQueue(deque([output]))
        self._user.run_task(self._work(directory, queue))

    async def _work(self, directory: str, queue: SetQueue) -> None:
        while queue.waiting and self._queues.get(directory) is queue:
            output = queue.waiting.popleft()
            if isinstance(output, HandOver):
                self._user.hand(output, queue.path if output.item.file is not None else None)
                continue
            of = output.key, directory, output.place
            queue.path = await self._patiently(partial(self._disk.place, *of))
        if self._queues.get(directory) is queue:
            del self._queues[directory]

    async def _check(self, output: CheckFile) -> None:
        fits = await self._patiently(lambda: self._disk.check(output.key))
        if fits is not None:
            self._user.file_checked(FileChecked(output.key, fits))

    async def _patiently(self, work: Callable[[], T]) -> T | None:
        """Does it in a thread until the disk takes it; None if the process ends instead."""
        while True:
            try:
                return await asyncio.to_thread(work)
            except (SyncFailed, WriterClosed, ContentDamaged) as error:
                self._user.disk_lost(str(error))
                return None
            except SpoolError as error:
                self._user.disk_refuses(str(error))
                await asyncio.sleep(RETRY_SECONDS)

    # What is only in memory.

    def _flush_soon(self) -> None:
        if self._disk.wants_flush and not self._flushing:
            self._flushing = True
            self._user.run_task(self._flush())

    async def _flush(self) -> None:
        await self._patiently(self._disk.flush)
        self._flushing = False
