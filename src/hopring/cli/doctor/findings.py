"""Results of the checks of `hop doctor`: good, a finding with its remedy, or unknown."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class CheckVerdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    FINDING = "finding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check and its result."""

    verdict: CheckVerdict
    subject: str  # A daemon, a pair of them, or the host.
    text: str
    remedy: str = ""

    def facts(self) -> dict[str, str]:
        """The check as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class DoctorReport:
    """All checks, in the order in which they were made."""

    checks: list[DoctorCheck] = field(default_factory=list)

    def good(self, subject: str, text: str) -> None:
        """Adds a check that found nothing wrong."""
        self.checks.append(DoctorCheck(CheckVerdict.OK, subject, text))

    def finding(self, subject: str, text: str, remedy: str) -> None:
        """Adds a finding with its remedy."""
        self.checks.append(DoctorCheck(CheckVerdict.FINDING, subject, text, remedy))

    def unknown(self, subject: str, text: str, remedy: str = "") -> None:
        """Adds a check that could not be made from here, and what would make it possible."""
        self.checks.append(DoctorCheck(CheckVerdict.UNKNOWN, subject, text, remedy))

    @property
    def findings(self) -> list[DoctorCheck]:
        """The checks that found something."""
        return [one for one in self.checks if one.verdict is CheckVerdict.FINDING]
