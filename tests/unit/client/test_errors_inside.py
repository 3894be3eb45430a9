"""An application's own error inside `with` is the one that the program ends with, even with other readers."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.client.fake_server import FakeServer

from hopring import Event, Group, Session, SessionClosed, connect, sync


class Mine(Exception):
    """The error of the application."""


@asynccontextmanager
async def slow_exit() -> AsyncIterator[None]:
    """A context between the session and the task group that takes a few turns of the loop to exit."""
    try:
        yield
    finally:
        for _ in range(10):
            await asyncio.sleep(0)


async def read(stream: Session | Group) -> None:
    async for _ in stream:
        pass


async def read_by_calls(stream: Session | Group) -> None:
    while True:
        await stream.receive()


async def read_batches(stream: Session | Group) -> None:
    while True:
        await stream.receive_many()


def test_loops_of_other_tasks_end_with_a_block_that_fails(server: FakeServer) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(60),
            asyncio.TaskGroup() as tasks,
            slow_exit(),
            connect(server.url) as anna,
            anna.join("g") as group,
        ):
            for stream in (anna, group):
                tasks.create_task(read(stream))
            await asyncio.sleep(0)
            raise Mine

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(story())
    assert [type(one) for one in caught.value.exceptions] == [Mine]


def test_a_task_that_nobody_awaits_says_nothing(server: FakeServer) -> None:
    complaints: list[object] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        reading: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(60), connect(server.url) as anna, anna.join("g") as group:
                reading.append(asyncio.create_task(read(group)))
                await asyncio.sleep(0)
                raise Mine
        finally:
            await asyncio.wait(reading)

    with pytest.raises(Mine):
        asyncio.run(story())
    gc.collect()
    assert complaints == []


@pytest.mark.parametrize("reader", [read_by_calls, read_batches])
def test_calls_of_other_tasks_name_the_error_as_the_cause(
    server: FakeServer, reader: Callable[[Session], Coroutine[None, None, None]]
) -> None:
    reading: list[asyncio.Task[None]] = []

    async def fail() -> None:
        async with asyncio.timeout(60), connect(server.url) as anna:
            reading.append(asyncio.create_task(reader(anna)))
            await asyncio.sleep(0)
            raise Mine

    async def story() -> BaseException | None:
        with pytest.raises(Mine):
            await fail()
        await asyncio.wait(reading)
        return reading[0].exception()

    error = asyncio.run(story())
    assert isinstance(error, SessionClosed)
    assert isinstance(error.__cause__, Mine)


def test_an_error_in_the_block_of_a_join_is_the_one_that_comes_out(server: FakeServer) -> None:
    async def fail(anna: Session) -> None:
        async with anna.join("g"):
            anna.abort()
            raise Mine

    async def story() -> None:
        async with asyncio.timeout(60), connect(server.url) as anna:
            reading = asyncio.create_task(read_by_calls(anna))
            with pytest.raises(Mine):
                await fail(anna)
            await asyncio.wait([reading])
            assert isinstance(reading.exception(), SessionClosed)

    asyncio.run(story())


def test_the_blocking_session_does_the_same(server: FakeServer) -> None:
    sessions: list[sync.Session] = []
    streams: list[Iterator[Event]] = []

    def fail() -> None:
        with sync.connect(server.url) as anna, anna.join("g") as group:
            sessions.append(anna)
            streams.extend([iter(group), iter(anna)])
            raise Mine

    with pytest.raises(Mine):
        fail()
    assert [type(one).__name__ for stream in streams for one in stream] == ["View"]
    with pytest.raises(SessionClosed) as caught:
        sessions[0].receive()
    assert isinstance(caught.value.__cause__, Mine)
