"""Records of blocks: what the users of locks, calls, view synchrony or state saw, in the order of one recorder.

A *record* is the history of one block, by one recorder: its events are in real order, whoever they happened to.
In a trace it is a process of its own. A block is judged as daemons and clients are, by checks that find
violations and by queries that return the same ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hopring.check.properties.property import PropertyInstance, Verdict, Violation
from hopring.check.properties.sql import Masks

EVENT: Final = ("record", "position")
"""The facts of most violations: the record, and the position in it of the event that breaks the property."""


@dataclass(slots=True, eq=False)
class BlockRecord:
    """One record, with the violations in it."""

    events: Sequence[object]
    quiet_end: bool
    name: str = ""  # As the trace has it.
    _found: dict[object, "BlockFindings"] = field(default_factory=dict)

    def found(self, judge: "Judge") -> "BlockFindings":
        """The findings of this judge, who looks at the record once."""
        if judge not in self._found:
            self._found[judge] = judge(self)
        return self._found[judge]

    def take(self, judge: "Judge", findings: "BlockFindings") -> None:
        """Takes findings for those of this judge, who knew more than the record says."""
        self._found[judge] = findings

    @property
    def numbered(self) -> Iterator[tuple[int, object]]:
        """The events with their positions."""
        return iter(enumerate(self.events))


@dataclass(slots=True)
class BlockFindings:
    """The violations in a record, by property."""

    record: str
    by_property: dict[str, list[Violation]] = field(default_factory=dict)

    def at(self, name: str, position: int, text: str) -> None:
        """The event at this position breaks a property."""
        self.add(name, (self.record, position), text)

    def add(self, name: str, facts: tuple[str | int, ...], text: str) -> None:
        """A property is broken, with these facts."""
        self.by_property.setdefault(name, []).append(Violation(facts, lambda: text))


Judge = Callable[[BlockRecord], BlockFindings]
BlockInstance = PropertyInstance[BlockRecord]


def block_property(
    judge: Judge,
    name: str,
    query: str,
    sentence: str,
    *,
    names: tuple[str, ...] = EVENT,
    when_quiet: bool = False,
) -> BlockInstance:
    """A property of a block: the part of what its judge finds, and the query for the same."""

    def ask(_masks: Masks) -> str:
        return query

    check = partial(_found, judge, name)
    return PropertyInstance(check, ask, sentence, names, when_quiet=when_quiet, name=name)


def _found(judge: Judge, name: str, record: BlockRecord) -> Iterator[Violation]:
    return iter(record.found(judge).by_property.get(name, ()))


def verdicts(properties: Sequence[BlockInstance], record: BlockRecord) -> list[Verdict]:
    """A verdict for each property that is judged of a record which ended so."""
    return [one.judge(record) for one in properties if one.is_judged(record.quiet_end, True)]
