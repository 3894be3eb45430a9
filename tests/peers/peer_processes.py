"""Peers as processes: each joins a group, sends, and prints what it gets as lines of JSON."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.waiting import SECONDS_MAX, until

PROGRAM: Final = Path(__file__).with_name("peer_program.py")


class PeerProgram:
    """One process with one session."""

    def __init__(self, process: "subprocess.Popen[str]", name: str) -> None:
        self.process, self.name = process, name
        self.lines: list[dict[str, Any]] = []
        # Reads all the time: a program whose pipe is full would stop, and send no more.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            for line in out:
                if line.endswith("\n"):  # Otherwise it was killed while it wrote.
                    self.lines.append(json.loads(line))

    def end_reading(self) -> None:
        """Waits until all that it has printed is read; it has ended."""
        self._reader.join(60)
        assert not self._reader.is_alive()

    def tell(self, text: str) -> None:
        """Sends it one line: a message to multicast, or `leave`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def of(self, kind: str) -> list[Any]:
        """The values of all lines of one kind."""
        return [one[kind] for one in list(self.lines) if kind in one]

    def until(self, kind: str, value: object, seconds: float = SECONDS_MAX) -> None:
        """Waits for a line."""
        until(lambda: value in self.of(kind), lambda: (self.name, value, self.lines[-5:]), seconds)


@contextmanager
def peer_programs(url: str, *names: str) -> Iterator[list[PeerProgram]]:
    """Processes that are in one group; they end with the block."""
    peers: list[PeerProgram] = []
    try:
        for name in names:
            command = [sys.executable, str(PROGRAM), url, name]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            peers.append(PeerProgram(process, name))
            peers[-1].until("joined", name)
        for peer in peers:
            peer.until("members", sorted(names))
        yield peers
    finally:
        for peer in peers:
            if peer.process.poll() is None:
                assert peer.process.stdin is not None
                peer.process.stdin.close()
        for peer in peers:
            try:
                peer.process.wait(60)
            except subprocess.TimeoutExpired:
                peer.process.kill()
                peer.process.wait()
            if peer.process.stdin is not None:
                peer.process.stdin.close()
            peer.end_reading()
