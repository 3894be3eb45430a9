"""The axes that plots share."""

from typing import Final

from hopring.check.picture.svg import line, text
from hopring.spark.report.scales import Linear, time_ticks

TICK_PX: Final = 92.0


def time_axis(scale: Linear, y: float, width: float) -> list[str]:
    """Times of day below a plot."""
    most = max(2, int((scale.end - scale.begin) / TICK_PX))
    parts = [line(scale.begin, y, scale.end, y, "axis")]
    for at_us, words in time_ticks(int(scale.low), int(scale.high), most):
        x = scale.at(at_us)
        parts.append(line(x, y, x, y + 4, "axis"))
        # Half of the words would be beyond the edge.
        side = "end" if x + 26 > width else "middle"
        parts.append(text(min(x, width), y + 16, words, f"small faint {side}"))
    return parts


def level(y: float, begin: float, end: float, words: str) -> list[str]:
    """A faint line across a plot at a round value, with the value before it."""
    return [line(begin, y, end, y, "level"), text(begin - 6, y + 4, words, "small faint end")]
