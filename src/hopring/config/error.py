"""Errors in a configuration: what is wrong, on which line, and the remedy.

The line is found by looking at table headers and at the beginnings of lines only: good enough for files that
people write. Inside inline tables and multi-line strings it may miss; then the line of the enclosing table is
used.
"""

from hopring.errors import HopError


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
