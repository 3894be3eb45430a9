"""One client process of a bench: sends, receives, answers or pings, with the asyncio library.

    python -m hopring.bench.harness.worker URL TASK

It reports its readiness in the shared counters and waits there for go and stop. Receivers run until they are
terminated.
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

from hopring.bench.harness.workload import (
    FAULT_AT,
    GO,
    RECEIVER_READY,
    RESUMED_AT,
    SENDER_READY,
    SENT,
    STOP,
    TAG_BYTES,
    VIEW_AT,
    Counters,
    ReceiverCounters,
    WorkerTask,
    message_tag,
    open_counters,
    window_left,
)
from hopring.client.aio import Session, connect
from hopring.client.events import Message, View
from hopring.client.receiving.runs import MessageRun
from hopring.client.receiving.sequence import EventSequence
from hopring.services import Service

LOOK_SECONDS: Final = 0.001
"""The pause between two reads of the counters; uvloop rounds shorter ones down to zero and would spin."""
WARM_PROBES: Final = 100


def batch_tags(batch: EventSequence) -> bytes:
    """The tags of all messages of a batch, in order."""
    return b"".join([run_tags(run) for run in batch.runs])


def run_tags(run: MessageRun) -> bytes:
    """The tags of the messages of a run."""
    offsets = run.offsets
    begin, end = offsets[0], offsets[-1]
    size_bytes, rest = divmod(end - begin, len(run))
    # Messages of a bench have one size; any others are read one by one.
    even = size_bytes and not rest and not size_bytes % TAG_BYTES
    if not even or offsets.tobytes() != _even_offsets(begin, end, size_bytes):
        return b"".join([body[:TAG_BYTES] for body in run.bodies()])
    return run.whole[begin:end].cast("I")[:: size_bytes // TAG_BYTES].tobytes()


@lru_cache(maxsize=64)
def _even_offsets(begin: int, end: int, size_bytes: int) -> bytes:
    return array("i", range(begin, end + 1, size_bytes)).tobytes()


async def send(task: WorkerTask, url: str) -> None:
    """Sends as fast as the window allows, or at a given pace, until stopped."""
    counters, workload = open_counters(Path(task.counters)), task.workload
    groups, service = task.groups, Service[workload.service.upper()]
    rest = bytes(workload.size_bytes - TAG_BYTES)
    async with connect(url, membership=False, ca=task.ca or None) as session:
        counters[SENDER_READY + task.number] = 1
        while not counters[GO]:
            await asyncio.sleep(LOOK_SECONDS)
        begin, sent = time.monotonic(), 0
        while not counters[STOP]:
            allowed = min(window_left(counters), workload.at_once)
            if workload.pace_per_second:
                allowed = min(allowed, int((time.monotonic() - begin) * workload.pace_per_second) - sent)
            # A flood goes in whole bursts: the rest of a window would make bundles of one.
            if allowed < (workload.at_once if workload.in_bursts else 1):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            bodies = [message_tag(task.number, number) + rest for number in range(sent, sent + allowed)]
            if workload.many:
                await session.multicast_many(groups[0], bodies, service=service)
            else:
                for number, data in enumerate(bodies, sent):
                    await session.multicast(groups[number % len(groups)], data, service=service)
            sent += allowed
            counters[SENT + task.number] = sent
            await asyncio.sleep(0)


async def receive(task: WorkerTask, url: str) -> None:
    """Counts all messages in their order."""
    counters = open_counters(Path(task.counters))
    session = await connect(url, membership=task.watch_views, ca=task.ca or None)
    for group in task.groups:
        await session.join(group)
    received = ReceiverCounters(counters, task.number)
    counters[RECEIVER_READY + task.number] = 1
    if task.watch_views:
        await _watch(session, counters, received, task.number)
    elif task.workload.each:
        async for event in session:
            if isinstance(event, Message):
                received.add(event.data[:TAG_BYTES])
    else:
        while True:
            received.add(batch_tags(await session.receive_many()))


async def _watch(session: Session, counters: Counters, received: ReceiverCounters, number: int) -> None:
    """Counts messages, and records when the first view after the fault came and the first message after it."""
    while True:
        for event in await session.receive_many():
            if isinstance(event, Message):
                received.add(event.data[:TAG_BYTES])
                if counters[VIEW_AT + number] and not counters[RESUMED_AT + number]:
                    counters[RESUMED_AT + number] = time.monotonic_ns()
            elif isinstance(event, View) and counters[FAULT_AT] and not counters[VIEW_AT + number]:
                counters[VIEW_AT + number] = time.monotonic_ns()


async def answer(task: WorkerTask, url: str) -> None:
    """Worker 0 sends each probe back; the others only receive."""
    counters, service = open_counters(Path(task.counters)), Service[task.workload.service.upper()]
    session = await connect(url, membership=False, ca=task.ca or None)
    await session.join(f"{task.group}-there")
    counters[RECEIVER_READY + task.number] = 1
    async for event in session:
        if isinstance(event, Message) and task.number == 0:
            await session.multicast(f"{task.group}-back", event.data, service=service)


async def ping(task: WorkerTask, url: str) -> None:
    """Sends one probe at a time; prints the round-trip times in microseconds."""
    service = Service[task.workload.service.upper()]
    there = f"{task.group}-back" if task.to_itself else f"{task.group}-there"
    data, taken_us = bytes(task.workload.size_bytes), []
    async with connect(url, membership=False, ca=task.ca or None) as session:
        await session.join(f"{task.group}-back")
        for number in range(WARM_PROBES + task.probes):
            begin = time.perf_counter_ns()
            await session.multicast(there, data, service=service)
            while not isinstance(await session.receive(), Message):
                pass
            if number >= WARM_PROBES:
                taken_us.append((time.perf_counter_ns() - begin) / 1000)
            if task.pause_us:
                await asyncio.sleep(task.pause_us / 1_000_000)
    print(json.dumps(taken_us), flush=True)


ROLES: Final[dict[str, Callable[[WorkerTask, str], Awaitable[None]]]] = {
    "send": send,
    "receive": receive,
    "answer": answer,
    "ping": ping,
}


async def _run(task: WorkerTask, url: str) -> None:
    await ROLES[task.role](task, url)


def event_loop() -> Callable[[Coroutine[object, object, None]], None]:
    """The runner of the event loop: uvloop if it is installed, as in many applications."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run
    run: Callable[[Coroutine[object, object, None]], None] = uvloop.run
    return run


def main() -> None:
    """Runs the task on the command line."""
    url, text = sys.argv[1:]
    task = msgspec.json.decode(text, type=WorkerTask)
    gc.freeze()  # Imported modules stay: collections need not scan them again.
    event_loop()(_run(task, url))


if __name__ == "__main__":
    main()
