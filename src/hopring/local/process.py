"""One daemon of a local cluster as a process, which ends when its stdin, a pipe from here, is closed."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

import hopring
from hopring.errors import HopError

LOG_LINES = 12
ANSWER_SECONDS: Final = 20.0
"""Long, because a process may not run for a while on a busy machine."""

GOODBYE_SECONDS: Final = 8.0
LOG_BYTES_MAX: Final = 4_000
_READ_BYTES: Final = 1 << 16


class ClusterError(HopError, RuntimeError):
    """A daemon did not start, ended by itself, or does not answer; the message has the end of its log."""

    def __init__(self, daemon: str, problem: str, log: str = "", kind: str = "daemon") -> None:
        tail = "".join([f"\n  {line}" for line in log.splitlines()[-LOG_LINES:]])
        super().__init__(f"{kind} {daemon} {problem}" + (f"; its log ends so:{tail}" if tail else ""))
        self.daemon = daemon
        self.problem = problem
        self.log = log


class NotSettled(HopError, TimeoutError):
    """The daemons did not reach the expected views in time."""

    def __init__(self, seconds: float, seen: dict[str, str]) -> None:
        views = "".join([f"\n  {name}: {view}" for name, view in sorted(seen.items())])
        super().__init__(f"after {seconds:g} s the daemons are not settled:{views}")
        self.seconds = seconds
        self.seen = seen


@dataclass(frozen=True, slots=True)
class DaemonFiles:
    """The paths of one daemon's files."""

    config: Path
    state: Path
    admin: Path
    log: Path
    trace: Path | None
    spread_sockets: Path | None = None  # None is the usual directory.
    # What is run, and more variables for it: tests have daemons with faults.
    module: str = "hopring.daemon.hopd"
    environment: Mapping[str, str] = field(default_factory=dict)


class ChildProcess:
    """One start of a process that ends when its stdin, a pipe from here, is closed."""

    kind = "process"

    def __init__(
        self, name: str, command: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it with its output in a log file."""
        self.name = name
        self._log = log
        self._log_from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as lines:
            # A process group of its own: Ctrl-C at the terminal does not reach it; it is ended from here.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=lines,
                stderr=lines,
                env=_environment(environment or {}),
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def log(self) -> str:
        """The end of its log since this start."""
        with contextlib.suppress(OSError), self._log.open("rb") as lines:
            lines.seek(max(self._log_from, self._log.stat().st_size - LOG_BYTES_MAX))
            return lines.read().decode(errors="replace")
        return ""

    def error(self, problem: str) -> ClusterError:
        """An error with the end of its log."""
        return ClusterError(self.name, problem, self.log, self.kind)

    def check(self) -> None:
        """ClusterError if it has ended by itself."""
        if self.exit_code is not None:
            raise self.error(f"ended with exit code {self.exit_code}")

    def kill(self) -> None:
        """Kills it at once, as a power cut does."""
        self._process.kill()
        self._gone()

    def begin_to_end(self) -> None:
        """Sends SIGTERM, and does not wait."""
        if self.exit_code is None:
            self._process.terminate()

    def end(self) -> None:
        """Ends it with SIGTERM, or after a timeout with SIGKILL."""
        self.begin_to_end()
        try:
            self._process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._gone()

    def _gone(self) -> None:
        self._process.wait()
        assert self._process.stdin is not None, "it was started with a pipe"
        with contextlib.suppress(OSError):
            self._process.stdin.close()


class DaemonProcess(ChildProcess):
    """One start of a daemon."""

    kind = "daemon"

    def __init__(self, name: str, places: DaemonFiles) -> None:
        """Starts the daemon as a process of its own."""
        self._places = places
        command = [sys.executable, "-P", "-m", places.module, str(places.config), "--name", name]
        command += ["--state", str(places.state), "--admin", str(places.admin), "--dangerous"]
        command += ["--end-with-stdin"]
        if places.trace is not None:
            command += ["--trace", str(places.trace)]
        if places.spread_sockets is not None:
            command += ["--spread-sockets", str(places.spread_sockets)]
        super().__init__(name, command, places.log, places.environment)

    def answers(self) -> bool:
        """Whether its admin socket accepts connections; ClusterError if it has ended."""
        self.check()
        return self._places.admin.exists() and self._reaches()

    def _reaches(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(str(self._places.admin)) == 0

    def ask(self, verb: str, **fields: object) -> dict[str, Any]:
        """Sends a request to its admin socket; returns the status, if the answer has one."""
        line = msgspec.json.encode({"verb": verb, **fields}) + b"\n"
        try:
            answer = msgspec.json.decode(self._exchange(line))
        except TimeoutError:
            raise self.error(f"does not answer for {ANSWER_SECONDS:g} s") from None
        except (OSError, msgspec.DecodeError) as error:
            if self.exit_code is not None:
                raise self.error(f"ended with exit code {self.exit_code}") from None
            raise self.error(f"cannot be asked for its {verb} ({error})") from error
        if not answer["ok"]:
            raise self.error(f"refused to {verb}: {answer['error']}")
        status: dict[str, Any] = answer.get("status", {})
        return status

    def _exchange(self, line: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(ANSWER_SECONDS)
            channel.connect(str(self._places.admin))
            channel.sendall(line)
            heard = b""
            while not heard.endswith(b"\n"):
                chunk = channel.recv(_READ_BYTES)
                if not chunk:
                    raise ConnectionError("the channel was closed")
                heard += chunk
        return heard

    def _gone(self) -> None:
        super()._gone()
        with contextlib.suppress(OSError):
            self._places.admin.unlink()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """This environment, with a path on which the process finds the same hopring."""
    here = str(Path(hopring.__file__).parents[1])
    variables = {**os.environ, **more}
    path = variables.get("PYTHONPATH")
    return {**variables, "PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here}
