"""Daemons of a bench: processes on loopback that end with it, and what they take of the processor."""

import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final

from hopring.cli.exits import Failure
from hopring.config import dump_toml, local_config

START_SECONDS: Final = 30.0
_PORTS: Final = 4


class Daemons:
    """Two sites of one daemon each; use it as `with Daemons() as daemons`."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="hop-bench-")
        self._processes: list[subprocess.Popen[bytes]] = []
        config = local_config({"eu": 1, "us": 1}, base_port=_free_ports())
        self.urls = [f"hop://127.0.0.1:{daemon.client_port}" for daemon in config.daemons]
        self._names = [daemon.name for daemon in config.daemons]
        self._file = Path(self._directory.name) / "hop.toml"
        self._file.write_text(dump_toml(config))

    def __enter__(self) -> "Daemons":
        try:
            for name in self._names:
                command = [sys.executable, "-m", "hopring.daemon.hopd", str(self._file), "--name", name]
                with self._log(name).open("wb") as log:
                    state = ["--state", self._directory.name]
                    self._processes.append(subprocess.Popen([*command, *state], stderr=log))
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def cpu_seconds(self) -> float:
        """What all of them have taken so far."""
        nanoseconds = 0
        for process in self._processes:
            nanoseconds += int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def _log(self, name: str) -> Path:
        return Path(self._directory.name) / f"{name}.log"

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not all("size=2" in self._log(name).read_text() for name in self._names):
            if time.monotonic() > end or any(one.poll() is not None for one in self._processes):
                said = "".join(self._log(name).read_text() for name in self._names)
                raise Failure(f"the daemons do not come together:\n{said}")
            time.sleep(0.05)

    def _end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._directory.cleanup()


def _free_ports() -> int:
    """The first of some ports in a row that nobody has now."""
    for base in range(21_000, 60_000, 37):
        held = []
        try:
            for port in range(base, base + _PORTS):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    sock = socket.socket(socket.AF_INET, kind)
                    held.append(sock)
                    sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for sock in held:
                sock.close()
        return base
    raise Failure("no four free ports in a row; end some programs")
