"""Runs parts of the tests, which are make targets, stage by stage: `run_parts.py STAGE...`.

A stage is one target, or several joined by `+`, which run side by side. What is printed is the output of one
part after the other, however they overlap: the first part of a stage is shown while it runs, and each other
when those before it have ended. The first part of a stage has the processors before the second, and so on:
put the part whose timers matter first. All parts are run, also after one has failed. The last lines have the
seconds of each part; the exit code is 1 if one failed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

LOOK_SECONDS: Final = 0.2
NICER: Final = 5
"""How much lower the priority of each further part of a stage is; 5 means a third of a processor's time."""
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
        Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._process.wait()
        self.seconds = time.monotonic() - self._begun_s
        self.ended.set()

    @property
    def failed(self) -> bool:
        return self._process.returncode != 0

    def follow(self) -> None:
        """Prints the output from its beginning, and returns at its end."""
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
                self.ended.wait(LOOK_SECONDS)

    def end(self) -> None:
        """Waits for a part that was interrupted, and terminates it if it goes on."""
        if not self.ended.wait(GOODBYE_SECONDS):
            self._process.terminate()
            self.ended.wait(GOODBYE_SECONDS)


@contextmanager
def started(targets: Sequence[str]) -> Iterator[list[Part]]:
    """Starts the parts of a stage, and leaves none behind."""
    parts: list[Part] = []
    try:
        parts += [Part(target, NICER * number) for number, target in enumerate(targets)]
        yield parts
    finally:
        for part in parts:
            part.end()


def run(stages: Sequence[str]) -> list[Part]:
    done: list[Part] = []
    for stage in stages:
        with started(stage.split("+")) as parts:
            for part in parts:
                print(f"\n==== {part.target}", flush=True)
                part.follow()
        done += parts
    return done


def main() -> int:
    """Runs the stages that are named on the command line."""
    if not shutil.which("make"):
        print("there is no make on the PATH: install it", file=sys.stderr)
        return 1
    # A terminated runner interrupts its parts, as Ctrl-C does, which goes to all of them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun_s = time.monotonic()
    try:
        parts = run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    print()
    for part in parts:
        print(f"{part.seconds:6.0f} s  {part.target}{'  FAILED' if part.failed else ''}")
    print(f"{time.monotonic() - begun_s:6.0f} s  together")
    return int(any(part.failed for part in parts))


if __name__ == "__main__":
    sys.exit(main())
