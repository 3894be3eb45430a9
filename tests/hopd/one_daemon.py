"""Runs one daemon as a process with any options, and reads its log."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

from hopring.config import Config, dump_toml

SECONDS_MAX = 90.0


class OneDaemon:
    """A running daemon and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, file: Path) -> None:
        self.process = process
        self.file = file
        self._log = log

    def log(self) -> str:
        """The log up to now."""
        return self._log.read_text()

    def wait(self, condition: Callable[[], bool], seconds: float = SECONDS_MAX) -> None:
        """Waits for a condition; fails at the deadline or when the daemon ends."""

        def met() -> bool:
            assert self.process.poll() is None, self.log()
            return condition()

        until(met, self.log, seconds)

    def wait_for_log(self, text: str, count: int = 1) -> None:
        """Waits until its log contains this text `count` times."""
        self.wait(lambda: self.log().count(text) >= count)


@contextmanager
def alone(
    config: Config,
    directory: Path,
    name: str,
    *arguments: str,
    module: str = "hopring.daemon.hopd",
    environment: Mapping[str, str] | None = None,
) -> Iterator[OneDaemon]:
    """Runs one daemon of a configuration until the block ends; None is the environment of the test."""
    file, log = directory / "hop.toml", directory / f"{name}.log"
    if not file.exists():
        file.write_text(dump_toml(config))
    command = [sys.executable, "-m", module, str(file), "--name", name]
    with log.open("wb") as stderr:
        words = [*command, "--state", str(directory), *arguments]
        process = subprocess.Popen(words, stderr=stderr, env=environment)
    try:
        yield OneDaemon(process, log, file)
    finally:
        process.terminate()
        try:
            process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
