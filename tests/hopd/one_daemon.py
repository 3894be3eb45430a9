"""One daemon as a process, with any options, and its log."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

from hopring.config import Config, dump_toml

SECONDS_MAX = 30.0


class OneDaemon:
    """A daemon that runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, file: Path) -> None:
        self.process = process
        self.file = file
        self._log = log

    def log(self) -> str:
        """What it said."""
        return self._log.read_text()

    def wait(self, condition: Callable[[], bool], seconds: float = SECONDS_MAX) -> None:
        """Waits for something, and fails if it does not come."""

        def met() -> bool:
            assert self.process.poll() is None, self.log()
            return condition()

        until(met, self.log, seconds)

    def wait_for_log(self, text: str, count: int = 1) -> None:
        """Waits until it has said this so often."""
        self.wait(lambda: self.log().count(text) >= count)


@contextmanager
def alone(
    config: Config, directory: Path, name: str, *arguments: str, module: str = "hopring.daemon.hopd"
) -> Iterator[OneDaemon]:
    """Runs a daemon."""
    file, log = directory / "hop.toml", directory / f"{name}.log"
    if not file.exists():
        file.write_text(dump_toml(config))
    command = [sys.executable, "-m", module, str(file), "--name", name]
    with log.open("wb") as stderr:
        process = subprocess.Popen([*command, "--state", str(directory), *arguments], stderr=stderr)
    try:
        yield OneDaemon(process, log, file)
    finally:
        process.terminate()
        try:
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
