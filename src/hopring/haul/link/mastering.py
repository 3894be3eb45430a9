"""Which member of a cluster does what: who dials a peer, who hands a set over, and when to dial again.

Implements  Makpangou and Birman, 5.1: one master connection for each pair of clusters, spread over the members
            of the service; a backup as soon as a member dies.
Invariants  the result depends on the arguments alone, so all members come to the same. No member has two more
            than another one, and nothing moves that need not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

REDIAL_US: Final = 1_000_000
REDIAL_US_MAX: Final = 60_000_000

_Task = TypeVar("_Task", bound=int | str)


def spread(had: dict[_Task, str], tasks: Iterable[_Task], members: tuple[str, ...]) -> dict[_Task, str]:
    """A member for each task: the one that had it if it is here, and evenly."""
    assert members, "somebody is here"
    of: dict[str, list[_Task]] = {one: [] for one in sorted(members)}
    free: list[_Task] = []
    for task in sorted(tasks):
        of.get(had.get(task, ""), free).append(task)
    for task in free:
        of[_least(of)].append(task)
    while True:
        most = max(sorted(of), key=lambda one: len(of[one]))
        least = _least(of)
        if len(of[most]) - len(of[least]) < 2:
            break
        of[least].append(of[most].pop())
    return {task: member for member, theirs in of.items() for task in theirs}


def _least(of: dict[str, list[_Task]]) -> str:
    return min(sorted(of), key=lambda one: len(of[one]))


@dataclass(slots=True)
class Redial:
    """When a member dials a peer again: soon at first, then ever later."""

    salt: int = 0  # Of this member and peer: spreads the attempts of many over time.
    at_us: int = 0
    failures: int = 0

    def failed(self, now_us: int) -> None:
        """An attempt has ended; the next one follows after half the wait to all of it."""
        wait_us = min(REDIAL_US_MAX, REDIAL_US << min(self.failures, 10))
        self.failures += 1
        share = (self.salt * 2_654_435_761 + self.failures * 40_503) % 1_000
        self.at_us = now_us + wait_us * (1_000 + share) // 2_000

    def succeeded(self) -> None:
        """A connection is open: the next attempt after it is soon."""
        self.failures = 0
        self.at_us = 0
