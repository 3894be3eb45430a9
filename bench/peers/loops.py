"""What a client in Python does in each role, whatever it talks to: the loops around one call of its library."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from hopring.cli.bench.board import (
    GO,
    MARK_BYTES,
    RECEIVER_READY,
    SENDER_READY,
    SENT,
    STOP,
    Slots,
    mark,
    open_board,
    room,
)
from hopring.cli.bench.job import Job
from hopring.cli.bench.role import LOOK_SECONDS, WARM_PROBES

LOOK_BLOCKING_SECONDS: Final = 0.0002
"""Between two looks at the board without an event loop."""


def board_of(job: Job) -> Slots:
    """The board of this run."""
    return open_board(Path(job.board))


def flood(job: Job, put: Callable[[bytes], object], flush: Callable[[], object] | None = None) -> None:
    """Sends in bursts until the stop, for a library that blocks."""
    board = board_of(job)
    board[SENDER_READY + job.number] = 1
    while not board[GO]:
        time.sleep(LOOK_BLOCKING_SECONDS)
    sent = 0
    for allowed in _bursts(job, board):
        if not allowed:
            time.sleep(LOOK_BLOCKING_SECONDS)
            continue
        for body in bodies(job, sent, allowed):
            put(body)
        if flush is not None:
            flush()
        sent += allowed
        board[SENT + job.number] = sent


async def flood_async(job: Job, put: Callable[[bytes], Awaitable[object]]) -> None:
    """The same for one with an event loop, which gets a turn after each burst."""
    board = board_of(job)
    board[SENDER_READY + job.number] = 1
    while not board[GO]:
        await asyncio.sleep(LOOK_SECONDS)
    sent = 0
    for allowed in _bursts(job, board):
        if not allowed:
            await asyncio.sleep(LOOK_SECONDS)
            continue
        for body in bodies(job, sent, allowed):
            await put(body)
        sent += allowed
        board[SENT + job.number] = sent
        await asyncio.sleep(0)


def _bursts(job: Job, board: Slots) -> Iterator[int]:
    """How many messages may go now, again and again until the stop; 0 is to wait a little."""
    while not board[STOP]:
        yield job.case.at_once if room(board) >= job.case.at_once else 0


def bodies(job: Job, first: int, count: int) -> Iterator[bytes]:
    """The next messages of a sender."""
    rest = bytes(job.case.size_bytes - MARK_BYTES)
    for number in range(first, first + count):
        yield mark(job.number, number) + rest


def ready(job: Job) -> None:
    """A receiver, or who answers, is there."""
    board_of(job)[RECEIVER_READY + job.number] = 1


def probe(job: Job, trip: Callable[[bytes], object]) -> None:
    """Round trips one by one, for a library that blocks."""
    data, taken_us = bytes(job.case.size_bytes), []
    for _ in range(WARM_PROBES + job.probes):
        begin = time.perf_counter_ns()
        trip(data)
        taken_us.append((time.perf_counter_ns() - begin) / 1000)
        if job.pause_us:
            time.sleep(job.pause_us / 1e6)
    print(json.dumps(taken_us[WARM_PROBES:]), flush=True)


async def probe_async(job: Job, trip: Callable[[bytes], Awaitable[object]]) -> None:
    """The same for one with an event loop."""
    data, taken_us = bytes(job.case.size_bytes), []
    for _ in range(WARM_PROBES + job.probes):
        begin = time.perf_counter_ns()
        await trip(data)
        taken_us.append((time.perf_counter_ns() - begin) / 1000)
        if job.pause_us:
            await asyncio.sleep(job.pause_us / 1e6)
    print(json.dumps(taken_us[WARM_PROBES:]), flush=True)
