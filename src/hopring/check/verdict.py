"""The result of a check: the name of a property, and the shortest witness if it is broken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a property holds, and a witness if it does not."""

    property: str
    holds: bool
    witness: str = ""

    def __bool__(self) -> bool:
        return self.holds


def holds(name: str) -> Verdict:
    """The property holds in this history."""
    return Verdict(name, True)


def broken(name: str, witness: str) -> Verdict:
    """The property is broken, as the witness shows."""
    return Verdict(name, False, witness)
