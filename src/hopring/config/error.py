"""Errors in a configuration: what is wrong, on which line, and the remedy.

The line is found by looking at table headers and at the beginnings of lines only: good enough for files that
people write. Inside inline tables and multi-line strings it may miss; then the line of the enclosing table is
used.
"""

import re
from pathlib import Path
from typing import Final

from hopring.errors import HopError

CONFIG_BYTES_MAX: Final = 4 * 2**20
_STEP: Final = re.compile(r"""\[(\d+)\]|"([^"]*)"|'([^']*)'|([^\s."'\[\]]+)""")
_HEADER: Final = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_Path = tuple[str | int, ...]


class ConfigError(HopError, ValueError):
    """A configuration that cannot be used."""

    def __init__(self, file: str, where: str, problem: str, remedy: str, line: int | None = None) -> None:
        super().__init__(file, where, problem, remedy, line)
        self.file = file
        self.where = where  # A key path such as `sites.eu.daemons[1].port`, `line 3`, or nothing.
        self.problem = problem
        self.remedy = remedy
        self.line = line

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        where = "" if self.where == f"line {self.line}" else self.where
        return ": ".join([part for part in (place, where, self.problem) if part]) + f"; {self.remedy}"

    def on_line(self, line: int | None) -> "ConfigError":
        """The same error with its line."""
        return ConfigError(self.file, self.where, self.problem, self.remedy, line)


def read_limited(file: str) -> bytes:
    """The content of a configuration file; ConfigError if it cannot be read, or is too large to be one."""
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise ConfigError(file, "", problem, "check the path and its permissions") from None
    if len(content) > CONFIG_BYTES_MAX:
        raise ConfigError(file, "", f"larger than {CONFIG_BYTES_MAX} bytes", "is this the right file?")
    return content


def find_line(text: str, where: str) -> int | None:
    """The line of this key, or of the closest enclosing table that has one."""
    path = _steps(where)
    known = _known_lines(text)
    for length in range(len(path), 0, -1):
        if path[:length] in known:
            return known[path[:length]]
    return None


def _steps(where: str) -> _Path:
    return tuple(
        [
            int(found[1]) if found[1] else found[2] or found[3] or found[4] or ""
            for found in _STEP.finditer(where)
        ]
    )


def _known_lines(text: str) -> dict[_Path, int]:
    known: dict[_Path, int] = {}
    arrays: dict[_Path, int] = {}  # The index of each array's last table.
    table: _Path = ()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            table = _entered(_steps(header[2]), header[1] == "[[", arrays)
            known.setdefault(table, number)
        elif key := _KEY.match(line):
            known.setdefault(table + _steps(key[1]), number)
    return known


def _entered(header: _Path, is_array: bool, arrays: dict[_Path, int]) -> _Path:
    """The path of a header, with the index of every array on it."""
    path: _Path = ()
    for at, step in enumerate(header):
        path = (*path, step)
        if is_array and at == len(header) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path
