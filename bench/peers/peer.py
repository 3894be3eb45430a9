"""What all peers share: servers that end with the run, and the command line of a role."""

import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import ClassVar, Final, Self

import msgspec

from hopring.cli.bench.crew import end_all, environment
from hopring.cli.bench.job import Job
from hopring.cli.exits import Failure
from hopring.local.ports import free_base_port

START_SECONDS: Final = 30.0
PORTS: Final = 16
REPOSITORY: Final = Path(__file__).parents[2]


class Peer:
    """A system; use it as `with Peer() as system`. Roles run in processes of their own, from its methods."""

    name: ClassVar[str]
    members_send: ClassVar[bool] = False
    programs: ClassVar[dict[str, str]] = {}  # By file or program, the Debian package that has it.
    modules: ClassVar[tuple[str, ...]] = ()  # Of the dependency group `peers`.
    promise: ClassVar[str]  # What it keeps, in a few words, for the table.

    def __init__(self, base_port: int | None = None) -> None:
        self.port = free_base_port(PORTS) if base_port is None else base_port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def missing(cls) -> list[str]:
        """What it needs and is not here, with the remedy."""
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
        end_all(self._processes.values())
        self._processes = {}
        self.stop()
        self._temporary.cleanup()

    def start(self) -> None:
        """Starts the servers, if it has any, and returns when they serve."""

    def stop(self) -> None:
        """Puts away what is no process; also after half a start."""

    def serve(self, name: str, command: list[str], port: int = 0) -> None:
        """Starts a server; with a port, waits until it listens there."""
        with (self.directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory, env=role_environment()
            )
        end = time.monotonic() + START_SECONDS
        while port and not listens(port):
            if time.monotonic() > end or self._processes[name].poll() is not None:
                raise Failure(f"{self.name}: {name} does not serve:\n{self._said(name)}")
            time.sleep(0.02)

    def _said(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]

    def servers(self) -> dict[str, int]:
        """The processes by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def command(self, job: Job) -> list[str]:
        """A role in Python."""
        words = ["-P", "-m", "bench.peers.role", self.name, str(self.port), msgspec.json.encode(job).decode()]
        return ["env", f"PYTHONPATH={role_environment()['PYTHONPATH']}", sys.executable, *words]

    def send(self, job: Job) -> None:
        """Floods, or goes at a pace."""
        raise NotImplementedError

    def receive(self, job: Job) -> None:
        """Counts."""
        raise NotImplementedError

    def answer(self, job: Job) -> None:
        """Number 0 sends probes back."""
        raise NotImplementedError

    def ping(self, job: Job) -> None:
        """Probes, and prints what each took."""
        raise NotImplementedError


def role_environment() -> dict[str, str]:
    """A role finds this package too."""
    ours = environment()
    return {**ours, "PYTHONPATH": f"{ours['PYTHONPATH']}:{REPOSITORY}"}


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _is_here(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what, path=_PATH) is not None


_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Servers are in directories that not everybody's path has."""
