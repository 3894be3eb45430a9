"""The form of a property: its statement, and how it is checked among daemons and among clients.

A *promise* is the property as one of the two have it: the plain check, which takes an indexed history and
returns a witness or nothing, and the query, which returns its violations as rows over the tables of the audit.
Where clients are promised the same as daemons, their check is that of daemons, over each group or over all.

A `Verdict` is the result of a check: the name of a property, and the shortest witness if it is broken.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Generic, NamedTuple, TypeVar

from hopring.check.client_history import ClientHistory
from hopring.check.history import History
from hopring.check.properties.sql import Masks


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


EVS_C: Final = "EVS-C "
"""The names of clients' properties begin with it."""

H = TypeVar("H", History, ClientHistory)
Check = Callable[[H], str]
Query = Callable[[Masks], str]


@dataclass(frozen=True, slots=True)
class PropertyInstance(Generic[H]):
    """A property as daemons or clients have it; it holds in every history where the check finds nothing.

    The query returns nothing there either. It has a column `run` and the columns that the sentence names. Of
    several violations the least is shown, compared by the columns from left to right.
    """

    check: Check[H]
    query: Query
    sentence: str  # The witness of a violation, with the names of columns in braces.
    when_quiet: bool = False  # Judged only where all had come to rest at the end.
    with_components: bool = False  # Judged only where it is known who could reach whom at the end.
    per_session: bool = False  # Not judged by query where a daemon speaks for several sessions.
    name: str = ""

    def is_judged(self, quiet: bool, components_known: bool) -> bool:
        """Whether it can be judged of a history that ended in this way."""
        return (quiet or not self.when_quiet) and (components_known or not self.with_components)

    def judge(self, history: H) -> Verdict:
        """The verdict on one history."""
        witness = self.check(history)
        return Verdict(self.name, not witness, witness)


class Clause(NamedTuple):
    """A part of a property for the page that documents it."""

    part: str  # Such as `(2)`; empty if the property has one part.
    statement: str  # In one sentence.
    daemons: str  # As it is checked among daemons.
    clients: str = ""  # As it is checked among clients; empty where it is the same.
    beyond: str = ""  # A demand on daemons beyond plain EVS.


@dataclass(frozen=True, slots=True)
class Property:
    """One property of the thesis, or one of ours."""

    name: str  # As verdicts print it: its number in the thesis and its title.
    clauses: tuple[Clause, ...]
    daemons: PropertyInstance[History] | None = None
    clients: PropertyInstance[ClientHistory] | None = None
    statement: str = ""  # In one sentence; that of the first clause, if nothing is said.

    def __post_init__(self) -> None:
        if not self.statement:
            object.__setattr__(self, "statement", self.clauses[0].statement)
        if self.daemons is not None:
            object.__setattr__(self, "daemons", replace(self.daemons, name=self.name))
        if self.clients is not None:
            object.__setattr__(self, "clients", replace(self.clients, name=EVS_C + self.name))

    def judge(self, history: History | ClientHistory) -> Verdict:
        """The verdict on one history, as a promise to those whose history it is."""
        if isinstance(history, History):
            assert self.daemons is not None, f"daemons are not promised: {self.name}"
            return self.daemons.judge(history)
        assert self.clients is not None, f"clients are not promised: {self.name}"
        return self.clients.judge(history)


def in_each_group(check: Check[History]) -> Check[ClientHistory]:
    """The check of daemons for clients, over the history of one group after the other."""

    def first_witness(history: ClientHistory) -> str:
        return next((witness for _, group in sorted(history.groups.items()) if (witness := check(group))), "")

    return first_witness


def over_all_groups(check: Check[History]) -> Check[ClientHistory]:
    """The check of daemons for clients, over all that sessions sent and delivered, whatever the group."""
    return lambda history: check(history.whole)
