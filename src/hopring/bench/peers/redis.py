"""Redis streams: XADD in pipelines, XREAD of many; one server in memory, redis-py with hiredis."""

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from hopring.bench.harness.workload import TAG_BYTES, ReceiverCounters, WorkerTask
from hopring.bench.peers.peer import PeerSystem, counters_of, flood, probe, ready

KEPT = 100_000
"""Messages that a stream keeps, about."""

READ_MAX = 1000


class RedisStreams(PeerSystem):
    """One stream for each group."""

    name = "redis-streams"
    programs: ClassVar = {"redis-server": "redis-server"}
    modules = ("redis", "hiredis")
    promise = "one order, in one server's memory"

    def start(self) -> None:
        """Starts a server without persistence."""
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port)]
        self.serve("server", [*command, "--save", "", "--appendonly", "no"], self.port)

    def _client(self) -> Any:
        import redis  # noqa: PLC0415

        return redis.Redis("127.0.0.1", self.port)

    def _read(self, stream: str) -> Iterator[list[bytes]]:
        """All messages from the first one on, in batches."""
        client, last = self._client(), b"0"
        while True:
            for _, entries in client.xread({stream: last}, count=READ_MAX, block=0):
                last = entries[-1][0]
                yield [fields[b"d"] for _, fields in entries]

    def send(self, task: WorkerTask) -> None:
        pipe = self._client().pipeline(transaction=False)
        flood(
            task, lambda body: pipe.xadd(task.group, {"d": body}, maxlen=KEPT, approximate=True), pipe.execute
        )

    def receive(self, task: WorkerTask) -> None:
        received = ReceiverCounters(counters_of(task), task.number)
        ready(task)
        for messages in self._read(task.group):
            received.add(b"".join([body[:TAG_BYTES] for body in messages]))

    def answer(self, task: WorkerTask) -> None:
        client = self._client()
        ready(task)
        for messages in self._read(f"{task.group}-there"):
            for body in messages if task.number == 0 else ():
                client.xadd(f"{task.group}-back", {"d": body})

    def ping(self, task: WorkerTask) -> None:
        client, back = self._client(), self._read(f"{task.group}-back")
        time.sleep(0.1)

        def trip(body: bytes) -> None:
            client.xadd(f"{task.group}-there", {"d": body})
            next(back)

        probe(task, trip)
