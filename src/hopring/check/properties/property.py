"""The form of a property: its statement, and how it is checked among daemons and among clients.

A *promise* is the property as one of the two have it: the plain check, which takes an indexed history and finds
violations, and the query, which returns the same violations as rows over the tables of the audit. Where clients
are promised the same as daemons, their check is that of daemons, over each group or over all.

A violation is identified by its facts: names and positions as the trace has them. The check and the query give
the same facts under the same names. So an audit names the same event, whichever of the two it runs.

A `Verdict` is the result of a check: the name of a property, and a witness if it is broken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from typing import Final, Generic, NamedTuple, TypeVar

from hopring.check.client_history import ClientHistory
from hopring.check.history import History
from hopring.check.properties.sql import Masks
from hopring.check.trace import MessageId, ProcessName
from hopring.check.trace_row import message_text, process_text


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

WITNESSES_MAX: Final = 1_000
"""Violations of one property in one history that an audit names; the others are counted."""

VIOLATIONS_MAX: Final = 1_000_000
"""Violations of one property in one history that a check goes through; the count ends there."""

Fact = ProcessName | MessageId | str | int
FactText = str | int


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation of a property: the facts that identify it, and its sentence, made only if it is shown."""

    facts: tuple[Fact, ...]
    say: Callable[[], str]


class ShownViolation(NamedTuple):
    """A violation as an audit shows it."""

    facts: tuple[FactText, ...]  # As the trace writes them.
    witness: str


H = TypeVar("H")  # An indexed history: of daemons, of clients, or of a block.
Check = Callable[[H], Iterator[Violation]]
Query = Callable[[Masks], str]


@dataclass(frozen=True, slots=True)
class PropertyInstance(Generic[H]):
    """A property as daemons or clients have it; it holds in every history where the check finds nothing.

    The query returns nothing there either. It has a column `run`, one for each name of a fact, and those that
    the sentence names. Rows with the same facts are one violation. Of several violations the least is shown
    first, compared by the facts from left to right.
    """

    check: Check[H]
    query: Query
    sentence: str  # The witness of a violation, with the names of columns in braces.
    names: tuple[str, ...] = ()  # The names of the facts.
    when_quiet: bool = False  # Judged only where all had come to rest at the end.
    with_components: bool = False  # Judged only where it is known who could reach whom at the end.
    per_session: bool = False  # Not judged by query where a daemon speaks for several sessions.
    name: str = ""

    def is_judged(self, quiet: bool, components_known: bool) -> bool:
        """Whether it can be judged of a history that ended in this way."""
        return (quiet or not self.when_quiet) and (components_known or not self.with_components)

    def judge(self, history: H) -> Verdict:
        """The verdict on one history."""
        first = next(self.check(history), None)
        return Verdict(self.name, first is None, "" if first is None else first.say())

    def violations(self, history: H, most: int = WITNESSES_MAX) -> tuple[int, list[ShownViolation]]:
        """The number of violations in one history, and the least of them with their sentences."""
        found: dict[tuple[FactText, ...], Violation] = {}
        for one in islice(self.check(history), VIOLATIONS_MAX):
            found.setdefault(tuple(map(fact_text, one.facts)), one)
        return len(found), [ShownViolation(facts, found[facts].say()) for facts in nsmallest(most, found)]


def fact_text(fact: Fact) -> FactText:
    """A fact as the trace writes it, so that texts sort as the ids do."""
    if isinstance(fact, ProcessName):
        return process_text(fact)
    return message_text(fact) if isinstance(fact, MessageId) else fact


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


IN_GROUP: Final = "group_name"
"""The first fact of a violation in one group of clients."""


def in_each_group(check: Check[History]) -> Check[ClientHistory]:
    """The check of daemons for clients, over the history of one group after the other."""

    def in_groups(history: ClientHistory) -> Iterator[Violation]:
        for name, group in sorted(history.groups.items()):
            for one in check(group):
                yield Violation((name, *one.facts), one.say)

    return in_groups


def over_all_groups(check: Check[History]) -> Check[ClientHistory]:
    """The check of daemons for clients, over all that sessions sent and delivered, whatever the group."""
    return lambda history: check(history.whole)
