"""The worker processes of one run, which end with it; errors include the output of a failed one.

Their CPU time, wake-ups and memory are read from the kernel.
"""

import os
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self

import hopring
from hopring.bench.harness.workload import WorkerTask
from hopring.cli.terminal import Failure

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads, in nanosecond resolution; ProcessLookupError if there is none."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        raise ProcessLookupError(pid) from None


def wakes(pid: int) -> int:
    """How often a process has been woken; ProcessLookupError if there is none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def memory_bytes(pid: int, kind: str) -> int:
    """Memory of a process of a kind named as in /proc; ProcessLookupError if there is none.

    `Rss` is everything resident, `Pss` counts shared pages in proportion, `Anonymous` is its own.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:"))


class CpuReading(NamedTuple):
    """CPU clocks of processes and of the machine."""

    at_s: float
    taken_s: dict[str, float]  # By name of the process.
    busy_s: float  # All processors and processes together.


def read_cpu(pids: dict[str, int]) -> CpuReading:
    """Reads the CPU clocks of these processes and of the machine."""
    return CpuReading(time.monotonic(), {name: cpu_seconds(pid) for name, pid in pids.items()}, _busy_s())


def others_share(before: CpuReading, after: CpuReading, processors: int) -> float:
    """The share of the machine that other processes used: a reason to doubt a measurement."""
    ours = sum(after.taken_s.values()) - sum(before.taken_s.values())
    whole = (after.at_s - before.at_s) * processors
    return round(max(0.0, after.busy_s - before.busy_s - ours) / whole, 2)


def _busy_s() -> float:
    user, nice, system, _idle, _wait, hard, soft, *_ = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    return sum(map(int, (user, nice, system, hard, soft))) / os.sysconf("SC_CLK_TCK")


READY_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.005
SAID_MAX: Final = 2_000

ReportStep = Callable[[str], None]
"""Called with each step as it begins."""


def no_progress(_step: str) -> None:
    """Ignores progress, for callers that show none."""


def with_prefix(say: ReportStep, part: str) -> ReportStep:
    """Reports the steps of one part of the bench under its name."""
    return lambda step: say(f"{part}: {step}")


def with_run_number(say: ReportStep, number: int, runs: int) -> ReportStep:
    """Reports the steps of one of several runs with its number."""
    return say if runs == 1 else with_prefix(say, f"run {number + 1} of {runs}")


class BenchSystem(Protocol):
    """A system under test: servers that run while it is entered, and commands of workers."""

    @property
    def name(self) -> str:
        """The name in tables and messages."""

    @property
    def members_send(self) -> bool:
        """Whether receivers send, so that there are no separate senders."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def servers(self) -> dict[str, int]:
        """The process ids of the servers, by name."""

    def command(self, task: WorkerTask) -> list[str]:
        """The command that starts a worker with this task."""


def terminate_all(processes: Collection[subprocess.Popen[Any]]) -> None:
    """Ends processes, with SIGKILL if SIGTERM is not enough."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class WorkerProcesses:
    """A context manager for the workers of one run."""

    def __init__(self, system: BenchSystem, directory: Path) -> None:
        self._system = system
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        terminate_all(self._processes.values())
        for process in self._processes.values():
            if process.stdout is not None:
                process.stdout.close()

    def start(self, task: WorkerTask) -> str:
        """Starts a worker for this task; returns its name."""
        name = f"{task.role}{task.number}"
        with self._log(name).open("w") as log:
            self._processes[name] = subprocess.Popen(
                self._system.command(task),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=child_environment(),
            )
        return name

    def pids(self) -> dict[str, int]:
        """The process ids of all workers, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Waits for a condition; Failure after a timeout or if a worker fails."""
        end = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > end:
                raise Failure(f"{self._system.name}: {what} after {seconds:g} s{self._said(*self._processes)}")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Raises Failure if a worker has failed."""
        for name, process in self._processes.items():
            if process.poll():
                raise Failure(f"{self._system.name}: {name} ended with {process.returncode}{self._said(name)}")

    def result(self, name: str, seconds: float) -> str:
        """The output of a worker that ends by itself."""
        process = self._processes[name]
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(
                f"{self._system.name}: {name} is not done after {seconds:g} s{self._said(name)}"
            ) from None
        self.check()
        return printed

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _said(self, *names: str) -> str:
        said = [f"\n{name}: {self._log(name).read_text()[-SAID_MAX:]}" for name in names]
        return "".join([one for one in said if one.split(": ", 1)[1]])


def child_environment() -> dict[str, str]:
    """This environment, with a path on which children find the same modules."""
    here = [str(Path(hopring.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([one for one in here if one])}
