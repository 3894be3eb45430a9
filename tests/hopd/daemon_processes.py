"""Starts, kills and restarts the daemons of a configuration as processes, and merges their traces."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec
from tests.support.keys import with_keys
from tests.support.waiting import until

from hopring.check import trace
from hopring.check.judge import first_broken
from hopring.check.properties.property import Verdict
from hopring.check.trace_files import TraceRow, events
from hopring.config import Config, dump_toml

ROOT = Path(__file__).parents[2]
LOOK_SECONDS = 0.2
GOODBYE_SECONDS = 60.0


class GrowingTrace:
    """The trace file of a daemon that writes it; each line is read once, when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[TraceRow] = []
        self._read_bytes = 0
        self._decoder = msgspec.json.Decoder(TraceRow)

    def rows(self) -> list[TraceRow]:
        """All rows up to now."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read_bytes)
                # A line that is not whole is completed later, or cut off when the daemon starts again.
                whole, newline, _torn = file.read().rpartition(b"\n")
            self._rows += [self._decoder.decode(line) for line in whole.splitlines()]
            self._read_bytes += len(whole + newline)
        return self._rows


class DaemonProcesses:
    """The daemons of one configuration; use it as `with DaemonProcesses(...) as daemons`."""

    def __init__(
        self,
        config: Config,
        directory: Path,
        around: Callable[[str], Sequence[str]] = lambda _: (),
        module: str = "tests.hopd.hopd_with_load",
        arguments: Sequence[str] = (),
    ) -> None:
        """`around` returns arguments that precede a daemon's command.

        `module` is the Python module that is run.
        """
        self._arguments = arguments
        self._module = module
        self.names = [daemon.name for daemon in config.daemons]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = dict.fromkeys(self.names, 0)
        self._around = around
        self._directory = directory
        self._file = directory / "hop.toml"
        self._file.write_text(dump_toml(with_keys(config, directory)))
        self._traces = {name: GrowingTrace(directory / f"{name}.jsonl") for name in self.names}

    def __enter__(self) -> "DaemonProcesses":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(GOODBYE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(GOODBYE_SECONDS)
        if kind is not None:
            for name in self.names:
                print(f"--- {name}\n{self.log(name)[-4_000:]}")

    def start(self, *names: str) -> None:
        """Starts the named daemons, or all of them."""
        for name in names or self.names:
            self._starts[name] += 1
            command = [*self._around(name), sys.executable, "-m", self._module, str(self._file)]
            command += [
                "--name",
                name,
                "--trace",
                str(self._traces[name].path),
                "--state",
                str(self._directory),
                *self._arguments,
            ]
            with (self._directory / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=ROOT)

    def kill(self, name: str) -> None:
        """Kills a daemon with SIGKILL."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(GOODBYE_SECONDS)
        assert process.stdin is not None, "stdin is a pipe"
        process.stdin.close()
        self._starts[name] = self._begun(name)  # It may have been killed before it recorded its start.

    def stop(self, name: str) -> None:
        """Ends a daemon with SIGTERM."""
        process = self.processes.pop(name)
        process.terminate()
        assert process.wait(GOODBYE_SECONDS) == 0, "the daemon failed"
        assert process.stdin is not None, "stdin is a pipe"
        process.stdin.close()

    def load(self, per_second: int) -> None:
        """Sets the messages per second that each daemon sends; 0 stops the load."""
        for process in self.processes.values():
            assert process.stdin is not None, "stdin is a pipe"
            process.stdin.write(b"%d\n" % per_second)
            process.stdin.flush()

    def log(self, name: str) -> str:
        """The log of a daemon, over all its starts."""
        return (self._directory / f"{name}.log").read_text()

    # What the traces show.

    def rows(self, name: str) -> list[TraceRow]:
        """A daemon's trace up to now, over all its starts."""
        return self._traces[name].rows()

    def members(self, name: str) -> set[str]:
        """The members of a daemon's view; empty until it has installed one since its last start."""
        rows = [row for row in self.rows(name) if row.kind in ("view", "recover")]
        members = rows[-1].members if rows else None
        begun = self._begun(name) == self._starts[name]
        return {one.split("#")[0] for one in members} if members and begun else set()

    def together(self, *names: str) -> bool:
        """Whether each of these daemons, or of all, is in a view of exactly them."""
        wanted = names or tuple(self.names)
        return all(self.members(name) == set(wanted) for name in wanted)

    def delivered(self, name: str, service: str = "") -> int:
        """Counts the messages that a daemon has delivered."""
        return sum(row.kind == "deliver" and service in (row.service, "") for row in self.rows(name))

    def history(self) -> list[trace.Event]:
        """All traces, concatenated; a daemon that was killed and has not come back counts as crashed."""
        history: list[trace.Event] = []
        for name in self.names:
            history += events(self.rows(name))
            if name not in self.processes and history and not isinstance(history[-1], trace.Crash):
                history.append(trace.Crash(history[-1].process, history[-1].at_us))
        return history

    def verdict(self) -> Verdict | None:
        """The first broken property, if the running daemons were in one view and idle now."""
        return first_broken(self.history(), quiet_end=True, components=[sorted(self.processes)])

    # Waits with deadlines.

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Waits for a condition; fails at the deadline or when a daemon ends."""

        def met() -> bool:
            dead = [name for name, one in self.processes.items() if one.poll() is not None]
            assert not dead, f"{dead} ended by themselves"
            return condition()

        until(met, seconds=seconds, look_seconds=LOOK_SECONDS)

    def wait_for_more(self, names: Sequence[str], more: int) -> None:
        """Waits until each of these daemons has delivered this many more messages."""
        goals = {name: self.delivered(name) + more for name in names}
        self.wait(lambda: all(self.delivered(name) >= goal for name, goal in goals.items()))

    def wait_for_a_good_end(self, seconds: float = 60.0) -> None:
        """Stops the load and waits until no property is broken; fails with the verdict at the deadline."""
        self.load(0)
        self.come_to_rest(seconds, 1.0)

    def come_to_rest(self, seconds: float = 60.0, look_seconds: float = 0.1) -> None:
        """Waits until no property is broken: the end of a client that disconnected may not be ordered yet."""
        until(lambda: self.verdict() is None, self.verdict, seconds, look_seconds)

    def _begun(self, name: str) -> int:
        return sum(row.kind == "recover" for row in self.rows(name))
