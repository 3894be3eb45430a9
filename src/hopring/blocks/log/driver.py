"""Drives a member of a replicated log in an event loop: its session, its disk in a thread, its waiting callers.

Below       an asyncio session (client/aio.py), a store (store.py).
Above       replicated_log.py, and blocks/work_queue.
Invariants  one write at a time is on its way to the disk, and the next one has all records since. A failing
            disk holds back what it did not take, and nothing else.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hopring.blocks.log.book import AppliedOperation, LogEntry, StateMachine
from hopring.blocks.log.disk import LogDisk
from hopring.blocks.log.errors import ApplyFailed, LogDiskFailed, NoQuorum, NotAccepted, NotAMember
from hopring.blocks.log.events import (
    LogInput,
    LogMessageShown,
    LogRefused,
    LogSessionLost,
    LogSignalShown,
    LogViewShown,
    RecordsSynced,
    SendToGroup,
    WriteRecords,
)
from hopring.blocks.log.member import AnswerLost, LogMember, LogSizes, MemberOutput, log_member
from hopring.blocks.log.messages import decode_message, encode_message
from hopring.blocks.log.outbox import SessionOutbox
from hopring.blocks.log.store import MemoryStore, SpoolStore
from hopring.client.arguments import check_seconds, got
from hopring.client.errors import MessageTooLarge, SessionClosed, TimedOut, WrongType, WrongValue
from hopring.client.events import Event, Message, Reconnected, Transition, View
from hopring.client.outgoing import checked_plain_group
from hopring.errors import HopError
from hopring.system.kernel import kernel

if TYPE_CHECKING:
    from hopring.client.aio import Session

MEMBERS_MAX: Final = 64
QUORUM_SECONDS: Final = 2.0
"""How long an append waits for a majority, which is also gone for a moment at each change of the view."""

SPARE_BYTES: Final = 1024
"""An operation is shorter than a message by this: room for what the log adds."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Which part a program has in a log: the checked arguments of a replicated log."""

    group: str
    members: tuple[str, ...]
    member: str  # Empty for a follower.
    directory: Path | None
    quorum_seconds: float = QUORUM_SECONDS


def log_place(
    session: "Session[Any]",
    group: str,
    members: Sequence[str],
    member: str | None,
    directory: Path | str | None,
    quorum_seconds: float,
) -> LogPlace:
    """Checks the arguments; without a directory the program is a follower, which has no vote."""
    checked_plain_group(group)
    if isinstance(members, str) or not all(isinstance(one, str) and one for one in members):
        raise WrongType("members", "not names", "give a list of the members' names")
    names = tuple(members)
    if not 0 < len(names) <= MEMBERS_MAX or len(set(names)) < len(names):
        raise WrongValue("members", f"got {len(names)}", f"give 1 to {MEMBERS_MAX} different names")
    check_seconds("quorum_seconds", quorum_seconds, forever=False)
    if session._codec is not None:
        raise WrongValue("session", "it has a codec", "connect without one: operations are bytes")
    if not session._core.membership or session._core.slow == "drop":
        remedy = 'connect with membership=True, and another policy than slow="drop"'
        raise WrongValue("session", "a log needs views, and all messages", remedy)
    if directory is None:
        if member is not None:
            raise WrongValue("directory", "missing for a member", "give the directory for its part of the log")
        return LogPlace(group, names, "", None, quorum_seconds)
    name = session.name if member is None else member
    if name not in names:
        remedy = "give one of the members, or leave out the directory to follow without a vote"
        raise WrongValue("member", f"{name!r} is none of {' '.join(names)}", remedy)
    return LogPlace(group, names, name, Path(directory), quorum_seconds)


class LogDriver:
    """One program's part in a log."""

    def __init__(
        self,
        session: "Session[Any]",
        place: LogPlace,
        machine: StateMachine | None,
        sizes: LogSizes,
        watch: Callable[[], None],
    ) -> None:
        self.session = session
        self.place = place
        self.name = place.group  # As the session knows its listeners.
        self.failed: HopError | None = None
        self.disk_failed: LogDiskFailed | None = None
        self._machine = machine
        self._sizes = sizes
        self._watch = watch  # Called when the list has changed, or whether it serves.
        self._member: LogMember | None = None
        self._disk = LogDisk(MemoryStore(), self)
        self._waiting: dict[int, asyncio.Future[LogEntry | None]] = {}
        self._outbox = SessionOutbox(session)
        self._wakers: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._me = ""

    @property
    def member(self) -> LogMember:
        """The core; there once it was started."""
        assert self._member is not None, "it is used inside of `async with`"
        return self._member

    @property
    def serving(self) -> bool:
        """Whether operations are accepted now."""
        return self.failed is None and self._member is not None and self._member.replica.serving

    # Its life.

    async def start(self) -> None:
        """Opens the disk, joins the group, and returns when a majority has the log."""
        place = self.place
        if place.directory is not None:
            of = place.directory, place.group, place.member, place.members
            store = await asyncio.get_running_loop().run_in_executor(None, SpoolStore, *of)
            self._disk = LogDisk(store, self)
        writer = kernel().random_bytes(8).hex()
        of_log = place.group, place.member, place.members, self._disk.image, writer
        try:
            self._member = log_member(*of_log, self._machine, self._sizes)
            self.session._listeners.append(self)
            self._task = asyncio.create_task(self._follow())
            await self.until(lambda: self.serving)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leaves the group, and closes the disk when it has written what it was given."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._fail(SessionClosed(f"{self.name} was left"))
        await self._disk.close()
        if self in self.session._listeners:
            self.session._listeners.remove(self)
        if self.session.ended is None and self.name in self.session.joined:
            await self.session.leave(self.name)

    def close(self) -> None:
        """The session has left the group."""
        self._fail(SessionClosed(f"{self.name} was left"))

    def _fail(self, error: HopError) -> None:
        """Ends the part of this program: what became of operations on their way is not known."""
        if self.failed is None:
            self.failed = error
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NotAccepted((self.name,), f"the log was left before ({error})"))
        self._wake()

    # Events.

    async def _follow(self) -> None:
        try:
            async with self.session.join(self.name) as group:
                self._me = self.session.private_group
                async for event in group:
                    self._put(event)
                self._fail(self.session.ended or SessionClosed(f"{self.name} was left"))
        except HopError as error:
            self._fail(error)

    def _put(self, event: Event) -> None:
        if isinstance(event, Message):
            message = decode_message(event.data)
            if message is not None:
                self._step(LogMessageShown(event.sender, message))
        elif isinstance(event, View):
            self._step(LogViewShown(event, self._me))
        elif isinstance(event, Transition):
            self._step(LogSignalShown())
        elif isinstance(event, Reconnected):
            self._me = event.private_group
            self._outbox.clear()
            self._step(LogSessionLost())

    def _step(self, event: LogInput) -> None:
        self._carry_out(self.member.step(event))
        self._wake()
        self._watch()

    def _carry_out(self, outputs: Sequence[MemberOutput]) -> None:
        for output in outputs:
            if isinstance(output, SendToGroup):
                self._outbox.append(checked_plain_group(self.name), encode_message(output.message))
            elif isinstance(output, AppliedOperation):
                self._applied(output)
            elif isinstance(output, WriteRecords):
                self._disk.write(output.records)
            elif isinstance(output, AnswerLost):
                reason = "it was applied, but this member got the state from another one: its result is lost"
                self._answer(output.number, NotAccepted((self.name,), reason))
            elif isinstance(output, LogRefused):
                self._fail(NotAMember(self.name, output.reason, output.remedy))
        self.received()

    def _applied(self, output: AppliedOperation) -> None:
        if output.writer != self.member.writer:
            return
        error = ApplyFailed(self.name, output.error) if output.error else None
        self._answer(output.number, error, output.entry)

    def _answer(self, number: int, error: HopError | None, entry: LogEntry | None = None) -> None:
        future = self._waiting.pop(number, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(entry)
        else:
            future.set_exception(error)

    def received(self) -> None:
        """Sends as much as there is room for; called when bytes have arrived."""
        try:
            self._outbox.flush()
        except HopError as error:
            self._fail(error)

    # The disk.

    def synced(self) -> None:
        """The records that were given to the disk are on it."""
        self.disk_failed = None
        self._step(RecordsSynced())

    def disk_refuses(self, reason: str) -> None:
        """The disk does not take the records now."""
        self.disk_failed = LogDiskFailed(self.name, reason)
        self._wake()

    def disk_lost(self, reason: str) -> None:
        """It is not known what the disk has."""
        self._fail(LogDiskFailed(self.name, reason))

    # Calls.

    async def submit(self, data: bytes, at: int, timeout_seconds: float | None) -> LogEntry | None:
        """Appends an operation, and returns it when this member has applied it; None if it was not its turn."""
        check_seconds("timeout_seconds", timeout_seconds)
        if not isinstance(data, bytes):
            raise WrongType("data", got(data), "give bytes")
        limit = self.session.message_bytes_max - SPARE_BYTES
        if len(data) > limit:
            raise MessageTooLarge(len(data), limit)
        member = self.member
        self._check()
        await self._until_serving()
        number, outputs = member.submit(data, at)
        done: asyncio.Future[LogEntry | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = done
        self._carry_out(outputs)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await done
        except TimeoutError:
            reason = f"it is not accepted for {timeout_seconds} s"
            raise NotAccepted((self.name,), reason) from None
        finally:
            self._waiting.pop(number, None)

    async def _until_serving(self) -> None:
        member, seconds = self.member, self.place.quorum_seconds
        if self.serving and not member.full:
            return
        try:
            async with asyncio.timeout(seconds):
                await self.until(lambda: self.serving and not member.full)
        except TimeoutError:
            if self.serving:
                raise TimedOut("append: too many operations are on their way", seconds) from None
            at = member.replica.at
            here = () if at is None else tuple([one.name for one in at.tells.values() if one.name])
            raise NoQuorum(self.name, self.place.members, here) from None

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed
        if self.disk_failed is not None:
            raise self.disk_failed

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition that events of the log change; an error if the log has ended here."""
        while not condition():
            self._check()
            waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakers.append(waker)
            await waker

    def _wake(self) -> None:
        wakers, self._wakers = self._wakers, []
        for one in wakers:
            if not one.done():
                one.set_result(None)
