"""Redis streams: XADD in pipelines, XREAD of many; one server in memory, redis-py with hiredis."""

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from hopring.bench.harness.shared_counters import MARK_BYTES, Tally
from hopring.bench.harness.workload import Job
from hopring.bench.peers.peer import Peer, board_of, flood, probe, ready

KEPT = 100_000
"""Messages that a stream keeps, about."""

READ_MAX = 1000


class RedisStreams(Peer):
    """One stream for each group."""

    name = "redis-streams"
    programs: ClassVar = {"redis-server": "redis-server"}
    modules = ("redis", "hiredis")
    promise = "one order, in one server's memory"

    def start(self) -> None:
        """Without a disk."""
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port)]
        self.serve("server", [*command, "--save", "", "--appendonly", "no"], self.port)

    def _client(self) -> Any:
        import redis  # noqa: PLC0415

        return redis.Redis("127.0.0.1", self.port)

    def _read(self, stream: str) -> Iterator[list[bytes]]:
        """All messages from the first on, as they come."""
        client, last = self._client(), b"0"
        while True:
            for _, entries in client.xread({stream: last}, count=READ_MAX, block=0):
                last = entries[-1][0]
                yield [fields[b"d"] for _, fields in entries]

    def send(self, job: Job) -> None:
        """A pipeline for each burst."""
        pipe = self._client().pipeline(transaction=False)
        flood(job, lambda body: pipe.xadd(job.group, {"d": body}, maxlen=KEPT, approximate=True), pipe.execute)

    def receive(self, job: Job) -> None:
        """Counts."""
        tally = Tally(board_of(job), job.number)
        ready(job)
        for messages in self._read(job.group):
            tally.add(b"".join([body[:MARK_BYTES] for body in messages]))

    def answer(self, job: Job) -> None:
        """Sends back."""
        client = self._client()
        ready(job)
        for messages in self._read(f"{job.group}-there"):
            for body in messages if job.number == 0 else ():
                client.xadd(f"{job.group}-back", {"d": body})

    def ping(self, job: Job) -> None:
        """Probes."""
        client, back = self._client(), self._read(f"{job.group}-back")
        time.sleep(0.1)

        def trip(body: bytes) -> None:
            client.xadd(f"{job.group}-there", {"d": body})
            next(back)

        probe(job, trip)
