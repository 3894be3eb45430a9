"""The processes of one run, which end with it; what a failed one said is told."""

import os
import subprocess
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import hopring
from hopring.bench.harness.workload import WorkerTask
from hopring.cli.exits import Failure

READY_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.005
SAID_MAX: Final = 2_000

ReportStep = Callable[[str], None]
"""Told of each step as it begins."""


def no_progress(_step: str) -> None:
    """For callers that show no progress."""


def with_prefix(say: ReportStep, part: str) -> ReportStep:
    """The steps of one part of the bench, with its name."""
    return lambda step: say(f"{part}: {step}")


def with_run_number(say: ReportStep, number: int, runs: int) -> ReportStep:
    """The steps of one of several runs, with its number."""
    return say if runs == 1 else with_prefix(say, f"run {number + 1} of {runs}")


class BenchSystem(Protocol):
    """What is measured: servers that are there as long as it is entered, and commands for the roles."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def members_send(self) -> bool:
        """Whether who sends is a receiver itself, so that there are no senders besides."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def servers(self) -> dict[str, int]:
        """The processes that serve, by name."""

    def command(self, task: WorkerTask) -> list[str]:
        """How a process with this job is started."""


def terminate_all(processes: Collection[subprocess.Popen[Any]]) -> None:
    """Ends them, those that do not want to as well."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class WorkerProcesses:
    """Use it as `with Crew(...) as crew`."""

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
        """Starts a process for this job; returns its name."""
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
        """All processes by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Until it holds; Failure if that takes too long, or if somebody fails meanwhile."""
        end = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > end:
                raise Failure(f"{self._system.name}: {what} after {seconds:g} s{self._said(*self._processes)}")
            time.sleep(LOOK_SECONDS)

    def check(self) -> None:
        """Failure if somebody has failed."""
        for name, process in self._processes.items():
            if process.poll():
                raise Failure(f"{self._system.name}: {name} ended with {process.returncode}{self._said(name)}")

    def result(self, name: str, seconds: float) -> str:
        """What a process prints, until it ends by itself."""
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
    """Ours; who is started finds the same modules as we do."""
    here = [str(Path(hopring.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([one for one in here if one])}
