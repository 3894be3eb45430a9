"""The nodes of the demonstration as processes: started together, spoken to, and never left behind.

A node ends when its stdin does. So leaving the block ends them all, and so does any end of this process.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hopring.cli.demo.figures import Counts
from hopring.cli.demo.history import History
from hopring.cli.demo.words import (
    Command,
    Count,
    Counted,
    Ended,
    Event,
    Lines,
    Ready,
    Received,
    Sent,
    Started,
    Unable,
    decode_events,
    encode_line,
)
from hopring.config import Config, dump_toml
from hopring.daemon.loop import Loop
from hopring.errors import HopError

READY_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 30.0
GOODBYE_SECONDS: Final = 3.0
LOOK_US: Final = 100_000
_PIPE_BYTES: Final = 1 << 20  # So much may be said before a node has to wait for us.


class ClusterError(HopError):
    """The nodes could not do what was asked of them."""


class PortTaken(ClusterError):
    """Somebody was faster; with other ports it may work."""


class NetworkEnded(ClusterError):
    """A network ended although nobody cut anything."""


class Cluster:
    """One process for each daemon of a configuration; use it as `with Cluster(...).open() as cluster`."""

    def __init__(self, config: Config, directory: Path) -> None:
        self.config = config
        self.history = History()
        self.site_of = {daemon.name: site.name for site in config.sites for daemon in site.daemons}
        self.incarnations: dict[str, int] = {}
        self._directory = directory
        self._loop = Loop()
        self._awake = self._loop.alarm(lambda: None)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lines = {name: Lines() for name in self.site_of}
        self._counts: dict[str, Counted] = {}
        self._problem: ClusterError | None = None

    def open(self) -> Self:
        """Starts all nodes and waits for their sockets."""
        try:
            self._spawn_all()
            self.wait(
                lambda: len(self.incarnations) == len(self.site_of), READY_SECONDS, "the daemons to start"
            )
        except BaseException:
            self.close()
            raise
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def now_us(self) -> int:
        """The clock that all nodes share."""
        return self._loop.now_us()

    def tell(self, name: str, command: Command) -> None:
        """Tells one node to do something."""
        pipe = self._processes[name].stdin
        assert pipe is not None, "nodes are spoken to through a pipe"
        try:
            pipe.write(encode_line(command))
            pipe.flush()
        except BrokenPipeError:
            raise self._died(name) from None

    def tell_all(self, command: Command) -> None:
        """Tells all nodes the same."""
        for name in self.site_of:
            self.tell(name, command)

    def wait(
        self,
        condition: Callable[[], bool],
        seconds: float,
        purpose: str,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Listens to the nodes until the condition holds, and looks in every now and then."""
        if not self.listen(condition, seconds, look):
            raise ClusterError(f"waited {seconds:.0f} s in vain for {purpose}")

    def listen(
        self, condition: Callable[[], bool], seconds: float, look: Callable[[], None] = lambda: None
    ) -> bool:
        """The same, but it is no error if the condition does not hold at last."""
        late_us = self.now_us() + int(seconds * 1_000_000)
        while not condition():
            if self.now_us() >= late_us:
                return False
            self._awake.set(self.now_us() + LOOK_US)
            self._loop.turn()
            if self._problem is not None:
                raise self._problem
            look()
        return True

    def count(self) -> Counts:
        """What all links to other sites have carried so far."""
        self._counts.clear()
        self.tell_all(Count())
        self.wait(lambda: len(self._counts) == len(self.site_of), ANSWER_SECONDS, "the counts of all daemons")
        return {
            (name, peer): count
            for name, counted in self._counts.items()
            for peer, count in counted.links.items()
        }

    def close(self) -> None:
        """Ends all nodes: politely, then firmly."""
        for process in self._processes.values():
            assert process.stdin is not None, "nodes are spoken to through a pipe"
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            if process.stdout is not None:
                process.stdout.close()
        self._await_end()
        for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
            for process in self._alive():
                end(process)
            self._await_end()
        for name in self._processes:
            if not self._log(name).stat().st_size:
                self._log(name).unlink()
        self._loop.close()

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._processes.values() if process.poll() is None]

    def _await_end(self) -> None:
        for process in self._alive():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GOODBYE_SECONDS)

    def _spawn_all(self) -> None:
        file = self._directory / "hop.toml"
        file.write_text(dump_toml(self.config))
        for name in self.site_of:
            process = self._spawn(file, name)
            self._processes[name] = process
            assert process.stdout is not None, "nodes are heard through a pipe"
            self._loop.register(process.stdout.fileno(), partial(self._hear, name, process.stdout.fileno()))

    def _spawn(self, file: Path, name: str) -> subprocess.Popen[bytes]:
        with self._log(name).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "hopring.cli.demo.node", str(file), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pipesize=_PIPE_BYTES,
                start_new_session=True,  # Ctrl-C is for us; we end the nodes.
            )

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _hear(self, name: str, fd: int, _events: int) -> None:
        chunk = os.read(fd, _PIPE_BYTES)
        for event in decode_events(self._lines[name].add(chunk)):
            self._take(name, event)
        if not chunk:
            self._loop.unregister(fd)
            self._problem = self._problem or self._died(name)

    def _take(self, name: str, event: Event) -> None:
        match event:
            case Ready(incarnation):
                self.incarnations[name] = incarnation
            case Unable(problem):
                self._problem = PortTaken(problem)
            case Counted():
                self._counts[name] = event
            case Started() | Sent() | Received() | Ended():
                self.history.add(event)

    def _died(self, name: str) -> ClusterError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[name].wait(GOODBYE_SECONDS)
        what = f"daemon {name} died with exit code {self._processes[name].returncode}"
        return ClusterError(f"{what}; see {self._log(name)}" if self._log(name).stat().st_size else what)
