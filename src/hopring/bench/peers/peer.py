"""The base of all peers: servers that end with the run, and the loops of their Python clients."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import ClassVar, Final, Self

import msgspec

from hopring.bench.harness.processes import child_environment, terminate_all
from hopring.bench.harness.worker import LOOK_SECONDS, WARM_PROBES
from hopring.bench.harness.workload import (
    GO,
    RECEIVER_READY,
    SENDER_READY,
    SENT,
    STOP,
    TAG_BYTES,
    Counters,
    WorkerTask,
    message_tag,
    open_counters,
    window_left,
)
from hopring.cli.terminal import Failure
from hopring.local.ports import free_base_port

START_SECONDS: Final = 30.0
PORTS: Final = 16
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Directories of servers that are not on every user's path."""
LOOK_BLOCKING_SECONDS: Final = 0.0002
"""The pause between two reads of the counters, without an event loop."""
SOURCES: Final = Path(__file__).parent
"""The directory of the clients that are not in Python."""

BUILT: Final = Path("out").resolve()
"""Compiled clients and results, below the working directory."""


class PeerSystem:
    """A system under test; its methods for the roles run in worker processes."""

    name: ClassVar[str]
    members_send: ClassVar[bool] = False
    programs: ClassVar[dict[str, str]] = {}  # By file or program, the Debian package that has it.
    modules: ClassVar[tuple[str, ...]] = ()  # Of the dependency group `peers`.
    promise: ClassVar[str]  # Its guarantees in a few words, for the table.

    def __init__(self, base_port: int | None = None) -> None:
        self.port = free_base_port(PORTS) if base_port is None else base_port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def missing(cls) -> list[str]:
        """What is not installed, with the commands that install it."""
        gone = [package for what, package in cls.programs.items() if not _is_here(what)]
        out = [f"apt-get install --no-install-recommends {' '.join(sorted(set(gone)))}"] if gone else []
        if any(find_spec(module) is None for module in cls.modules):
            out.append("pip install --group peers")
        return out

    def __enter__(self) -> Self:
        self._temporary = TemporaryDirectory(prefix="hop-peer-")
        self.directory = Path(self._temporary.name)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        terminate_all(self._processes.values())
        self._processes = {}
        self.stop()
        self._temporary.cleanup()

    def start(self) -> None:
        """Starts the servers, if any; returns when they serve."""

    def stop(self) -> None:
        """Removes leftovers other than processes; also after a failed start."""

    def serve(self, name: str, command: list[str], port: int = 0) -> None:
        """Starts a server; with a port, waits until it listens."""
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory, env=child_environment()
            )
        end = time.monotonic() + START_SECONDS
        while port and not listens(port):
            if time.monotonic() > end or self._processes[name].poll() is not None:
                raise Failure(f"{self.name}: {name} does not serve:\n{self._said(name)}")
            time.sleep(0.02)

    def _said(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]

    def servers(self) -> dict[str, int]:
        """The process ids of the servers, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def command(self, task: WorkerTask) -> list[str]:
        """The command of a worker in Python."""
        words = [
            "-P",
            "-m",
            "hopring.bench.peers.worker",
            self.name,
            str(self.port),
            msgspec.json.encode(task).decode(),
        ]
        return ["env", f"PYTHONPATH={child_environment()['PYTHONPATH']}", sys.executable, *words]

    def send(self, task: WorkerTask) -> None:
        """Sends as fast as the window allows, until stopped."""
        raise NotImplementedError

    def receive(self, task: WorkerTask) -> None:
        """Counts all messages in their order."""
        raise NotImplementedError

    def answer(self, task: WorkerTask) -> None:
        """Worker 0 sends probes back."""
        raise NotImplementedError

    def ping(self, task: WorkerTask) -> None:
        """Sends probes, and prints their round-trip times."""
        raise NotImplementedError


def listens(port: int) -> bool:
    """Whether a server accepts connections on this port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_here(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what, path=_PATH) is not None


def counters_of(task: WorkerTask) -> Counters:
    """The shared counters of this run."""
    return open_counters(Path(task.counters))


def flood(task: WorkerTask, put: Callable[[bytes], object], flush: Callable[[], object] | None = None) -> None:
    """Sends in bursts until stopped, with a blocking library."""
    counters = counters_of(task)
    counters[SENDER_READY + task.number] = 1
    while not counters[GO]:
        time.sleep(LOOK_BLOCKING_SECONDS)
    sent = 0
    for allowed in _bursts(task, counters):
        if not allowed:
            time.sleep(LOOK_BLOCKING_SECONDS)
            continue
        for body in bodies(task, sent, allowed):
            put(body)
        if flush is not None:
            flush()
        sent += allowed
        counters[SENT + task.number] = sent


async def flood_async(task: WorkerTask, put: Callable[[bytes], Awaitable[object]]) -> None:
    """Sends in bursts until stopped, with an event loop, which runs after each burst."""
    counters = counters_of(task)
    counters[SENDER_READY + task.number] = 1
    while not counters[GO]:
        await asyncio.sleep(LOOK_SECONDS)
    sent = 0
    for allowed in _bursts(task, counters):
        if not allowed:
            await asyncio.sleep(LOOK_SECONDS)
            continue
        for body in bodies(task, sent, allowed):
            await put(body)
        sent += allowed
        counters[SENT + task.number] = sent
        await asyncio.sleep(0)


def _bursts(task: WorkerTask, counters: Counters) -> Iterator[int]:
    """How many messages may be sent now, until stopped; 0 means to wait a little."""
    while not counters[STOP]:
        yield task.workload.at_once if window_left(counters) >= task.workload.at_once else 0


def bodies(task: WorkerTask, first: int, count: int) -> Iterator[bytes]:
    """The next messages of a sender."""
    rest = bytes(task.workload.size_bytes - TAG_BYTES)
    for number in range(first, first + count):
        yield message_tag(task.number, number) + rest


def ready(task: WorkerTask) -> None:
    """Reports that a receiver is ready."""
    counters_of(task)[RECEIVER_READY + task.number] = 1


def probe(task: WorkerTask, trip: Callable[[bytes], object]) -> None:
    """Round trips one by one, with a blocking library."""
    data, taken_us = bytes(task.workload.size_bytes), []
    for _ in range(WARM_PROBES + task.probes):
        begin = time.perf_counter_ns()
        trip(data)
        taken_us.append((time.perf_counter_ns() - begin) / 1000)
        if task.pause_us:
            time.sleep(task.pause_us / 1e6)
    print(json.dumps(taken_us[WARM_PROBES:]), flush=True)


async def probe_async(task: WorkerTask, trip: Callable[[bytes], Awaitable[object]]) -> None:
    """Round trips one by one, with an event loop."""
    data, taken_us = bytes(task.workload.size_bytes), []
    for _ in range(WARM_PROBES + task.probes):
        begin = time.perf_counter_ns()
        await trip(data)
        taken_us.append((time.perf_counter_ns() - begin) / 1000)
        if task.pause_us:
            await asyncio.sleep(task.pause_us / 1e6)
    print(json.dumps(taken_us[WARM_PROBES:]), flush=True)
