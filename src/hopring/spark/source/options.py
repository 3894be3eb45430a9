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
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from hopring.spark.errors import SparkError

EARLIEST: Final = -2
LATEST: Final = -1
_NAMED_OFFSETS: Final = {"earliest": EARLIEST, "latest": LATEST}
_TRUTHS: Final = {"true": True, "false": False}

Offsets = int | dict[str, int]
"""One offset for all groups, or one per group; EARLIEST and LATEST stand for the two ends of a spool."""

Times = int | dict[str, int]
"""One time for all groups, or one per group, in microseconds since 1970."""

TRIGGER_DELAY_SECONDS_DEFAULT: Final = 900.0
"""How long a batch waits for enough records; the default of Kafka's source."""

LIKENESS_MIN: Final = 0.8
"""How similar an unknown option has to be to a known one, for a hint that names the known one."""


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
    starting_time_us: Times | None = None  # Groups that are not among them start by `starting`.
    ending_time_us: Times | None = None
    offsets_max: int | None = None  # Per batch of a stream, like the next three.
    bytes_max: int | None = None
    offsets_min: int | None = None
    delay_seconds: float | None = None  # How long a batch waits for `offsets_min`.
    consumer: str = ""  # The name under which a stream reports its progress to the spools' retention.
    fail_on_data_loss: bool = True
    payload: bool = True
    partitions_min: int = 1
    push_filters: bool = True


def text(option: str, value: str) -> str:
    """The text without surrounding blanks; WrongOption if it is empty."""
    if not value.strip():
        raise WrongOption(option, "it is empty", "give it a value or leave it out")
    return value.strip()


def local_path(place: str) -> str:
    """The path of a location in the file system, which may be a file: URI; empty if it is elsewhere."""
    parts = urlsplit(place)
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", place):
        return place and str(Path(place).absolute())
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else ""


def place(option: str, value: str) -> str:
    """The path of a directory, which may be given as a file: URI; WrongOption if it is elsewhere."""
    given = text(option, value)
    found = local_path(given) if ":/" in given else given
    if not found:
        remedy = "give a directory that the driver and all workers can reach"
        raise WrongOption(option, f"{given!r} is not in the file system", remedy)
    return found


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


def _times_us(option: str, value: str) -> dict[str, int]:
    remedy = 'write, for instance, {"trades.eu": "2026-07-01T12:00:00Z"}'
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(type(one) in (int, str) for one in found.values()):
        raise WrongOption(option, f"{value!r} is not a JSON object with a time for each group", remedy)
    return {group: _time_us(option, str(found[group])) for group in sorted(found)}


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _seconds(option: str, value: str) -> float:
    found = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h)", value.strip().lower())
    if found is None:
        raise WrongOption(option, f"{value!r} is not a time with its unit", "write 30s, 15m or 1h")
    return int(found[1]) * _UNITS[found[2]]


PROVIDER: Final = "provider"
SPARKS_OWN: Final = re.compile(
    rf"{PROVIDER}|location|owner|comment|external|is_managed_location|collation|option\..*", re.IGNORECASE
)
"""Options that Spark itself adds: the properties of a table in its catalog. Those that were given follow once
more with the prefix `option.`"""

NOTE: Final = "options of hopring: "


def note(options: Mapping[str, str]) -> str:
    """The options of a table that is made in Spark's catalog, as the comment of a column; else empty.

    Spark passes the options only when it makes the table. When the table is read, it passes the columns, with
    their comments.
    """
    if PROVIDER not in {option.lower() for option in options}:
        return ""
    own = {option: value for option, value in sorted(options.items()) if not SPARKS_OWN.fullmatch(option)}
    return NOTE + json.dumps(own)


def with_noted(options: Mapping[str, str], comments: Iterable[str]) -> dict[str, str]:
    """The options, and those of a table in Spark's catalog that are in a comment of its columns."""
    noted: dict[str, str] = {}
    for comment in comments:
        if comment.startswith(NOTE):
            noted = json.loads(comment.removeprefix(NOTE))
    given = {option.lower() for option in options}
    return {option: value for option, value in noted.items() if option.lower() not in given} | dict(options)


Parsers = dict[str, tuple[str, Callable[[str, str], Any]]]

READING: Final[Parsers] = {
    "path": ("path", place),
    "groups": ("groups", _names),
    "groupPattern": ("group_pattern", _pattern),
    "startingOffsets": ("starting", _offsets),
    "endingOffsets": ("ending", _offsets),
    "startingTimestamp": ("starting_time_us", _time_us),
    "endingTimestamp": ("ending_time_us", _time_us),
    "startingOffsetsByTimestamp": ("starting_time_us", _times_us),
    "endingOffsetsByTimestamp": ("ending_time_us", _times_us),
    "maxOffsetsPerTrigger": ("offsets_max", count),
    "maxBytesPerTrigger": ("bytes_max", count),
    "minOffsetsPerTrigger": ("offsets_min", count),
    "maxTriggerDelay": ("delay_seconds", _seconds),
    "consumer": ("consumer", text),
    "failOnDataLoss": ("fail_on_data_loss", truth),
    "payload": ("payload", truth),
    "minPartitions": ("partitions_min", count),
    "pushFilters": ("push_filters", truth),
}
STREAMS_ONLY: Final = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "consumer"),
)
BATCHES_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
ONE_OF: Final = (
    ("groups", "groupPattern"),
    ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"),
    ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
)
"""Options of which at most one is given."""


def parsed(options: Mapping[str, str], parsers: Parsers, reading: str) -> dict[str, Any]:
    """The options as fields with parsed values; WrongOption for an unknown one."""
    names = {name.lower(): name for name in parsers}
    found: dict[str, Any] = {}
    for option, value in sorted(options.items()):
        name = names.get(option.lower())
        if SPARKS_OWN.fullmatch(option):
            continue
        if name is None:
            near = get_close_matches(option.lower(), names, 1, LIKENESS_MIN)
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
    given = {option.lower() for option in options}
    for several in ONE_OF:
        both = [name for name in several if name.lower() in given]
        if len(both) > 1:
            raise WrongOption(both[1], f"{both[0]} is given as well", "give one of them")
    found = ReadOptions(**fields)
    if found.starting == LATEST and found.ending == EARLIEST:
        raise WrongOption("endingOffsets", "the end is before the start", "leave it out to read to the end")
    if found.delay_seconds is not None and found.offsets_min is None:
        raise WrongOption(
            "maxTriggerDelay", "minOffsetsPerTrigger is missing", "give both: batches wait for records"
        )
    if found.offsets_max is not None and (found.offsets_min or 0) > found.offsets_max:
        raise WrongOption("minOffsetsPerTrigger", "it is above maxOffsetsPerTrigger", "give a smaller number")
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
