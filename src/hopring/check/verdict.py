"""What a check says: a property by its name in the thesis, and the shortest witness if it is broken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a property holds, and if not, one story that shows it."""

    property: str
    holds: bool
    witness: str = ""

    def __bool__(self) -> bool:
        return self.holds


def holds(name: str) -> Verdict:
    """The property holds in this history."""
    return Verdict(name, True)


def broken(name: str, witness: str) -> Verdict:
    """The property does not, and this is how one sees it."""
    return Verdict(name, False, witness)
