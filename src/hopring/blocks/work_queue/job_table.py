"""The jobs of a work queue: the machine behind its log.

Invariants  a job waits, is claimed or is a dead letter. It has at most one claim at each place of the log;
            only the claim that it has can finish it, extend itself or give it back. Time is not known here:
            the end of a claim is an operation like others, so all members see it at one place.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from hopring.blocks.work_queue.operations import (
    ClaimJob,
    DiscardJob,
    ExtendClaim,
    FinishJob,
    PutJob,
    ReturnJob,
    ReviveJob,
    decode_job_operation,
)

JOBS_MAX: Final = 100_000
"""Jobs of a queue, dead letters included; above it nothing can be put."""

QUEUE_BYTES_MAX: Final = 256 * 1024 * 1024
"""The data of all jobs together."""


class QueuedJob(msgspec.Struct, array_like=True):
    """A job as the table has it."""

    job: int
    data: bytes
    deliveries_max: int
    deliveries: int = 0
    claim: int = 0  # The number of its claim; 0: it has none.
    worker: str = ""
    visibility_us: int = 0
    extended: int = 0  # How often the claim was extended.


class JobTableState(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot of the table."""

    jobs: int
    claims: int
    finished: int
    waiting: tuple[QueuedJob, ...]
    claimed: tuple[QueuedJob, ...]
    dead: tuple[QueuedJob, ...]


_states: Final = msgspec.msgpack.Decoder(JobTableState)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A job that was claimed."""

    job: int
    claim: int
    data: bytes
    deliveries: int  # This one included.


class JobTable:
    """All jobs of a queue."""

    def __init__(self) -> None:
        self.jobs = 0  # The number of the last job.
        self.claims = 0
        self.finished = 0
        self.waiting: dict[int, QueuedJob] = {}  # In their order.
        self.claimed: dict[int, QueuedJob] = {}
        self.dead: dict[int, QueuedJob] = {}
        self.size_bytes = 0

    def apply(self, data: bytes) -> object:
        """Applies an operation: a number, a ClaimResult, whether it was done, or None."""
        operation = decode_job_operation(data)
        match operation:
            case PutJob():
                return self._put(operation)
            case ClaimJob():
                return self._claim(operation)
            case FinishJob(job, claim):
                return self._finish(job, claim)
            case ReturnJob(job, claim):
                return self._return(job, claim)
            case ExtendClaim(job, claim):
                return self._extend(job, claim)
            case ReviveJob(job):
                return self._revive(job)
            case DiscardJob(job):
                return self._discard(job)
        return None

    def _put(self, operation: PutJob) -> int:
        """The number of the job; 0 if the queue is full."""
        count = len(self.waiting) + len(self.claimed) + len(self.dead)
        if count >= JOBS_MAX or self.size_bytes + len(operation.data) > QUEUE_BYTES_MAX:
            return 0
        self.jobs += 1
        self.waiting[self.jobs] = QueuedJob(self.jobs, operation.data, max(1, operation.deliveries_max))
        self.size_bytes += len(operation.data)
        return self.jobs

    def _claim(self, operation: ClaimJob) -> ClaimResult | None:
        if not self.waiting:
            return None
        one = self.waiting.pop(next(iter(self.waiting)))
        self.claims += 1
        one.claim, one.worker, one.visibility_us = self.claims, operation.worker, operation.visibility_us
        one.extended = 0
        one.deliveries += 1
        self.claimed[one.job] = one
        return ClaimResult(one.job, one.claim, one.data, one.deliveries)

    def _held(self, job: int, claim: int) -> QueuedJob | None:
        one = self.claimed.get(job)
        return one if one is not None and one.claim == claim else None

    def _finish(self, job: int, claim: int) -> bool:
        one = self._held(job, claim)
        if one is None:
            return False
        del self.claimed[job]
        self.size_bytes -= len(one.data)
        self.finished += 1
        return True

    def _return(self, job: int, claim: int) -> bool:
        one = self._held(job, claim)
        if one is None:
            return False
        del self.claimed[job]
        one.claim, one.worker = 0, ""
        place = self.dead if one.deliveries >= one.deliveries_max else self.waiting
        place[job] = one
        return True

    def _extend(self, job: int, claim: int) -> bool:
        one = self._held(job, claim)
        if one is None:
            return False
        one.extended += 1
        return True

    def _revive(self, job: int) -> bool:
        one = self.dead.pop(job, None)
        if one is None:
            return False
        one.deliveries = 0
        self.waiting[job] = one
        return True

    def _discard(self, job: int) -> bool:
        one = self.dead.pop(job, None)
        if one is None:
            return False
        self.size_bytes -= len(one.data)
        return True

    def snapshot(self) -> bytes:
        """All jobs as the bytes of a snapshot."""
        counted = self.jobs, self.claims, self.finished
        listed = [tuple(some.values()) for some in (self.waiting, self.claimed, self.dead)]
        return msgspec.msgpack.encode(JobTableState(*counted, *listed))

    def restore(self, state: bytes) -> None:
        """Replaces all jobs by those of a snapshot."""
        found = _states.decode(state)
        self.jobs, self.claims, self.finished = found.jobs, found.claims, found.finished
        self.waiting = {one.job: one for one in found.waiting}
        self.claimed = {one.job: one for one in found.claimed}
        self.dead = {one.job: one for one in found.dead}
        everything = (*found.waiting, *found.claimed, *found.dead)
        self.size_bytes = sum([len(one.data) for one in everything])
