"""A durable queue of jobs for asyncio: producers put, workers claim, and each job is done at least once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from hopring.blocks.log.driver import QUORUM_SECONDS, LogDriver, log_place
from hopring.blocks.log.errors import NoQuorum
from hopring.blocks.log.member import COMPACT_ENTRIES, LogSizes
from hopring.blocks.work_queue.claim_clock import ClaimClock
from hopring.blocks.work_queue.errors import ClaimLost, QueueFull
from hopring.blocks.work_queue.job_table import ClaimResult, JobTable
from hopring.blocks.work_queue.operations import (
    ClaimJob,
    DiscardJob,
    ExtendClaim,
    FinishJob,
    JobOperation,
    PutJob,
    ReturnJob,
    ReviveJob,
    encode_job_operation,
)
from hopring.client.arguments import check_number, check_seconds
from hopring.client.errors import TimedOut
from hopring.client.sockets import now_us
from hopring.errors import HopError
from hopring.ids import NEVER

if TYPE_CHECKING:
    from hopring.client.aio import Session

DELIVERIES_MAX: Final = 5
VISIBILITY_SECONDS: Final = 30.0
KEPT: Final = 1000
"""Operations that stay in the list of the log; the queue does not read them."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that was delivered as often as it may be, and not done."""

    id: int
    data: bytes
    deliveries: int


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many jobs a queue has, as this program knows it."""

    waiting: int
    claimed: int
    dead: int
    finished: int


class Job:
    """A job that a worker has claimed: `done` before its time is over, or it is given to another worker."""

    def __init__(self, queue: "WorkQueue", claimed: ClaimResult) -> None:
        self.id = claimed.job
        self.data = claimed.data
        self.deliveries = claimed.deliveries  # This one included: above 1 the work may have been done before.
        self._queue = queue
        self._claim = claimed.claim

    async def done(self) -> None:
        """Removes the job; returns when that is durable. ClaimLost: the time was over before."""
        await self._queue._with_claim(FinishJob(self.id, self._claim))

    async def give_back(self) -> None:
        """Lets another worker have it, or makes it a dead letter if it was delivered often enough."""
        await self._queue._with_claim(ReturnJob(self.id, self._claim))

    async def extend(self) -> None:
        """Begins the time of the claim anew."""
        await self._queue._with_claim(ExtendClaim(self.id, self._claim))


class WorkQueue:
    """A queue: `async with WorkQueue(session, "jobs", members=["a", "b", "c"], directory=...) as queue`.

    It is on a `ReplicatedLog`, with the same `members` and directories; a producer or worker without a
    directory follows. Jobs wait on the disks of the members, also while nobody works.
    """

    def __init__(
        self,
        session: "Session[Any]",
        group: str,
        *,
        members: Sequence[str],
        member: str | None = None,
        directory: Path | str | None = None,
        quorum_seconds: float = QUORUM_SECONDS,
    ) -> None:
        """A part in the queue; `member` is the session's name unless given."""
        place = log_place(session, group, members, member, directory, quorum_seconds)
        self._group = group
        self._worker = session.name
        self._table = JobTable()
        self._clock = ClaimClock()
        sizes = LogSizes(compact_entries=COMPACT_ENTRIES, keep=KEPT)
        self._driver = LogDriver(session, place, self._table, sizes, self._look_at_claims)
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    # Producers.

    async def put(
        self, data: bytes, *, deliveries_max: int = DELIVERIES_MAX, timeout_seconds: float | None = None
    ) -> int:
        """Puts a job; returns its number when it is durable. QueueFull, NoQuorum: it was not put."""
        check_number("deliveries_max", deliveries_max, 1)
        number = await self._run(PutJob(bytes(data), deliveries_max), timeout_seconds)
        if number == 0:
            jobs = len(self._table.waiting) + len(self._table.claimed) + len(self._table.dead)
            raise QueueFull(self._group, jobs, self._table.size_bytes)
        assert isinstance(number, int), "the number of the job"
        return number

    # Workers.

    async def claim(
        self, *, visibility_seconds: float = VISIBILITY_SECONDS, timeout_seconds: float | None = None
    ) -> Job:
        """Waits for a job, and claims it for this time; after that another worker gets it."""
        check_seconds("visibility_seconds", visibility_seconds, forever=False, above_zero=True)
        check_seconds("timeout_seconds", timeout_seconds)
        wanted = ClaimJob(self._worker, int(visibility_seconds * 1_000_000))
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    await self._driver.until(lambda: bool(self._table.waiting) and self._driver.serving)
                    claimed = await self._try(wanted)
                    if claimed is not None:
                        return Job(self, claimed)
        except TimeoutError:
            raise TimedOut("claim: no job was waiting", timeout_seconds or 0.0) from None

    async def _try(self, wanted: ClaimJob) -> ClaimResult | None:
        try:
            claimed = await self._run(wanted, None)
        except NoQuorum:
            return None  # It waits until there is a majority again.
        assert claimed is None or isinstance(claimed, ClaimResult), "the result of a claim"
        return claimed

    async def jobs(self, *, visibility_seconds: float = VISIBILITY_SECONDS) -> AsyncIterator[Job]:
        """Claims one job after the other, for ever; call `done` for each."""
        while True:
            yield await self.claim(visibility_seconds=visibility_seconds)

    async def _with_claim(self, operation: FinishJob | ReturnJob | ExtendClaim) -> None:
        if not await self._run(operation, None):
            raise ClaimLost(self._group, operation.job)

    # Everybody.

    @property
    def counts(self) -> QueueCounts:
        """The numbers of jobs, as this program knows them."""
        table = self._table
        return QueueCounts(len(table.waiting), len(table.claimed), len(table.dead), table.finished)

    @property
    def serving(self) -> bool:
        """Whether a majority of the members is here with the log."""
        return self._driver.serving

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Jobs that were delivered as often as they may be."""
        return tuple([DeadLetter(one.job, one.data, one.deliveries) for one in self._table.dead.values()])

    async def revive(self, job: int) -> bool:
        """Lets a dead letter wait again, as if it was new; False if there is none of this number."""
        return bool(await self._run(ReviveJob(job), None))

    async def discard(self, job: int) -> bool:
        """Removes a dead letter; False if there is none of this number."""
        return bool(await self._run(DiscardJob(job), None))

    async def _run(self, operation: JobOperation, timeout_seconds: float | None) -> object:
        entry = await self._driver.submit(encode_job_operation(operation), -1, timeout_seconds)
        assert entry is not None, "it has no condition"
        return entry.result

    # Claims that last too long, if this member's clock counts.

    def _look_at_claims(self) -> None:
        if self._driver.failed is not None:
            return
        keeps_time = self._driver.member.replica.keeps_time
        for over in self._clock.due(self._table.claimed, keeps_time, now_us()):
            task = asyncio.get_running_loop().create_task(self._end_claim(over))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._clock.wake_at_us != NEVER:
            seconds = max(0, self._clock.wake_at_us - now_us()) / 1_000_000
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look_at_claims)

    async def _end_claim(self, over: ReturnJob) -> None:
        try:
            await self._run(over, None)
        except HopError:
            return  # The clock of another member counts then, or this one tries again.

    async def __aenter__(self) -> "WorkQueue":
        """Returns when this program has the queue, which needs a majority; the first time, all members."""
        await self._driver.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._driver.stop()
