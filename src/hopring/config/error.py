"""What is wrong with a configuration, where, and what to do about it."""

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
        """The same with the line it was found to be on."""
        return ConfigError(self.file, self.where, self.problem, self.remedy, line)
