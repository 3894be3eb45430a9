"""Runs benches, each in a process of its own, one after the other.

    python -m bench [NAME ...]

Their JSON lines go to stdout, each with the bench's name; words go to stderr, with a table of all figures at
the end. A bench that needs root is left out without it, unless it is named.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NAMES: Final = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
NEED_ROOT: Final = frozenset({"fairness"})
_WORDS: Final = ("bench", "case")

Figures = dict[str, object]


def run(name: str) -> Iterator[Figures]:
    """The figures of one bench as they come; raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", f"bench.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "figures come through a pipe"
        for line in process.stdout:
            figures: Figures = json.loads(line)
            yield {"bench": name} | figures | {"bench": name}
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def flatten(figures: Figures, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested figures under dotted names."""
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def rows(figures: Figures) -> list[tuple[str, str, str]]:
    """What the table says: bench and case, the name of a figure, the figure."""
    title = " ".join(str(figures[word]) for word in _WORDS if word in figures)
    rest = {key: value for key, value in figures.items() if key not in _WORDS}
    return [(title, name, str(value)) for name, value in flatten(rest)]


def show(table: list[tuple[str, str, str]]) -> None:
    """The table on stderr, with each title once."""
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    last = ""
    for title, name, value in table:
        shown = "" if title == last else title
        print(f"{shown:{widths[0]}}  {name:{widths[1]}}  {value:>{widths[2]}}", file=sys.stderr)
        last = title


def chosen(names: list[str]) -> list[str]:
    """The benches to run: those named, or all that can run here."""
    if names:
        return names
    left_out = [] if os.geteuid() == 0 else sorted(NEED_ROOT)
    for name in left_out:
        print(f"bench: {name} needs root and is left out", file=sys.stderr)
    return [name for name in NAMES if name not in left_out]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(NAMES)}")
    table: list[tuple[str, str, str]] = []
    failed = False
    for name in chosen(names):
        print(f"bench: {name} ...", file=sys.stderr)
        try:
            for figures in run(name):
                print(json.dumps(figures), flush=True)
                table += rows(figures)
        except subprocess.CalledProcessError as error:
            print(f"bench: {name} failed with exit code {error.returncode}", file=sys.stderr)
            failed = True
    if table:
        show(table)
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
