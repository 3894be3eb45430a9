"""What a check found: a line that is good, a finding with its remedy, or what could not be looked at."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    FINDING = "finding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    verdict: Verdict
    subject: str  # A daemon, a pair of them, or the host.
    text: str
    remedy: str = ""

    def facts(self) -> dict[str, str]:
        """For scripts."""
        return asdict(self)


@dataclass(slots=True)
class Chart:
    """All that was looked at, in its order."""

    checks: list[Check] = field(default_factory=list)

    def good(self, subject: str, text: str) -> None:
        """Nothing wrong here."""
        self.checks.append(Check(Verdict.OK, subject, text))

    def finding(self, subject: str, text: str, remedy: str) -> None:
        """Something to be done."""
        self.checks.append(Check(Verdict.FINDING, subject, text, remedy))

    def unknown(self, subject: str, text: str, remedy: str = "") -> None:
        """It cannot be told from here; what would make it possible."""
        self.checks.append(Check(Verdict.UNKNOWN, subject, text, remedy))

    @property
    def findings(self) -> list[Check]:
        """What is to be done."""
        return [one for one in self.checks if one.verdict is Verdict.FINDING]
