"""What a check found: a line that is good, a finding with its remedy, or what could not be looked at."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class CheckVerdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    FINDING = "finding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that was looked at."""

    verdict: CheckVerdict
    subject: str  # A daemon, a pair of them, or the host.
    text: str
    remedy: str = ""

    def facts(self) -> dict[str, str]:
        """For scripts."""
        return asdict(self)


@dataclass(slots=True)
class DoctorReport:
    """All that was looked at, in its order."""

    checks: list[DoctorCheck] = field(default_factory=list)

    def good(self, subject: str, text: str) -> None:
        """Nothing wrong here."""
        self.checks.append(DoctorCheck(CheckVerdict.OK, subject, text))

    def finding(self, subject: str, text: str, remedy: str) -> None:
        """Something to be done."""
        self.checks.append(DoctorCheck(CheckVerdict.FINDING, subject, text, remedy))

    def unknown(self, subject: str, text: str, remedy: str = "") -> None:
        """It cannot be told from here; what would make it possible."""
        self.checks.append(DoctorCheck(CheckVerdict.UNKNOWN, subject, text, remedy))

    @property
    def findings(self) -> list[DoctorCheck]:
        """What is to be done."""
        return [one for one in self.checks if one.verdict is CheckVerdict.FINDING]
