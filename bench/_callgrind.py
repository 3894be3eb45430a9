"""What callgrind counted, by compiled function: its own instructions, and what it has Python's library do."""

import re
from collections import Counter
from pathlib import Path

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_AGAIN = re.compile(r"'\d+$")  # Callgrind tells a function that calls itself apart from itself.
_COMPILED = ("CPyDef_", "CPyPy_")
_DOORS = ("PyObject_Vectorcall", "PyObject_Call")
_DOOR_MAX = 4_000
"""A call of anything by the library that takes more than this is taken to lead back into compiled code."""


class Counts:
    """One output file of callgrind."""

    def __init__(self, file: Path) -> None:
        self.own: Counter[str] = Counter()
        """By function, itself alone."""
        self._names: dict[str, str] = {}
        self._calls: dict[tuple[str, str], list[int]] = {}
        self._read(file)

    @property
    def total(self) -> int:
        """All of it."""
        return self.own.total()

    def by_function(self) -> Counter[str]:
        """By compiled function: itself, and what it has Python's library do."""
        found = Counter({name: count for name, count in self.own.items() if name.startswith(_COMPILED)})
        for (caller, callee), (calls, count) in self._calls.items():
            leads_back = callee.startswith(_DOORS) and count > _DOOR_MAX * calls
            if caller.startswith(_COMPILED) and not callee.startswith(_COMPILED) and not leads_back:
                found[caller] += count
        return found

    def _read(self, file: Path) -> None:
        caller = callee = ""
        calls = 0
        for line in file.read_text().splitlines():
            if line.startswith("fn="):
                caller = self._name(line[3:])
            elif line.startswith("cfn="):
                callee = self._name(line[4:])
            elif line.startswith("calls="):
                calls = int(line[6:].split()[0])
            elif re.match(r"[\d+*-]", line) and len(line.split()) > 1:
                count = int(line.split()[1])
                if calls:
                    known = self._calls.setdefault((caller, callee), [0, 0])
                    known[0] += calls
                    known[1] += count
                    calls = 0
                else:
                    self.own[caller] += count

    def _name(self, text: str) -> str:
        found = _NAME.match(text)
        assert found is not None, "callgrind gives each function a number"
        if found[2]:
            self._names[found[1]] = found[2]
        return _AGAIN.sub("", self._names[found[1]])
