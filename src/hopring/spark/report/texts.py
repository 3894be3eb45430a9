"""Formats values for readers of the page: short, with a unit, always in the same way."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import floor, isfinite, log10
from string import hexdigits
from typing import Final

NAME_CHARS_MAX: Final = 48
WITNESS_CHARS_MAX: Final = 600
NAMES_MAX: Final = 16
MINUS: Final = "\u2212"
NOTHING: Final = "–"
_PROCESS: Final = re.compile(r"(?P<daemon>.+)#[0-9a-f]{16}/(?P<session>\d+)")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400


def count(value: float) -> str:
    """A count, such as 12,840 or 1.28 M."""
    size = abs(value)
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{digits(value / limit)} {unit}"
    if size >= 10_000 or value == int(value):
        return f"{round(value):,}".replace("-", MINUS)
    return digits(value)


def digits(value: float, places: int = 3) -> str:
    """A number with three significant digits."""
    if value == 0:
        return "0"
    after = max(0, places - 1 - floor(log10(abs(value))))
    shown = f"{value:.{min(after, 6)}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown).replace("-", MINUS)


def size(value: float) -> str:
    """A size in bytes, such as 2.4 MB."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= limit:
            return f"{digits(value / limit)} {unit}"
    return f"{digits(value)} B"


def span(time_us: float) -> str:
    """A duration: 340 µs, 84 ms, 12.5 s, 3 min 20 s, 2 h 5 min."""
    seconds = abs(time_us) / 1e6
    sign = MINUS if time_us < 0 else ""
    if seconds < 1e-3:
        return f"{sign}{digits(seconds * 1e6)} µs"
    if seconds < 1:
        return f"{sign}{digits(seconds * 1e3)} ms"
    if seconds < 2 * MINUTE_S:
        return f"{sign}{digits(seconds)} s"
    whole = round(seconds)
    for large, name, small, other in ((DAY_S, "d", HOUR_S, "h"), (HOUR_S, "h", MINUTE_S, "min")):
        if whole >= large:
            rest = whole % large // small
            return f"{sign}{whole // large} {name}" + (f" {rest} {other}" if rest else "")
    rest = whole % MINUTE_S
    return f"{sign}{whole // MINUTE_S} min" + (f" {rest} s" if rest else "")


def share(value: float) -> str:
    """A ratio as a percentage, such as 12.5 %."""
    return f"{digits(value * 100)} %"


def some(value: float | None, shown: object = None) -> str:
    """A value that may be missing, formatted by the given function of this module."""
    if value is None or not isfinite(value):
        return NOTHING
    return shown(value) if callable(shown) else count(value)


def moment(time_us: int, places: int = 0) -> str:
    """A time of day in UTC, with this many digits of the second."""
    at = _at(time_us)
    text = at.strftime("%H:%M:%S")
    return f"{text}.{at.microsecond:06d}"[: 9 + places] if places else text


def day(time_us: int) -> str:
    """A date, such as 16 November 2026."""
    at = _at(time_us)
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def _at(time_us: int) -> datetime:
    # A broken clock may be beyond the calendar of `datetime`; it is shown as the calendar's end.
    return EPOCH + timedelta(microseconds=min(max(time_us, 0), 250_000_000_000_000_000))


def short(text: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A text cut to a number of characters, since foreign names may be long."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def names(them: Sequence[str], most: int = NAMES_MAX) -> str:
    """A list of names; of many only the first."""
    shown = ", ".join([short(one, 32) for one in them[:most]])
    return f"{shown} and {len(them) - most} more" if len(them) > most else shown


def plural(number: int, one: str, many: str = "") -> str:
    """A number with its noun, such as 1 view or 2 views."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def process(name: str) -> str:
    """A session or daemon without its incarnation: `eu1/2` for `eu1#00000000000000a7/2`."""
    found = _PROCESS.fullmatch(name)
    if found is None:
        return name
    return found["daemon"] if found["session"] == "0" else f"{found['daemon']}/{found['session']}"


def group_view(name: str) -> str:
    """A group view as `5.2`, the second view of a group in the daemons' view 5; other names unchanged."""
    views, _, step = name.rpartition("-")
    counter = views.partition(".")[0]
    if not counter or not step or not set(counter + step) <= set(hexdigits):
        return short(name)
    closing = "-" if "/" in views else ""
    return f"{int(counter, 16)}.{closing}{int(step, 16)}"


def view(name: str) -> str:
    """A view as `3.1`, without leading zeros and nonce; other names unchanged."""
    parts = name.split(".")
    if len(parts) < 3 or not all(part and set(part) <= set(hexdigits) for part in parts[:2]):
        return short(name)
    return f"{int(parts[0], 16)}.{int(parts[1], 16)}"
