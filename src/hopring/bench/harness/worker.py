"""One process of a bench: sends, receives, answers or asks, with the client library for asyncio.

    python -m hopring.bench.harness.worker URL JOB

It says on the board that it is ready, and waits there for go and stop. A receiver goes on until it is
ended by who started it.
"""

import asyncio
import gc
import json
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from hopring.bench.harness.shared_counters import (
    FAULT_AT,
    GO,
    MARK_BYTES,
    RECEIVER_READY,
    RESUMED_AT,
    SENDER_READY,
    SENT,
    STOP,
    VIEW_AT,
    Slots,
    Tally,
    mark,
    open_board,
    room,
)
from hopring.bench.harness.workload import Job
from hopring.client.aio import Session, connect
from hopring.client.events import Message, View
from hopring.client.runs import MessageRun
from hopring.client.sequence import EventSequence
from hopring.services import Service

LOOK_SECONDS: Final = 0.001
"""Between two looks at the board; uvloop makes nothing of less, and would look all the time."""
WARM_PROBES: Final = 100


def marks_of(batch: EventSequence) -> bytes:
    """The marks of all messages of a batch, in their order."""
    return b"".join([run_marks(run) for run in batch.runs])


def run_marks(run: MessageRun) -> bytes:
    """Those of the messages of a run."""
    offsets = run.offsets
    begin, end = offsets[0], offsets[-1]
    size_bytes, rest = divmod(end - begin, len(run))
    # Messages of a bench have one size; who sends something else is read one by one.
    even = size_bytes and not rest and not size_bytes % MARK_BYTES
    if not even or offsets.tobytes() != _even_offsets(begin, end, size_bytes):
        return b"".join([body[:MARK_BYTES] for body in run.bodies()])
    return run.whole[begin:end].cast("I")[:: size_bytes // MARK_BYTES].tobytes()


@lru_cache(maxsize=64)
def _even_offsets(begin: int, end: int, size_bytes: int) -> bytes:
    return array("i", range(begin, end + 1, size_bytes)).tobytes()


async def send(job: Job, url: str) -> None:
    """As fast as the window allows, or at a pace, until the stop."""
    board, case = open_board(Path(job.board)), job.case
    groups, service = job.groups, Service[case.service.upper()]
    rest = bytes(case.size_bytes - MARK_BYTES)
    async with connect(url, membership=False) as session:
        board[SENDER_READY + job.number] = 1
        while not board[GO]:
            await asyncio.sleep(LOOK_SECONDS)
        begin, sent = time.monotonic(), 0
        while not board[STOP]:
            allowed = min(room(board), case.at_once)
            if case.pace_per_second:
                allowed = min(allowed, int((time.monotonic() - begin) * case.pace_per_second) - sent)
            # A flood goes in whole bursts: what is left of a window would make bundles of one.
            if allowed < (case.at_once if case.in_bursts else 1):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            bodies = [mark(job.number, number) + rest for number in range(sent, sent + allowed)]
            if case.many:
                await session.multicast_many(groups[0], bodies, service=service)
            else:
                for number, data in enumerate(bodies, sent):
                    await session.multicast(groups[number % len(groups)], data, service=service)
            sent += allowed
            board[SENT + job.number] = sent
            await asyncio.sleep(0)


async def receive(job: Job, url: str) -> None:
    """Counts all that comes, in its order."""
    board = open_board(Path(job.board))
    session = await connect(url, membership=job.watch)
    for group in job.groups:
        await session.join(group)
    tally = Tally(board, job.number)
    board[RECEIVER_READY + job.number] = 1
    if job.watch:
        await _watch(session, board, tally, job.number)
    elif job.case.each:
        async for event in session:
            if isinstance(event, Message):
                tally.add(event.data[:MARK_BYTES])
    else:
        while True:
            tally.add(marks_of(await session.receive_many()))


async def _watch(session: Session, board: Slots, tally: Tally, number: int) -> None:
    """The same, and notes when the first view after the fault came, and the first message behind it."""
    while True:
        for event in await session.receive_many():
            if isinstance(event, Message):
                tally.add(event.data[:MARK_BYTES])
                if board[VIEW_AT + number] and not board[RESUMED_AT + number]:
                    board[RESUMED_AT + number] = time.monotonic_ns()
            elif isinstance(event, View) and board[FAULT_AT] and not board[VIEW_AT + number]:
                board[VIEW_AT + number] = time.monotonic_ns()


async def answer(job: Job, url: str) -> None:
    """Number 0 sends each probe back; the others are only there."""
    board, service = open_board(Path(job.board)), Service[job.case.service.upper()]
    session = await connect(url, membership=False)
    await session.join(f"{job.group}-there")
    board[RECEIVER_READY + job.number] = 1
    async for event in session:
        if isinstance(event, Message) and job.number == 0:
            await session.multicast(f"{job.group}-back", event.data, service=service)


async def ping(job: Job, url: str) -> None:
    """One probe at a time; prints how long each took, in microseconds."""
    service = Service[job.case.service.upper()]
    there = f"{job.group}-back" if job.to_itself else f"{job.group}-there"
    data, taken_us = bytes(job.case.size_bytes), []
    async with connect(url, membership=False) as session:
        await session.join(f"{job.group}-back")
        for number in range(WARM_PROBES + job.probes):
            begin = time.perf_counter_ns()
            await session.multicast(there, data, service=service)
            while not isinstance(await session.receive(), Message):
                pass
            if number >= WARM_PROBES:
                taken_us.append((time.perf_counter_ns() - begin) / 1000)
            if job.pause_us:
                await asyncio.sleep(job.pause_us / 1_000_000)
    print(json.dumps(taken_us), flush=True)


ROLES: Final[dict[str, Callable[[Job, str], Awaitable[None]]]] = {
    "send": send,
    "receive": receive,
    "answer": answer,
    "ping": ping,
}


async def _run(job: Job, url: str) -> None:
    await ROLES[job.role](job, url)


def event_loop() -> Callable[[Coroutine[object, object, None]], None]:
    """What runs the client: uvloop if it is installed, as many applications do."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run
    run: Callable[[Coroutine[object, object, None]], None] = uvloop.run
    return run


def main() -> None:
    """Does the job."""
    url, text = sys.argv[1:]
    job = msgspec.json.decode(text, type=Job)
    gc.freeze()  # What was imported stays; no collection has to look at it again.
    event_loop()(_run(job, url))


if __name__ == "__main__":
    main()
