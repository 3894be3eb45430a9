"""Filters that the source applies itself: exact conditions on `offset` and `group`. Spark applies the others.

Filters are recognized by the names of their classes, so no pyspark is needed.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

OFFSETS_END: Final = 2**63


class Pushed(msgspec.Struct, frozen=True):
    """The offsets and groups that the accepted filters leave."""

    start: int = 0
    end: int = OFFSETS_END
    groups: frozenset[str] | None = None  # None means all groups.

    def applied(self, group: str, wanted: range) -> range:
        """The part of a group's offsets that the filters leave."""
        if self.groups is not None and group not in self.groups:
            return range(0)
        return range(max(wanted.start, self.start), min(wanted.stop, self.end))


def push(filters: Iterable[Any]) -> tuple[Pushed, list[Any]]:
    """Splits filters: the effect of those that the source applies, and the rest for Spark."""
    pushed, left = Pushed(), []
    for one in filters:
        narrower = _narrower(pushed, one)
        if narrower is None:
            left.append(one)
        else:
            pushed = narrower
    return pushed, left


def _narrower(pushed: Pushed, one: Any) -> Pushed | None:
    """Adds a filter; None if the source cannot apply it."""
    kind, column = type(one).__name__, getattr(one, "attribute", None)
    value = getattr(one, "value", None)
    match kind, column:
        case ("IsNotNull", ("offset",) | ("group",)):
            return pushed  # Spark adds it to every comparison; these columns are never null.
        case ("EqualTo", ("group",)) if isinstance(value, str):
            return _among(pushed, {value})
        case ("In", ("group",)) if isinstance(value, tuple):
            return _among(pushed, {name for name in value if isinstance(name, str)})
        case (_, ("offset",)) if type(value) is int:
            return _between(pushed, kind, value)
        case _:
            return None


def _among(pushed: Pushed, groups: set[str]) -> Pushed:
    return Pushed(
        pushed.start, pushed.end, frozenset(groups if pushed.groups is None else pushed.groups & groups)
    )


def _between(pushed: Pushed, kind: str, value: int) -> Pushed | None:
    match kind:
        case "EqualTo":
            low, high = value, value + 1
        case "GreaterThan":
            low, high = value + 1, OFFSETS_END
        case "GreaterThanOrEqual":
            low, high = value, OFFSETS_END
        case "LessThan":
            low, high = 0, value
        case "LessThanOrEqual":
            low, high = 0, value + 1
        case _:
            return None
    return Pushed(max(pushed.start, low), min(pushed.end, high), pushed.groups)
