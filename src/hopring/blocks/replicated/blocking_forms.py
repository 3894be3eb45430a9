"""The replicated map, list and queue without an event loop: `hopring.sync.ReplicatedDict` and so on."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from hopring.blocks.log import replicated_log
from hopring.blocks.log.book import LogEntry, StateMachine
from hopring.blocks.log.driver import QUORUM_SECONDS
from hopring.blocks.log.member import COMPACT_ENTRIES, KEEP_DEFAULT
from hopring.blocks.replicated import replicated_dict
from hopring.blocks.replicated.in_thread import BlockInThread
from hopring.blocks.replicated.replicated_dict import MapChange
from hopring.blocks.work_queue import job_queue
from hopring.blocks.work_queue.job_queue import (
    DELIVERIES_MAX,
    VISIBILITY_SECONDS,
    DeadLetter,
    QueueCounts,
)
from hopring.client.arguments import ConnectOptions


class ReplicatedDict(BlockInThread[replicated_dict.ReplicatedDict], Mapping[str, object]):
    """A map of the members of a group: `with sync.ReplicatedDict(url, "prices", name="anna") as prices`.

    It has a session of its own, with the options of `connect`, in a thread of the library. Reading needs no
    message, and may be behind other members; changes return when this member has applied them.
    """

    def __init__(self, url: str, group: str, **options: Unpack[ConnectOptions]) -> None:
        super().__init__(url, options, lambda session: replicated_dict.ReplicatedDict(session, group))

    def __getitem__(self, key: str) -> object:
        return self._inner[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._call(list))

    def __len__(self) -> int:
        return len(self._inner)

    def put(self, key: str, value: object) -> None:
        """Sets an entry, whatever it was."""
        self._run(self._inner.put(key, value))

    def delete(self, key: str) -> None:
        """Deletes an entry, if there is one."""
        self._run(self._inner.delete(key))

    def compare_and_set(self, key: str, expected: object, value: object) -> bool:
        """Sets an entry if it has the expected value at the place of the change; returns whether."""
        return self._run(self._inner.compare_and_set(key, expected, value))

    def put_if_missing(self, key: str, value: object) -> bool:
        """Sets an entry if there is none of this key; returns whether."""
        return self._run(self._inner.put_if_missing(key, value))

    def watch(self) -> Iterator[MapChange]:
        """The changes from the first step on, in their order; each step waits for the next one."""
        return self._each(lambda inner: inner.watch())


class ReplicatedLog(BlockInThread[replicated_log.ReplicatedLog]):
    """A durable list of operations: `with sync.ReplicatedLog(url, "orders", members=[...], name=...) as log`.

    It has a session of its own, with the options of `connect`, in a thread of the library: a member votes, and
    its `machine` is called there, while the program does something else.
    """

    def __init__(
        self,
        url: str,
        group: str,
        *,
        members: Sequence[str],
        member: str | None = None,
        directory: Path | str | None = None,
        machine: StateMachine | None = None,
        keep: int = KEEP_DEFAULT,
        snapshot_every: int = COMPACT_ENTRIES,
        quorum_seconds: float = QUORUM_SECONDS,
        **options: Unpack[ConnectOptions],
    ) -> None:
        super().__init__(
            url,
            options,
            lambda session: replicated_log.ReplicatedLog(
                session,
                group,
                members=members,
                member=member,
                directory=directory,
                machine=machine,
                keep=keep,
                snapshot_every=snapshot_every,
                quorum_seconds=quorum_seconds,
            ),
        )

    @property
    def first(self) -> int:
        """The index of the oldest operation that is kept."""
        return self._inner.first

    @property
    def serving(self) -> bool:
        """Whether a majority of the members is here with the log, so that operations are accepted."""
        return self._inner.serving

    def __len__(self) -> int:
        return len(self._inner)

    def __getitem__(self, index: int) -> bytes:
        return self._call(lambda inner: inner[index])

    def __iter__(self) -> Iterator[bytes]:
        """The operations that are kept, the oldest first."""
        return iter(self._call(tuple))

    def append(self, data: bytes, *, timeout_seconds: float | None = None) -> LogEntry:
        """Appends an operation; returns it, with its index and the machine's result, when it is durable."""
        return self._run(self._inner.append(data, timeout_seconds=timeout_seconds))

    def append_at(self, index: int, data: bytes, *, timeout_seconds: float | None = None) -> LogEntry | None:
        """Appends an operation if it gets this index, and so if nobody appended another; None otherwise."""
        return self._run(self._inner.append_at(index, data, timeout_seconds=timeout_seconds))

    def watch(self, since: int | None = None) -> Iterator[LogEntry]:
        """The operations from an index on, or from here on; each step waits for the next one."""
        return self._each(lambda inner: inner.watch(since))


class BlockingJob:
    """A job that a worker has claimed: `done` before its time is over, or it is given to another worker."""

    def __init__(self, queue: "WorkQueue", job: job_queue.Job) -> None:
        self.id = job.id
        self.data = job.data
        self.deliveries = job.deliveries  # This one included: above 1 the work may have been done before.
        self._queue = queue
        self._job = job

    def done(self) -> None:
        """Removes the job; returns when that is durable. ClaimLost: the time was over before."""
        self._queue._run(self._job.done())

    def give_back(self) -> None:
        """Lets another worker have it, or makes it a dead letter if it was delivered often enough."""
        self._queue._run(self._job.give_back())

    def extend(self) -> None:
        """Begins the time of the claim anew."""
        self._queue._run(self._job.extend())


class WorkQueue(BlockInThread[job_queue.WorkQueue]):
    """A durable queue of jobs: `with sync.WorkQueue(url, "jobs", members=[...], name=...) as queue`.

    It has a session of its own, with the options of `connect`, in a thread of the library.
    """

    def __init__(
        self,
        url: str,
        group: str,
        *,
        members: Sequence[str],
        member: str | None = None,
        directory: Path | str | None = None,
        quorum_seconds: float = QUORUM_SECONDS,
        **options: Unpack[ConnectOptions],
    ) -> None:
        super().__init__(
            url,
            options,
            lambda session: job_queue.WorkQueue(
                session,
                group,
                members=members,
                member=member,
                directory=directory,
                quorum_seconds=quorum_seconds,
            ),
        )

    def put(
        self, data: bytes, *, deliveries_max: int = DELIVERIES_MAX, timeout_seconds: float | None = None
    ) -> int:
        """Puts a job; returns its number when it is durable. QueueFull, NoQuorum: it was not put."""
        putting = self._inner.put(data, deliveries_max=deliveries_max, timeout_seconds=timeout_seconds)
        return self._run(putting)

    def claim(
        self, *, visibility_seconds: float = VISIBILITY_SECONDS, timeout_seconds: float | None = None
    ) -> BlockingJob:
        """Waits for a job, and claims it for this time; after that another worker gets it."""
        inner = self._inner
        claiming = inner.claim(visibility_seconds=visibility_seconds, timeout_seconds=timeout_seconds)
        return BlockingJob(self, self._run(claiming))

    def jobs(self, *, visibility_seconds: float = VISIBILITY_SECONDS) -> Iterator[BlockingJob]:
        """Claims one job after the other, for ever; call `done` for each."""
        while True:
            yield self.claim(visibility_seconds=visibility_seconds)

    @property
    def counts(self) -> QueueCounts:
        """The numbers of jobs, as this program knows them."""
        return self._call(lambda inner: inner.counts)

    @property
    def serving(self) -> bool:
        """Whether a majority of the members is here with the log."""
        return self._inner.serving

    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Jobs that were delivered as often as they may be."""
        return self._call(lambda inner: inner.dead_letters())

    def revive(self, job: int) -> bool:
        """Lets a dead letter wait again, as if it was new; False if there is none of this number."""
        return self._run(self._inner.revive(job))

    def discard(self, job: int) -> bool:
        """Removes a dead letter; False if there is none of this number."""
        return self._run(self._inner.discard(job))
