"""Peers as processes: each joins a group, sends, and prints what it gets as lines of JSON."""

import json
import os
import subprocess
import sys
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
        assert process.stdout is not None
        self._out = process.stdout
        self._rest = ""
        os.set_blocking(self._out.fileno(), False)

    def read(self) -> None:
        """Takes the lines that it has printed."""
        while line := self._out.readline():
            self._rest += line
            if self._rest.endswith("\n"):  # Otherwise the program is still writing it.
                self.lines.append(json.loads(self._rest))
                self._rest = ""

    def tell(self, text: str) -> None:
        """Sends it one line: a message to multicast, or `leave`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def of(self, kind: str) -> list[Any]:
        """The values of all lines of one kind."""
        self.read()
        return [one[kind] for one in self.lines if kind in one]

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
            for pipe in (peer.process.stdin, peer.process.stdout):
                if pipe is not None:
                    pipe.close()
