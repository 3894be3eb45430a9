"""Starts a standalone Spark cluster on this machine from the installed PySpark: a master and some workers.

For trials: the same jobs run on it as on a large cluster, with separate processes for driver and executors. All
processes listen on loopback only.

    python -m hopring.spark.cluster --workers 2
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from hopring.spark.errors import SparkError
from hopring.spark.java import ensure_java
from hopring.spark.session import LOOPBACK, must_be_installed

START_SECONDS: Final = 120.0
END_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.2
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"


class Standalone:
    """A cluster that exists inside a `with` block; `url` is the address of its master."""

    def __init__(
        self, workers: int = 2, cores: int = 1, memory: str = "1g", directory: Path | None = None
    ) -> None:
        """Starts nothing yet. Logs and work go to the directory, or to a temporary one that is removed."""
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self.url = ""
        self._page = ""
        self._given = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._leftovers = ExitStack()

    def __enter__(self) -> Self:
        must_be_installed()
        ensure_java()
        made = self._leftovers.enter_context(tempfile.TemporaryDirectory(prefix="hopring-spark-"))
        self.directory = Path(made) if self._given is None else self._given
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        port, page_port = _free_ports(2)
        self.url, self._page = f"spark://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{page_port}/json/"
        self._launch("master", _MASTER, "-p", str(port), "--webui-port", str(page_port))
        self._wait(lambda: _ask(self._page) is not None)
        for number in range(self.workers):
            place = ["--webui-port", "0", "-d", str(self.directory / f"worker-{number}")]
            self._launch(
                f"worker-{number}", _WORKER, "-c", str(self.cores), "-m", self.memory, *place, self.url
            )
        self._wait(lambda: (_ask(self._page) or {}).get("aliveworkers") == self.workers)

    def _launch(self, name: str, kind: str, *arguments: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None, "it is installed"
        assert spec.origin is not None, "it is a package"
        home = Path(spec.origin).parent
        ours = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
        environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m", **os.environ, **ours}
        with (self.directory / f"{name}.log").open("ab") as log:
            command = [str(home / "bin" / "spark-class"), kind, "-h", LOOPBACK, *arguments]
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait(self, condition: Any) -> None:
        end = time.monotonic() + START_SECONDS
        while not condition():
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() >= end:
                problem = "one of its processes ended" if ended else f"not ready after {START_SECONDS:g} s"
                raise SparkError(f"the cluster does not start: {problem}", f"see the logs in {self.directory}")
            time.sleep(LOOK_SECONDS)

    def close(self) -> None:
        """Ends all processes of the cluster."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            # Executors, and processes that ignored SIGTERM.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes = []
        self._leftovers.close()


def _ask(page: str) -> dict[str, Any] | None:
    """The master's status, or None if it does not answer."""
    try:
        with urllib.request.urlopen(page, timeout=2.0) as answer:
            status: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return status


def _free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        found = []
        for _ in range(count):
            one = open_sockets.enter_context(socket.socket())
            one.bind((LOOPBACK, 0))
            found.append(one.getsockname()[1])
        return found


def main() -> None:
    """Runs a cluster until it is interrupted, and prints its address once it is ready."""
    parser = argparse.ArgumentParser(
        prog="python -m hopring.spark.cluster", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    parser.add_argument("--directory", type=Path, help="for logs and work")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        options = (arguments.workers, arguments.cores, arguments.memory, arguments.directory)
        with Standalone(*options) as cluster:
            print(cluster.url, flush=True)
            signal.pause()
    except SparkError as error:
        sys.exit(f"hopring: {error}")


if __name__ == "__main__":
    main()
