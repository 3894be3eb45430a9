"""`hop pipeline serve` as a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.free_ports import free_base_port

REPOSITORY = Path(__file__).parents[2]


class Server:
    """The command as a process."""

    def __init__(self) -> None:
        self.port = free_base_port(1)
        self._process = subprocess.Popen(
            command("pipeline", "serve", "--port", str(self.port)),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()  # Empty if it ended.

    def java(self) -> int:
        """The id of the server's Java."""
        found = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        assert len(found) == 1
        assert "java" in Path(f"/proc/{found[0]}/cmdline").read_text()
        return int(found[0])

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Sends a signal; the exit code, and the messages on stderr."""
        self._process.send_signal(number)
        _, said = self._process.communicate(timeout=60)
        return self._process.returncode, said


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "hopring.cli.main", *words]


def environment() -> dict[str, str]:
    code = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return {**os.environ, "PYTHONPATH": code}
