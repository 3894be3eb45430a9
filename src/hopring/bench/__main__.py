"""Runs the benches of the suite, each in a process of its own, one after the other.

    python -m hopring.bench [NAME ...]

Figures go to stdout as JSON lines, each with the name of its bench; progress and a table of all go to stderr.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hopring.bench import suite

NAMES: Final = sorted(path.stem for path in Path(*suite.__path__).glob("[a-z]*.py"))
_TITLE_KEYS: Final = ("bench", "case")

BenchFigures = dict[str, object]
TableRow = tuple[str, str, str]
"""Bench and case, the name of a figure, its value."""


def run(name: str) -> Iterator[BenchFigures]:
    """Yields the figures of one bench as they arrive; raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", f"hopring.bench.suite.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "figures come through a pipe"
        for line in process.stdout:
            figures: BenchFigures = json.loads(line)
            yield {"bench": name} | figures | {"bench": name}
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def flatten(figures: BenchFigures, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested figures under dotted names."""
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def rows(figures: BenchFigures) -> list[TableRow]:
    """One table row for each figure."""
    title = " ".join(str(figures[key]) for key in _TITLE_KEYS if key in figures)
    rest = {key: value for key, value in figures.items() if key not in _TITLE_KEYS}
    return [(title, name, str(value)) for name, value in flatten(rest)]


def print_table(table: list[TableRow]) -> None:
    """Prints the table to stderr, with each title once."""
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    last = ""
    for title, name, value in table:
        shown = "" if title == last else title
        print(f"{shown:{widths[0]}}  {name:{widths[1]}}  {value:>{widths[2]}}", file=sys.stderr)
        last = title


def main() -> int:
    """Runs the benches named on the command line; returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m hopring.bench", description="Run benches of the suite.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(NAMES)}")
    table: list[TableRow] = []
    failed = False
    for name in names or NAMES:
        print(f"bench: {name} ...", file=sys.stderr)
        try:
            for figures in run(name):
                print(json.dumps(figures), flush=True)
                table += rows(figures)
        except subprocess.CalledProcessError as error:
            print(f"bench: {name} failed with exit code {error.returncode}", file=sys.stderr)
            failed = True
    if table:
        print_table(table)
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
