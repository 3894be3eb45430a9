"""Durable blocks with both engines: a replicated log, a work queue, spools and their replay."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines.engines import SECONDS_MAX, Engine, group_of, session
from tests.support.waiting import until

from hopring import Message, ReplicatedLog, WorkQueue, sync
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

pytestmark = pytest.mark.slow

MEMBERS = ("ann", "bob", "cat")


@asynccontextmanager
async def together(*parts: Any) -> AsyncIterator[None]:
    """Begins all parts at once: each waits for a majority."""
    await asyncio.gather(*[one.__aenter__() for one in parts])
    try:
        yield
    finally:
        await asyncio.gather(*[one.__aexit__(None, None, None) for one in parts])


def test_a_log_of_named_members_is_one_list(engine: Engine, tmp_path: Path) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob, session(engine, 2) as cat:
            logs = [
                ReplicatedLog(
                    one, group_of(engine), members=MEMBERS, member=one.name, directory=tmp_path / one.name
                )
                for one in (ann, bob, cat)
            ]
            async with together(*logs):
                entries = await asyncio.gather(
                    *[
                        log.append(f"{number}".encode(), timeout_seconds=60)
                        for number, log in enumerate(logs * 5)
                    ]
                )
                assert sorted(one.index for one in entries) == list(range(15))
                while any(len(log) < 15 for log in logs):
                    await asyncio.sleep(0.01)
                assert [logs[0][at] for at in range(15)] == [logs[2][at] for at in range(15)]

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_jobs_of_a_queue_are_done_once_by_some_worker(engine: Engine, tmp_path: Path) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob, session(engine, 2) as cat:
            queues = [
                WorkQueue(
                    one, group_of(engine), members=MEMBERS, member=one.name, directory=tmp_path / one.name
                )
                for one in (ann, bob, cat)
            ]
            async with together(*queues):
                for number in range(6):
                    await queues[0].put(b"%d" % number, timeout_seconds=60)
                done: list[bytes] = []

                async def work(queue: WorkQueue) -> None:
                    while len(done) < 6:
                        job = await queue.claim()
                        done.append(job.data)
                        await job.done()

                workers = [asyncio.create_task(work(queue)) for queue in queues[1:]]
                while len(done) < 6:
                    await asyncio.sleep(0.01)
                for worker in workers:
                    worker.cancel()
                assert sorted(done) == [b"%d" % number for number in range(6)]

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


@contextmanager
def spooling(engine: Engine, directory: Path) -> Iterator[None]:
    """A spooler of the group in a thread, while the block runs."""
    options = SpoolOptions(sync_seconds=0.01)
    with sync.connect(engine.url(2), name="spool") as session:
        spooler = Spooler(session, directory, [group_of(engine)], options=options)
        thread = threading.Thread(target=spooler.run)
        thread.start()
        try:
            yield
        finally:
            spooler.stop()
            thread.join()


def test_a_spool_is_written_and_a_joiner_elsewhere_gets_the_past_and_then_the_present(
    engine: Engine, tmp_path: Path
) -> None:
    with spooling(engine, tmp_path), sync.connect(engine.url(0), name="ann") as ann:
        group = group_of(engine)
        until(lambda: len(ann.members(group).members) == 1)
        for number in range(200):
            ann.multicast(group, b"%d" % number)
        ann.multicast_wait(group, b"last", timeout_seconds=60)
        with (
            sync.connect(engine.url(1), name="bob") as bob,
            bob.join(group, since=0, timeout_seconds=SECONDS_MAX) as past,
        ):
            ann.multicast(group, b"live")
            got: list[bytes] = []
            while not got or got[-1] != b"live":
                event = past.receive(timeout_seconds=60)
                if isinstance(event, Message):
                    got.append(event.data)
            assert got == [*[b"%d" % number for number in range(200)], b"last", b"live"]
