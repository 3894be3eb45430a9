"""The list of a group's operations, durable at a majority of its configured members, for asyncio."""

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hopring.blocks.log.book import LogEntry, StateMachine
from hopring.blocks.log.driver import QUORUM_SECONDS, LogDriver, log_place
from hopring.blocks.log.errors import LogDiskFailed, LogTrimmed
from hopring.blocks.log.member import COMPACT_ENTRIES, KEEP_DEFAULT, LogSizes
from hopring.client.arguments import check_number, got
from hopring.client.errors import WrongType

if TYPE_CHECKING:
    from hopring.client.aio import Session


class ReplicatedLog:
    """A list of operations: `async with ReplicatedLog(session, "orders", members=["a", "b", "c"],
    directory=...)`.

    An operation that was appended is on the disks of a majority of `members`, and survives a restart of all.
    Each member has a name and a directory of its own; without a directory a program follows and appends, and
    has no vote. All apply the operations to their `machine` in one order. The group must have no other use.
    """

    def __init__(
        self,
        session: "Session[Any]",
        group: str,
        *,
        members: Sequence[str],
        member: str | None = None,
        directory: Path | str | None = None,
        machine: StateMachine | None = None,
        keep: int = KEEP_DEFAULT,
        snapshot_every: int = COMPACT_ENTRIES,
        quorum_seconds: float = QUORUM_SECONDS,
    ) -> None:
        """A part in the log; `member` is the session's name unless given."""
        place = log_place(session, group, members, member, directory, quorum_seconds)
        check_machine(machine)
        check_number("keep", keep, 1)
        check_number("snapshot_every", snapshot_every, 1)
        sizes = LogSizes(compact_entries=snapshot_every, keep=keep)
        self._driver = LogDriver(session, place, machine, sizes, lambda: None)

    # Reading, without a message.

    @property
    def first(self) -> int:
        """The index of the oldest operation that is kept."""
        return self._driver.member.book.first

    @property
    def serving(self) -> bool:
        """Whether a majority of the members is here with the log, so that operations are accepted."""
        return self._driver.serving

    @property
    def disk_failed(self) -> LogDiskFailed | None:
        """Why this member's disk takes nothing at the moment; it is tried again every second."""
        return self._driver.disk_failed

    def __len__(self) -> int:
        return self._driver.member.book.length

    def __getitem__(self, index: int) -> bytes:
        book = self._driver.member.book
        if not isinstance(index, int):
            raise WrongType("index", got(index), "give an int")
        at = index + book.length if index < 0 else index
        if not 0 <= at < book.length:
            raise IndexError(index)
        if at < book.first:
            raise LogTrimmed(self._driver.name, at, book.first)
        return book.kept[at - book.first]

    def __iter__(self) -> Iterator[bytes]:
        """The operations that are kept, the oldest first."""
        return iter(tuple(self._driver.member.book.kept))

    async def watch(self, since: int | None = None) -> AsyncIterator[LogEntry]:
        """The operations from an index on, or from here on, as this member applies them."""
        book = self._driver.member.book
        at = book.length if since is None else since
        while True:
            while at < book.length:
                yield LogEntry(at, self[at])
                at += 1
            known = at
            await self._driver.until(lambda known=known: known < book.length)  # type: ignore[misc]

    # Appending.

    async def append(self, data: bytes, *, timeout_seconds: float | None = None) -> LogEntry:
        """Appends an operation; returns it, with its index and the machine's result, when it is durable.

        It is then in this member's list. NoQuorum: nothing was appended. NotAccepted: it is not durable yet,
        and may become so.
        """
        entry = await self._driver.submit(data, -1, timeout_seconds)
        assert entry is not None, "it has no condition"
        return entry

    async def append_at(
        self, index: int, data: bytes, *, timeout_seconds: float | None = None
    ) -> LogEntry | None:
        """Appends an operation if it gets this index, and so if nobody appended another; None otherwise."""
        check_number("index", index, 0)
        return await self._driver.submit(data, index, timeout_seconds)

    async def __aenter__(self) -> "ReplicatedLog":
        """Returns when this program has the log, which needs a majority; the first time, all members."""
        await self._driver.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._driver.stop()


def check_machine(machine: object) -> None:
    """Checks the machine of a log."""
    if machine is not None and not isinstance(machine, StateMachine):
        remedy = "give an object with apply(data), snapshot() and restore(state)"
        raise WrongType("machine", got(machine), remedy)
