"""Time below the lanes: round numbers where there is room."""

from collections.abc import Iterator

from hopring.check.picture.scene import PAD_PX, Scene
from hopring.check.picture.svg import line, text

TICK_PX_MIN = 62.0
TICKS_TRIED_MAX = 400


def axis(scene: Scene, right: float, y: float) -> list[str]:
    """The line and its ticks."""
    left = scene.left
    parts = [line(left, y, right, y, "axis")]
    for place, at_us in sorted(_ticks(scene)):
        x = left + PAD_PX + place
        parts.append(line(x, y, x, y + 4, "axis"))
        parts.append(text(x, y + 16, seconds(at_us), "small faint middle"))
    return parts


def seconds(time_us: int) -> str:
    """As people read it."""
    return f"{time_us / 1e6:.6f}".rstrip("0").rstrip(".") + " s"


def _ticks(scene: Scene) -> list[tuple[float, int]]:
    """The roundest numbers first, and finer ones in between where they have room."""
    found: list[tuple[float, int]] = []
    for step_us in _steps(scene.to_us - scene.from_us):
        for at_us in range(-(-scene.from_us // step_us) * step_us, scene.to_us + 1, step_us):
            x = scene.clock.x(at_us)
            if all(abs(x - other) >= TICK_PX_MIN for other, _ in found):
                found.append((x, at_us))
    return found


def _steps(span_us: int) -> Iterator[int]:
    power = 10 ** len(str(span_us))
    while power:
        for factor in (5, 2, 1):
            if span_us // (power * factor) > TICKS_TRIED_MAX:
                return
            yield power * factor
        power //= 10
