"""NATS, and JetStream with file storage: one server, nats-py under uvloop, subscriptions with callbacks."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar

from hopring.bench.harness.workload import TAG_BYTES, ReceiverCounters, WorkerTask
from hopring.bench.peers.peer import PeerSystem, counters_of, flood_async, probe_async, ready

PENDING_MAX = 4000
"""Of JetStream's publishes that are not acknowledged."""

Heard = Callable[[Any], Awaitable[None]]


class Nats(PeerSystem):
    """Core NATS: at most once, no order among senders."""

    name = "nats"
    programs: ClassVar = {"nats-server": "nats-server"}
    modules = ("nats", "uvloop")
    promise = "at most once; one server"
    options: ClassVar[list[str]] = []

    def start(self) -> None:
        """Starts one server on loopback."""
        self.serve("server", ["nats-server", "-a", "127.0.0.1", "-p", str(self.port), *self.options], self.port)

    async def connect(self) -> Any:
        """A connection to the server."""
        import nats  # noqa: PLC0415

        return await nats.connect(f"nats://127.0.0.1:{self.port}")

    async def subscribe(self, connection: Any, subject: str, heard: Heard) -> None:
        """Subscribes; it is in force when this returns."""
        await connection.subscribe(subject, cb=heard)
        await connection.flush()

    def put(self, connection: Any, subject: str) -> Callable[[bytes], Awaitable[object]]:
        """The function that sends a message."""
        return lambda body: connection.publish(subject, body)

    def send(self, task: WorkerTask) -> None:
        async def run() -> None:
            connection = await self.connect()
            await flood_async(task, self.put(connection, subject(task)))
            await connection.drain()

        _run(run())

    def receive(self, task: WorkerTask) -> None:
        async def run() -> None:
            received, connection = ReceiverCounters(counters_of(task), task.number), await self.connect()

            async def heard(message: Any) -> None:
                received.add(message.data[:TAG_BYTES])

            await self.subscribe(connection, subject(task), heard)
            ready(task)
            await asyncio.Event().wait()

        _run(run())

    def answer(self, task: WorkerTask) -> None:
        async def run() -> None:
            connection = await self.connect()
            put = self.put(connection, subject(task, "back"))

            async def heard(message: Any) -> None:
                if task.number == 0:
                    await put(message.data)

            await self.subscribe(connection, subject(task, "there"), heard)
            ready(task)
            await asyncio.Event().wait()

        _run(run())

    def ping(self, task: WorkerTask) -> None:
        async def run() -> None:
            connection, back = await self.connect(), asyncio.Queue[bytes]()
            put = self.put(connection, subject(task, "there"))

            async def heard(message: Any) -> None:
                back.put_nowait(message.data)

            await self.subscribe(connection, subject(task, "back"), heard)

            async def trip(body: bytes) -> None:
                await put(body)
                await back.get()

            await probe_async(task, trip)

        _run(run())


class JetStream(Nats):
    """A stream in files, with consumers that see it in order."""

    name = "jetstream"
    promise = "one order, on one disk"
    options: ClassVar = ["-js", "-sd", "store"]

    def start(self) -> None:
        """Starts the server and creates the stream."""
        super().start()

        async def make() -> None:
            connection = await self.connect()
            await connection.jetstream().add_stream(name="bench", subjects=["peers.>"], storage="file")
            await connection.close()

        asyncio.run(make())

    async def subscribe(self, connection: Any, subject: str, heard: Heard) -> None:
        """Adds a consumer of everything from now on."""
        await connection.jetstream().subscribe(subject, ordered_consumer=True, cb=heard)
        await connection.flush()

    def put(self, connection: Any, subject: str) -> Callable[[bytes], Awaitable[object]]:
        """The function that publishes, with many publishes not acknowledged yet."""
        stream = connection.jetstream(publish_async_max_pending=PENDING_MAX)
        return lambda body: stream.publish_async(subject, body)


def subject(task: WorkerTask, part: str = "0") -> str:
    """The subject of a task's messages."""
    return f"peers.{task.group}.{part}"


def _run(story: Coroutine[Any, Any, None]) -> None:
    import uvloop  # noqa: PLC0415

    uvloop.run(story)
