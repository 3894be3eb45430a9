"""Runs parts of the tests, which are make targets, stage by stage: `run_parts.py --minutes LIMIT STAGE...`.

A stage is one target, or several joined by `+`, which run side by side. What is printed is the output of one
part after the other, however they overlap: the first part of a stage is shown while it runs, and each other
when those before it have ended. The first part of a stage has the processors before the second, and so on:
put the part whose timers matter first. All parts are run, also after one has failed; one that takes longer than
the limit fails, and is ended with all that it has started. The last lines have the seconds of each part; the
exit code is 1 if one failed.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

LOOK_SECONDS: Final = 0.2
NICER: Final = 2
"""How much lower the priority of each further part of a stage is; 2 means two thirds of a processor's time."""
GOODBYE_SECONDS: Final = 30.0
INTERRUPTED: Final = 130


class Part:
    """A running target, whose output goes to a file that can be read meanwhile."""

    def __init__(self, target: str, niceness: int) -> None:
        self.target = target
        self.seconds = 0.0
        self.ended = Event()
        self._begun_s = time.monotonic()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  Open until the part is printed.
        command = ["nice", "-n", str(niceness), "make", "--no-print-directory", target]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT
        )
        self.late = False
        Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._process.wait()
        self.seconds = time.monotonic() - self._begun_s
        self.ended.set()

    @property
    def failed(self) -> bool:
        return self._process.returncode != 0

    def follow(self, minutes_max: float) -> None:
        """Prints the output from its beginning, and returns at its end; after so many minutes it is ended."""
        with open(os.dup(self._output.fileno()), "rb") as output:
            at = 0
            while True:
                last = self.ended.is_set()
                while chunk := os.pread(output.fileno(), 1 << 16, at):
                    at += len(chunk)
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
                if last:
                    return
                if not self.late and time.monotonic() - self._begun_s > 60 * minutes_max:
                    self.late = True
                    self.stop()
                self.ended.wait(LOOK_SECONDS)

    def stop(self) -> None:
        """Terminates the part and all that it has started, and kills what is left after a while."""
        pids = with_descendants(self._process.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if number == signal.SIGTERM:
                self.ended.wait(GOODBYE_SECONDS)

    def end(self) -> None:
        """Waits for a part that was interrupted, and ends it if it goes on."""
        if not self.ended.wait(GOODBYE_SECONDS):
            self.stop()
            self.ended.wait(GOODBYE_SECONDS)


def with_descendants(pid: int) -> list[int]:
    """A process, its children, their children and so on."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = {int(child): int(parent) for child, parent in map(str.split, listed.stdout.splitlines())}
    found = [pid]
    for one in found:  # It grows meanwhile.
        found += [child for child, parent in parents.items() if parent == one]
    return found


@contextmanager
def undisturbed() -> Iterator[None]:
    """Interrupts that come in this block are raised at its end."""
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def started(targets: Sequence[str]) -> Iterator[list[Part]]:
    """Starts the parts of a stage, and leaves none behind."""
    parts: list[Part] = []
    try:
        # An interrupt before a part is known here would leave it behind.
        with undisturbed():
            for number, target in enumerate(targets):
                parts.append(Part(target, NICER * number))
        yield parts
    finally:
        for part in parts:
            part.end()


def run(stages: Sequence[str], minutes_max: float) -> list[Part]:
    done: list[Part] = []
    for stage in stages:
        with started(stage.split("+")) as parts:
            for part in parts:
                print(f"\n==== {part.target}", flush=True)
                part.follow(minutes_max)
        done += parts
    return done


def outcome(part: Part) -> str:
    if part.late:
        return "  TOO LATE"
    return "  FAILED" if part.failed else ""


def main() -> int:
    """Runs the stages that are named on the command line."""
    options = argparse.ArgumentParser()
    options.add_argument("--minutes", type=float, required=True, help="that a part may take")
    options.add_argument("stages", nargs="+")
    wanted = options.parse_args()
    if not shutil.which("make"):
        print("there is no make on the PATH: install it", file=sys.stderr)
        return 1
    # A terminated runner interrupts its parts, as Ctrl-C does, which goes to all of them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun_s = time.monotonic()
    try:
        parts = run(wanted.stages, wanted.minutes)
    except KeyboardInterrupt:
        return INTERRUPTED
    print()
    for part in parts:
        print(f"{part.seconds:6.0f} s  {part.target}{outcome(part)}")
    print(f"{time.monotonic() - begun_s:6.0f} s  together")
    return int(any(part.failed or part.late for part in parts))


if __name__ == "__main__":
    sys.exit(main())
