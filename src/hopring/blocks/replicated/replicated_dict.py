"""A map that all members of a group have, on state transfer: each change has its place in the group's order.

Invariants  changes are applied by `MapState.apply` alone, in their order: members with the same state stay
            equal. A change is done when this member has applied it, so a program reads what it has written.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hopring.client.errors import InDoubt, SessionClosed, WrongType
from hopring.client.events import Message, Ready, Reconnected
from hopring.system.kernel import kernel

if TYPE_CHECKING:
    from hopring.client.aio import Session


@dataclass(frozen=True, slots=True)
class MapChange:
    """A change of one entry of a `ReplicatedDict`."""

    key: str
    value: object  # What JSON has; None if it was deleted.
    deleted: bool


class MapState:
    """The entries, and how they change. A change is a JSON list: writer, number, key, conditions, values."""

    def __init__(self) -> None:
        self.entries: dict[str, object] = {}

    def apply(self, data: bytes) -> tuple[str, int, MapChange | None] | None:
        """Applies a change: its writer and number, and what has changed. None if it is no change at all."""
        try:
            writer, number, key, expected, wanted = json.loads(data)
            known = isinstance(writer, str) and isinstance(number, int) and isinstance(key, str)
            fits = known and isinstance(expected, list) and isinstance(wanted, list)
        except (ValueError, TypeError):
            return None
        if not fits:
            return None
        present = [self.entries[key]] if key in self.entries else []
        if expected and present != expected[0]:
            return writer, number, None
        if wanted:
            self.entries[key] = wanted[0]
        else:
            self.entries.pop(key, None)
        return writer, number, MapChange(key, wanted[0] if wanted else None, not wanted)

    def snapshot(self) -> bytes:
        """The entries as JSON text."""
        return json.dumps(self.entries).encode()

    def restore(self, state: bytes) -> None:
        """Replaces all entries by those of a snapshot."""
        self.entries = json.loads(state)


class ReplicatedDict(Mapping[str, object]):
    """A map of the members of a group: `async with ReplicatedDict(session, "prices") as prices`.

    Reading needs no message, and may be behind other members; `put`, `delete` and `compare_and_set` return when
    this member has applied the change. Values are what JSON has. The group must have no other use.
    """

    def __init__(self, session: "Session[Any]", group: str) -> None:
        self._session = session
        self._name = group
        self._state = MapState()
        self._writer = kernel().random_bytes(8).hex()
        self._number = 0
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._watchers: list[asyncio.Queue[MapChange]] = []
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __getitem__(self, key: str) -> object:
        return self._state.entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._state.entries)

    def __len__(self) -> int:
        return len(self._state.entries)

    async def put(self, key: str, value: object) -> None:
        """Sets an entry, whatever it was."""
        await self._change(key, [], [value])

    async def delete(self, key: str) -> None:
        """Deletes an entry, if there is one."""
        await self._change(key, [], [])

    async def compare_and_set(self, key: str, expected: object, value: object) -> bool:
        """Sets an entry if it has the expected value at the place of the change; returns whether."""
        return await self._change(key, [[expected]], [value])

    async def put_if_missing(self, key: str, value: object) -> bool:
        """Sets an entry if there is none of this key; returns whether."""
        return await self._change(key, [[]], [value])

    async def watch(self) -> AsyncIterator[MapChange]:
        """The changes from here on, in their order; a state that is replaced is not among them."""
        changes: asyncio.Queue[MapChange] = asyncio.Queue()
        self._watchers.append(changes)
        try:
            while True:
                yield await changes.get()
        finally:
            self._watchers.remove(changes)

    async def _change(self, key: str, expected: list[list[object]], wanted: list[object]) -> bool:
        if not isinstance(key, str):
            raise WrongType("key", f"got {type(key).__name__}", "give a str")
        assert self._task is not None, "it is used inside of `async with`"
        if self._task.done():
            self._task.result()  # Raises what has ended it.
            raise SessionClosed(f"{self._name} was left")
        self._number += 1
        number = self._number
        body = json.dumps([self._writer, number, key, expected, wanted]).encode()
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[number] = done
        try:
            await self._session.multicast(self._name, body)
            return await done
        finally:
            self._waiting.pop(number, None)

    async def _follow(self) -> None:
        try:
            async with self._session.join(self._name, state=self._state) as group:
                async for event in group:
                    if isinstance(event, Ready):
                        self._ready.set()
                    elif isinstance(event, Message):
                        self._applied(self._state.apply(event.data))
                    elif isinstance(event, Reconnected):
                        self._in_doubt("the connection was lost before the change came back")
        finally:
            self._in_doubt("the session ended before the change came back")
            self._ready.set()

    def _applied(self, done: tuple[str, int, MapChange | None] | None) -> None:
        if done is None:
            return
        writer, number, change = done
        if change is not None:
            for watcher in self._watchers:
                watcher.put_nowait(change)
        future = self._waiting.get(number) if writer == self._writer else None
        if future is not None and not future.done():
            future.set_result(change is not None)

    def _in_doubt(self, reason: str) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(InDoubt((self._name,), reason))

    async def __aenter__(self) -> "ReplicatedDict":
        self._task = asyncio.create_task(self._follow())
        try:
            await self._ready.wait()
        except BaseException:
            self._task.cancel()
            raise
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None, "it was entered"
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._session.ended is None and self._name in self._session.joined:
            await self._session.leave(self._name)
