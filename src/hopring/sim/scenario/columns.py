"""Lines in columns: neighbours that say the same kind of thing joined, and everything aligned."""

import re
from dataclasses import replace
from typing import Final

from hopring.sim.scenario.show import Line, time

_PART: Final = re.compile(r"(DATA \d+) part (\d+)/(\d+)")
_PARTS: Final = re.compile(r"(DATA \d+) part (\d+)(?:-(\d+))?/(\d+)")
_DELIVERIES_MAX: Final = 8


def align(lines: list[Line]) -> list[str]:
    """The lines as text, in columns as wide as they need to be."""
    joined = _join(lines)
    times = [time(line.at_us) for line in joined]
    time_width = max(map(len, times), default=0)
    where_width = max((len(line.where) for line in joined), default=0)
    what_width = max((len(line.what) for line in joined if line.fate), default=0)
    return [
        f"{at:>{time_width}} {line.where:<{where_width}}  {line.what:<{what_width}}  {line.fate}".rstrip()
        for at, line in zip(times, joined, strict=True)
    ]


def _join(lines: list[Line]) -> list[Line]:
    joined: list[Line] = []
    for line in lines:
        together = _together(joined[-1], line) if joined else None
        if together is None:
            joined.append(line)
        else:
            joined[-1] = together
    return [_shorten(line) for line in joined]


def _together(one: Line, other: Line) -> Line | None:
    """Both lines as one, if the second only goes on where the first stopped."""
    if (one.at_us, one.where, one.fate) != (other.at_us, other.where, other.fate):
        return None
    if one.what.startswith("deliver ") and other.what.startswith("deliver "):
        return replace(one, what=f"{one.what} {other.what.removeprefix('deliver ')}")
    first, second = _PARTS.fullmatch(one.what), _PART.fullmatch(other.what)
    if first is None or second is None or first.group(1, 4) != second.group(1, 3):
        return None
    if int(first.group(3) or first.group(2)) + 1 != int(second.group(2)):
        return None
    return replace(one, what=f"{first.group(1)} part {first.group(2)}-{second.group(2)}/{first.group(4)}")


def _shorten(line: Line) -> Line:
    delivered = line.what.split()[1:]
    if not line.what.startswith("deliver ") or len(delivered) <= _DELIVERIES_MAX:
        return line
    return replace(line, what=f"deliver {len(delivered)} objects from {delivered[0]} to {delivered[-1]}")
