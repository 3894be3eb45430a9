"""Starts, kills and restarts the daemons of a configuration as processes, and merges their traces."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec
from tests.support.waiting import until

from hopring.check import trace
from hopring.check.judge import first_broken
from hopring.check.properties.property import Verdict
from hopring.check.trace_files import TraceRow, events
from hopring.config import Config, dump_toml

ROOT = Path(__file__).parents[2]
LOOK_SECONDS = 0.2
GOODBYE_SECONDS = 20.0


class DaemonProcesses:
    """The daemons of one configuration; use it as `with DaemonProcesses(...) as lives`."""

    def __init__(
        self,
        config: Config,
        directory: Path,
        around: Callable[[str], Sequence[str]] = lambda _: (),
        module: str = "tests.hopd.hopd_with_load",
        arguments: Sequence[str] = (),
    ) -> None:
        """`around` gives the words that a daemon's command line has before it; the module is run."""
        self._arguments = arguments
        self._module = module
        self.names = [daemon.name for daemon in config.daemons]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = dict.fromkeys(self.names, 0)
        self._around = around
        self._directory = directory
        self._file = directory / "hop.toml"
        self._file.write_text(dump_toml(config))
        self._decoder = msgspec.json.Decoder(TraceRow)

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
        """Starts these daemons, or all."""
        for name in names or self.names:
            self._starts[name] += 1
            command = [*self._around(name), sys.executable, "-m", self._module, str(self._file)]
            command += [
                "--name",
                name,
                "--trace",
                str(self._trace(name)),
                "--state",
                str(self._directory),
                *self._arguments,
            ]
            with (self._directory / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=ROOT)

    def kill(self, name: str) -> None:
        """Ends a daemon without a word."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(GOODBYE_SECONDS)
        assert process.stdin is not None, "it was spoken to"
        process.stdin.close()
        self._starts[name] = self._begun(name)  # Perhaps it had not got so far.

    def stop(self, name: str) -> None:
        """Ends a daemon in an orderly way."""
        process = self.processes.pop(name)
        process.terminate()
        assert process.wait(GOODBYE_SECONDS) == 0, "it ends cleanly"
        assert process.stdin is not None, "it was spoken to"
        process.stdin.close()

    def load(self, per_second: int) -> None:
        """All daemons send so many messages per second; 0 ends it."""
        for process in self.processes.values():
            assert process.stdin is not None, "it is spoken to"
            process.stdin.write(b"%d\n" % per_second)
            process.stdin.flush()

    def log(self, name: str) -> str:
        """What a daemon said, in all its lives."""
        return (self._directory / f"{name}.log").read_text()

    # What happened.

    def rows(self, name: str) -> list[TraceRow]:
        """A daemon's trace up to now, in all its lives."""
        if not self._trace(name).exists():
            return []
        whole, newline, _torn = self._trace(name).read_bytes().rpartition(b"\n")
        return [self._decoder.decode(line) for line in (whole + newline).splitlines()]

    def members(self, name: str) -> set[str]:
        """The daemons of the view that a daemon is in; empty if this is not yet the view of a new life."""
        rows = [row for row in self.rows(name) if row.kind in ("view", "recover")]
        members = rows[-1].members if rows else None
        begun = self._begun(name) == self._starts[name]
        return {one.split("#")[0] for one in members} if members and begun else set()

    def together(self, *names: str) -> bool:
        """Whether these daemons, or all, are each in a view of just them."""
        wanted = names or tuple(self.names)
        return all(self.members(name) == set(wanted) for name in wanted)

    def delivered(self, name: str, service: str = "") -> int:
        """How many messages a daemon has delivered."""
        return sum(row.kind == "deliver" and service in (row.service, "") for row in self.rows(name))

    def history(self) -> list[trace.Event]:
        """All traces, one behind the other; who was killed and has not come back has crashed."""
        history: list[trace.Event] = []
        for name in self.names:
            history += events(self.rows(name))
            if name not in self.processes and history and not isinstance(history[-1], trace.Crash):
                history.append(trace.Crash(history[-1].process, history[-1].at_us))
        return history

    def verdict(self) -> Verdict | None:
        """What is broken, if the living were together and at rest now."""
        return first_broken(self.history(), quiet_end=True, components=[sorted(self.processes)])

    # Waiting.

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Waits for something, and fails if it does not come."""

        def met() -> bool:
            dead = [name for name, one in self.processes.items() if one.poll() is not None]
            assert not dead, f"{dead} ended by themselves"
            return condition()

        until(met, seconds=seconds, look_seconds=LOOK_SECONDS)

    def wait_for_more(self, names: Sequence[str], more: int) -> None:
        """Waits until each of these has delivered so many messages more."""
        goals = {name: self.delivered(name) + more for name in names}
        self.wait(lambda: all(self.delivered(name) >= goal for name, goal in goals.items()))

    def wait_for_a_good_end(self, seconds: float = 60.0) -> None:
        """Ends the load and waits until nothing is missing; what cannot be mended is told in the end."""
        self.load(0)
        self.come_to_rest(seconds, 1.0)

    def come_to_rest(self, seconds: float = 10.0, look_seconds: float = 0.1) -> None:
        """Waits until nothing is missing: the last word of a client that has ended may still be on its way."""
        until(lambda: self.verdict() is None, self.verdict, seconds, look_seconds)

    def _begun(self, name: str) -> int:
        return sum(row.kind == "recover" for row in self.rows(name))

    def _trace(self, name: str) -> Path:
        return self._directory / f"{name}.jsonl"
