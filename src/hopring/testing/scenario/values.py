"""Values as people write them in scenarios: 10ms, 64KB, 1.5Mbit, 5%, 12, none."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from hopring.errors import HopError

_UNITS: Final[Mapping[str, int]] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "B": 1,
    "KB": 1_024,
    "MB": 1_024 * 1_024,
    "kbit": 1_000 // 8,
    "Mbit": 1_000_000 // 8,
    "Gbit": 1_000_000_000 // 8,
    "": 1,
}
_TIMES: Final = ("us", "ms", "s", "min")
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*|%)")
_FIELD_ENDINGS: Final = (
    "",
    "_us",
    "_bytes",
    "_bytes_max",
    "_bytes_per_second",
    "_max",
    "_packets",
    "_segments",
)


class BadValue(HopError):
    """A word of a scenario that cannot be parsed."""


def number(text: str) -> int | float | None:
    """Microseconds, bytes, bytes per second, a probability, or a plain number."""
    if text == "none":
        return None
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise BadValue(f"{text!r} is no value; write 10ms, 64KB, 1.5Mbit, 5%, 12 or none")
    digits, unit = match.groups()
    if unit == "%":
        return float(digits) / 100
    if unit not in _UNITS:
        raise BadValue(f"{text!r} has an unknown unit; there are {', '.join(filter(None, _UNITS))} and %")
    return round(float(digits) * _UNITS[unit])


def duration_us(text: str) -> int:
    """A time span, which needs its unit."""
    match = _NUMBER.fullmatch(text)
    if match is None or match.group(2) not in _TIMES:
        raise BadValue(f"{text!r} is no time; write 250us, 10ms, 3s or 2min")
    return round(float(match.group(1)) * _UNITS[match.group(2)])


def probability(text: str) -> float:
    """A probability, written with a percent sign."""
    if not text.endswith("%"):
        raise BadValue(f"{text!r} is no probability; write 5%")
    value = number(text)
    assert isinstance(value, float)
    return value


def exactly(words: list[str], form: str) -> list[str]:
    """The words, if they are as many as the form has."""
    if len(words) != len(form.split()):
        raise BadValue(f"expected {form or 'nothing'} here, not {' '.join(words) or 'nothing'}")
    return words


def settings(words: list[str], kind: type[Any]) -> dict[str, Any]:
    """KEY=VALUE words for the fields of a dataclass; a key may leave the unit at the field's end out."""
    names = [field.name for field in fields(kind) if field.init]
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadValue(f"{word!r} is not KEY=VALUE")
        matching = [name for name in names if any(name == key + ending for ending in _FIELD_ENDINGS)]
        if len(matching) != 1:
            meant = f"may mean {', '.join(matching)}" if matching else f"is none of {', '.join(names)}"
            raise BadValue(f"{key!r} {meant}")
        result[matching[0]] = number(value)
    return result
