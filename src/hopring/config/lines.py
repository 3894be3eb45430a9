"""Finds the line of a key path in a TOML text, so that an error can name it.

Looks at headers and at the beginnings of lines only: good enough for files that people write. Inside inline
tables and multi-line strings it may miss, and then the line of what encloses the key has to do.
"""

import re
from typing import Final

_STEP: Final = re.compile(r"""\[(\d+)\]|"([^"]*)"|'([^']*)'|([^\s."'\[\]]+)""")
_HEADER: Final = re.compile(r"\s*(\[\[?)([^\[\]]+)\]")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")

_Path = tuple[str | int, ...]


def find_line(text: str, where: str) -> int | None:
    """The line of this key, or else of the closest table around it that has one."""
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
    """The path of a header, with the index of every array that it passes."""
    path: _Path = ()
    for at, step in enumerate(header):
        path = (*path, step)
        if is_array and at == len(header) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path
