"""Runs the programs of examples/ as users run them, and reads their output line by line."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 240.0


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a program that is ended with the block."""
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, *words], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    )
    # The end of the process ends the reading of its output, so nothing waits longer.
    alarm = threading.Timer(SECONDS_MAX, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.wait(SECONDS_MAX)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def example(name: str) -> str:
    """The path of an example."""
    return str(ROOT / "examples" / name)


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """The output of the program, up to the first line that contains this text."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or last not in lines[-1]:
        line = process.stdout.readline()
        assert line, f"the program ended: {lines}"
        lines.append(line.rstrip("\n"))
    return lines
