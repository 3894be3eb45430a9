"""Options of the readers, and the filters that the source applies itself.

Options are parsed once; a wrong one is refused in one line with a remedy. Names are Kafka's where Kafka has the
same option, because users of Spark know them. Spark passes all options as text and ignores case.

The source applies exact conditions on `offset` and `group`; Spark applies the others. Filters are recognized by
the names of their classes, so no pyspark is needed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from hopring.spark.errors import SparkError

EARLIEST: Final = -2
LATEST: Final = -1
_NAMED_OFFSETS: Final = {"earliest": EARLIEST, "latest": LATEST}
_TRUTHS: Final = {"true": True, "false": False}

Offsets = int | dict[str, int]
"""One offset for all groups, or one per group; EARLIEST and LATEST stand for the two ends of a spool."""


class WrongOption(SparkError, ValueError):
    """An unknown option, or one with an impossible value."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(f"option {option}: {problem}", remedy)
        self.option = option


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a reader: which groups, which offsets, and how they are read."""

    path: str
    groups: tuple[str, ...] = ()  # Names and shell globs; empty means all groups.
    group_pattern: str = ""  # A regular expression, instead of `groups`.
    starting: Offsets = EARLIEST
    ending: Offsets = LATEST
    starting_time_us: int | None = None
    offsets_max: int | None = None  # Per batch of a stream, like `bytes_max`.
    bytes_max: int | None = None
    fail_on_data_loss: bool = True
    payload: bool = True
    partitions_min: int = 1
    push_filters: bool = True


def text(option: str, value: str) -> str:
    """The text without surrounding blanks; WrongOption if it is empty."""
    if not value.strip():
        raise WrongOption(option, "it is empty", "give it a value or leave it out")
    return value.strip()


def truth(option: str, value: str) -> bool:
    """The value of an option that is true or false."""
    if value.strip().lower() not in _TRUTHS:
        raise WrongOption(option, f"{value!r} is neither true nor false", "write true or false")
    return _TRUTHS[value.strip().lower()]


def count(option: str, value: str) -> int:
    """The value of an option that is a whole number from 1 on."""
    if not value.strip().isdecimal() or not int(value):
        raise WrongOption(
            option, f"{value!r} is not a number from 1 on", "write a whole number, such as 100000"
        )
    return int(value)


def _names(option: str, value: str) -> tuple[str, ...]:
    return tuple([text(option, name) for name in value.split(",")])


def _pattern(option: str, value: str) -> str:
    try:
        re.compile(text(option, value))
    except re.error as error:
        raise WrongOption(
            option, f"{value!r} is not a regular expression ({error})", "escape special characters with \\"
        ) from None
    return value.strip()


def _offsets(option: str, value: str) -> Offsets:
    name = value.strip().lower()
    if name in _NAMED_OFFSETS:
        return _NAMED_OFFSETS[name]
    remedy = 'write earliest, latest or, for instance, {"trades.eu": 100}'
    try:
        found = json.loads(value)
    except ValueError:
        raise WrongOption(option, f"{value!r} is neither earliest, latest nor JSON", remedy) from None
    if not isinstance(found, dict) or not all(type(one) is int and one >= EARLIEST for one in found.values()):
        raise WrongOption(option, f"{value!r} is not a JSON object with a number for each group", remedy)
    return {group: found[group] for group in sorted(found)}


def _time_us(option: str, value: str) -> int:
    word = text(option, value)
    if word.isdecimal():
        return int(word) * 1000
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        moment = datetime(1, 1, 1)
    if moment.tzinfo is None:
        remedy = "write milliseconds since 1970, or a time with its zone: 2026-07-01T12:00:00Z"
        raise WrongOption(option, f"{value!r} is not a time with its zone", remedy)
    return round(moment.timestamp() * 1_000_000)


Parsers = dict[str, tuple[str, Callable[[str, str], Any]]]

READING: Final[Parsers] = {
    "path": ("path", text),
    "groups": ("groups", _names),
    "groupPattern": ("group_pattern", _pattern),
    "startingOffsets": ("starting", _offsets),
    "endingOffsets": ("ending", _offsets),
    "startingTimestamp": ("starting_time_us", _time_us),
    "maxOffsetsPerTrigger": ("offsets_max", count),
    "maxBytesPerTrigger": ("bytes_max", count),
    "failOnDataLoss": ("fail_on_data_loss", truth),
    "payload": ("payload", truth),
    "minPartitions": ("partitions_min", count),
    "pushFilters": ("push_filters", truth),
}
STREAMS_ONLY: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger")
BATCHES_ONLY: Final = ("endingOffsets",)


def parsed(options: Mapping[str, str], parsers: Parsers, reading: str) -> dict[str, Any]:
    """The options as fields with parsed values; WrongOption for an unknown one."""
    names = {name.lower(): name for name in parsers}
    found: dict[str, Any] = {}
    for option, value in sorted(options.items()):
        name = names.get(option.lower())
        if name is None:
            near = get_close_matches(option.lower(), names, 1)
            remedy = f"did you mean {names[near[0]]}?" if near else f"the options are {', '.join(parsers)}"
            raise WrongOption(option, f"{reading} has no such option", remedy)
        field, parse = parsers[name]
        found[field] = parse(name, value)
    return found


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a reader; WrongOption if one is wrong, or two contradict each other."""
    fields = parsed(options, READING, "a reader of spools")
    if "path" not in fields:
        raise WrongOption(
            "path", "it is missing", "give the directory of the spools: .load('/var/lib/hop/spool')"
        )
    found = ReadOptions(**fields)
    if found.groups and found.group_pattern:
        raise WrongOption("groupPattern", "groups is given as well", "give one of them")
    if found.starting_time_us is not None and found.starting != EARLIEST:
        raise WrongOption("startingTimestamp", "startingOffsets is given as well", "give one of them")
    if found.starting == LATEST and found.ending == EARLIEST:
        raise WrongOption("endingOffsets", "the end is before the start", "leave it out to read to the end")
    return found


def refuse(options: Mapping[str, str], names: tuple[str, ...], where: str) -> None:
    """Raises WrongOption if one of these options is given where it has no meaning."""
    given = {option.lower() for option in options}
    for name in names:
        if name.lower() in given:
            raise WrongOption(name, f"it has no meaning {where}", "leave it out")


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
