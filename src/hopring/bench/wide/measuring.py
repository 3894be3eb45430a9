"""Takes the figures of the paper's tables: turns of 99 messages and one back, round trips, parts of one way."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from statistics import median, stdev
from typing import IO, Final

import msgspec

from hopring.bench.harness.processes import child_environment, terminate_all
from hopring.bench.wide.layers import BareLayer, layer_over
from hopring.bench.wide.paper import REQUEST, STREAM, WHOLE, paper_ms
from hopring.bench.wide.worker import FAR, NEAR, READY, SET
from hopring.cli.terminal import Failure
from hopring.client.aio import connect
from hopring.haul.ids import ClusterId
from hopring.wide.library.events import WideMessage
from hopring.wide.library.sets import JoinedSet, join
from hopring.wide.local_clusters.blocking import LocalWide

STREAMED: Final = 99
"""Messages of table 1, before one goes back."""

WAIT_SECONDS: Final = 60.0
"""How long the other end may take to connect, and to answer."""


class WideBenchOptions(msgspec.Struct, frozen=True):
    """What is measured, and how often."""

    sizes: tuple[int, ...]
    turns: int
    requests: int  # Round trips of a turn of table 2.
    probes: int


class WideBenchRow(msgspec.Struct, frozen=True):
    """One cell of a table: milliseconds for a message, by the median of the turns."""

    table: int
    row: str
    size_bytes: int
    ms: float
    deviation_ms: float
    paper_ms: float | None
    members: int = 0  # Of each cluster; none below the whole service.


class WideBenchParts(msgspec.Struct, frozen=True):
    """Where the time of one message goes, if there is one at a time; medians in milliseconds."""

    members: int
    size_bytes: int
    accepted_ms: float  # From the call to its acceptance, as the sender learns it.
    transfer_ms: (
        float  # From there until it is logged in the other cluster, as a follower of its log learns it.
    )
    client_ms: float  # From there to the receiving client.
    whole_ms: float  # From the call to the receiving client.


def cell(table: int, row: str, size_bytes: int, turns_ms: Sequence[float], members: int = 0) -> WideBenchRow:
    """The figures of some turns."""
    spread = round(stdev(turns_ms), 4) if len(turns_ms) > 1 else 0.0
    own = round(median(turns_ms), 4)
    return WideBenchRow(table, row, size_bytes, own, spread, paper_ms(table, row, size_bytes), members)


# Below the whole service.


@contextmanager
def bare_layer(name: str, messages: int) -> Iterator[BareLayer]:
    """One end of a layer, with a process at the other end that answers so many messages with one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_SECONDS)
        port = server.getsockname()[1]
        process = _started("bare", name, str(port), str(messages))
        try:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(WAIT_SECONDS)
                yield layer_over(name, connection, ClusterId(1), ClusterId(2))
        except TimeoutError:
            raise Failure(f"{name}: the other process does not answer") from None
        finally:
            terminate_all([process])
            _close(process)


def measure_bare(name: str, options: WideBenchOptions) -> Iterator[WideBenchRow]:
    """Both tables of one layer, size by size."""
    with bare_layer(name, STREAMED) as layer:
        for size in options.sizes:
            yield cell(STREAM, name, size, [_streamed_ms(layer, bytes(size)) for _ in range(options.turns)])
    with bare_layer(name, 1) as layer:
        for size in options.sizes:
            turns = [_requested_ms(layer, bytes(size), options.requests) for _ in range(options.turns)]
            yield cell(REQUEST, name, size, turns)


def _streamed_ms(layer: BareLayer, body: bytes) -> float:
    began = time.perf_counter()
    for _ in range(STREAMED):
        layer.send(body)
    layer.receive()
    return (time.perf_counter() - began) * 1_000 / (STREAMED + 1)


def _requested_ms(layer: BareLayer, body: bytes, requests: int) -> float:
    began = time.perf_counter()
    for _ in range(requests):
        layer.send(body)
        layer.receive()
    return (time.perf_counter() - began) * 1_000 / requests


# The whole service.


async def measure_whole(
    options: WideBenchOptions, members: int, found: Callable[[WideBenchRow | WideBenchParts], None]
) -> None:
    """Both tables of the whole service, and the parts of a message; so many members are in each cluster."""
    world = LocalWide({NEAR: 1, FAR: 1}, members=members)
    await asyncio.to_thread(world.__enter__)
    try:
        async with connect(world.url(NEAR), name="near") as session, join(session, SET) as joined:
            async with _answering(world.url(FAR)):
                for size in options.sizes:
                    turns = [await _streamed_whole_ms(joined, bytes(size)) for _ in range(options.turns)]
                    found(cell(STREAM, WHOLE, size, turns, members))
                for size in options.sizes:
                    some = [
                        await _requested_whole_ms(joined, bytes(size), options.requests)
                        for _ in range(options.turns)
                    ]
                    found(cell(REQUEST, WHOLE, size, some, members))
            async with _answering(world.url(FAR), ",".join(world.members(FAR))):
                for size in options.sizes:
                    found(await _parts(joined, size, members, options.probes))
    finally:
        await asyncio.to_thread(world.__exit__, None, None, None)


@asynccontextmanager
async def _answering(*arguments: str) -> AsyncIterator[None]:
    """A process that answers in the other cluster."""
    process = _started("whole", *arguments)
    try:
        assert process.stdout is not None, "it is a pipe"
        if await asyncio.to_thread(process.stdout.readline) != f"{READY}\n":
            raise Failure("the process in the other cluster has ended")
        yield
    finally:
        await asyncio.to_thread(terminate_all, [process])
        _close(process)


async def _answer(joined: JoinedSet) -> bytes:
    async with asyncio.timeout(WAIT_SECONDS):
        while not isinstance(event := await joined.receive(), WideMessage):
            pass
        return event.data


async def _streamed_whole_ms(joined: JoinedSet, body: bytes) -> float:
    talk = joined.conversation(name=str(STREAMED))
    began = time.perf_counter()
    sending: list[Awaitable[object]] = [talk.cbcast(body, to=FAR) for _ in range(STREAMED)]
    await asyncio.gather(*sending, _answer(joined))
    return (time.perf_counter() - began) * 1_000 / (STREAMED + 1)


async def _requested_whole_ms(joined: JoinedSet, body: bytes, requests: int) -> float:
    talk = joined.conversation(name="1")
    began = time.perf_counter()
    for _ in range(requests):
        await asyncio.gather(talk.cbcast(body, to=FAR), _answer(joined))
    return (time.perf_counter() - began) * 1_000 / requests


async def _parts(joined: JoinedSet, size: int, members: int, probes: int) -> WideBenchParts:
    seconds: list[tuple[float, float, float, float]] = []
    for _ in range(probes):
        called = time.monotonic()
        await joined.cbcast(bytes(size), to=FAR)
        accepted = time.monotonic()
        told = json.loads(await _answer(joined))
        logged, client = told["logged_s"], told["client_s"]
        seconds.append((accepted - called, logged - accepted, client - logged, client - called))
    medians = [round(median(column) * 1_000, 3) for column in zip(*seconds, strict=True)]
    return WideBenchParts(members, size, *medians)


# Processes.


def _started(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-P", "-m", "hopring.bench.wide.worker", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())


def _close(process: "subprocess.Popen[str]") -> None:
    output: IO[str] | None = process.stdout
    if output is not None:
        with suppress(OSError):
            output.close()
