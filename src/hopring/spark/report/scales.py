"""Scales and axes of plots: positions of values on the page, and ticks. Pure."""

from math import ceil, floor, log10
from typing import Final

import msgspec

from hopring.check.picture.svg import line, text
from hopring.spark.report import texts

TICK_PX: Final = 92.0
SECOND_US: Final = 1_000_000
STEPS_US: Final = (
    *(1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000),
    *[seconds * SECOND_US for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800)],
    *[hours * 3_600 * SECOND_US for hours in (1, 2, 3, 6, 12, 24, 48, 168, 720, 8_760)],
)
"""Round steps of time for ticks."""


class LinearScale(msgspec.Struct, frozen=True):
    """A linear scale: `low` is at `begin`, `high` at `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The position of a value; values beyond the ends are at the ends."""
        if self.high <= self.low:
            return self.begin
        part = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)


class LogScale(msgspec.Struct, frozen=True):
    """A logarithmic scale; `low` has to be above zero."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """The position of a value; values below `low` are at `begin`."""
        return LinearScale(log10(self.low), log10(self.high), self.begin, self.end).at(
            log10(max(value, self.low))
        )


def rounded_up(value: float) -> float:
    """The next round number, for the top of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(
        factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * 0.999999
    )


def ticks(high: float, most: int) -> list[float]:
    """Ticks at round numbers from 0 to `high`."""
    rough = high / max(most, 1)
    power = 10.0 ** floor(log10(rough)) if rough > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999999)
    return [step * number for number in range(floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Ticks at powers of ten, with 3, or 2 and 5, between them if `most` allows it."""
    found: list[float] = []
    for factors in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        powers = range(floor(log10(low)), ceil(log10(high)) + 1)
        these = [factor * 10.0**power for power in powers for factor in factors]
        inside = [one for one in these if low * 0.999 <= one <= high * 1.001]
        if len(inside) <= most or not found:
            found = inside
    step = ceil(len(found) / most) if most else 1
    return found[::step]


def time_step_us(begin_us: int, end_us: int, most: int) -> int:
    """The smallest round step that gives at most this many ticks."""
    whole = end_us - begin_us
    return next(
        (step for step in STEPS_US if whole // step <= most), STEPS_US[-1] * (whole // STEPS_US[-1] + 1)
    )


def time_ticks(begin_us: int, end_us: int, most: int) -> list[tuple[int, str]]:
    """Ticks with their texts: times of day, or days on a long axis."""
    step_us = time_step_us(begin_us, end_us, most)
    first = -(-begin_us // step_us) * step_us
    return [(at, _tick(at, step_us)) for at in range(first, end_us + 1, step_us)]


def _tick(at_us: int, step_us: int) -> str:
    if step_us >= 24 * 3_600 * SECOND_US:
        return texts.day(at_us).rpartition(" ")[0]
    if step_us >= 60 * SECOND_US:
        return texts.moment(at_us)[:5]
    return texts.moment(at_us, 0 if step_us >= SECOND_US else 3)


def time_axis(scale: LinearScale, y: float, width: float) -> list[str]:
    """An axis with times of day below a plot."""
    most = max(2, int((scale.end - scale.begin) / TICK_PX))
    parts = [line(scale.begin, y, scale.end, y, "axis")]
    for at_us, label in time_ticks(int(scale.low), int(scale.high), most):
        x = scale.at(at_us)
        parts.append(line(x, y, x, y + 4, "axis"))
        # Centred, half of the text would be beyond the edge.
        side = "end" if x + 26 > width else "middle"
        parts.append(text(min(x, width), y + 16, label, f"small faint {side}"))
    return parts


def level(y: float, begin: float, end: float, label: str) -> list[str]:
    """A faint line across a plot at a round value, with the value on its left."""
    return [line(begin, y, end, y, "level"), text(begin - 6, y + 4, label, "small faint end")]
