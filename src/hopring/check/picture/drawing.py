"""Draws the lanes: bands of views, the joins between them, arrows and marks."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hopring.check.picture.marks import AnyView, MarkKind, PlacedMark, Stretch
from hopring.check.picture.scene import PAD_PX, Scene
from hopring.check.picture.svg import (
    Attributes,
    element,
    line,
    path,
    rect,
    service_class,
    text,
    texture,
    tip,
    view_class,
)

TICK_PX_MIN = 62.0
TICKS_TRIED_MAX = 400
LANE_PX = 58.0
BAND_PX = 20.0
DOT_PX = 7.5  # The radius of a numbered message; others have SPECK_PX.
SPECK_PX = 2.5
SPECK_SHARE = 0.42  # Of the step by which marks are pulled apart.
OVERHANG_PX = 6.0
ARC_PX = 17.0
SLANT_PX = 30.0  # The most by which the two ends of a join of lanes may differ.
LETTER_PX = 14.0


@dataclass(slots=True)
class Drawing:
    """Turns a scene into elements; `top` is where the lanes begin."""

    scene: Scene
    top: float
    _numbers: dict[AnyView, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {view: number for number, view in enumerate(self.scene.members)}

    @property
    def left(self) -> float:
        """The x of the left end of the lanes."""
        return self.scene.left

    @property
    def bottom(self) -> float:
        """The y below the last lane."""
        return self.top + LANE_PX * len(self.scene.lanes)

    def y(self, lane: int) -> float:
        """The middle of a lane."""
        return self.top + LANE_PX * (lane + 0.5)

    def all(self) -> list[str]:
        """Everything on the lanes, from the bottom layer to the top."""
        parts = self._braid()
        for life in self.scene.lives:
            y = self.y(life.lane)
            parts.append(line(self.left + life.begin, y, self.left + life.end, y, "life"))
        for stretch in self.scene.stretches:
            parts += self._band(stretch)
        parts += [self._arrow(send, delivery) for send, delivery in self.scene.arrows]
        for shown in self.scene.shown:
            parts += self._mark(shown)
        return parts + self._letters()

    @property
    def _radius(self) -> float:
        """The radius of a message's dot, as large as there is room for."""
        return DOT_PX if self.scene.numbers else max(SPECK_PX, SPECK_SHARE * self.scene.clock.step_px)

    def _number(self, stretch: Stretch) -> int:
        return self._numbers[stretch.view]

    def _braid(self) -> list[str]:
        """The joins between neighbouring lanes in the same view."""
        by_lane: dict[int, list[Stretch]] = {}
        for stretch in self.scene.stretches:
            by_lane.setdefault(stretch.lane, []).append(stretch)
        parts = []
        for lane, upper in by_lane.items():
            for one in upper:
                for other in [each for each in by_lane.get(lane + 1, []) if each.view == one.view]:
                    ends = (one.begin, one.end), (other.begin, other.end)
                    parts.append(self._between(lane, ends, view_class(self._number(one))))
        return [part for part in parts if part]

    def _between(self, lane: int, ends: tuple[tuple[float, float], tuple[float, float]], colour: str) -> str:
        above, below = self.y(lane) + BAND_PX / 2, self.y(lane + 1) - BAND_PX / 2
        (a, b), (c, d) = ends
        top = max(a, c - SLANT_PX), min(b, d + SLANT_PX)
        bottom = max(c, a - SLANT_PX), min(d, b + SLANT_PX)
        if top[0] > top[1] or bottom[0] > bottom[1]:
            return ""  # They were never in it at the same time.
        points = [(top[0], above), (top[1], above), (bottom[1], below), (bottom[0], below)]
        letters = [("L" if number else "M", (self.left + x, y)) for number, (x, y) in enumerate(points)]
        return path([*letters, ("Z", ())], f"braid {colour}")

    def _band(self, stretch: Stretch) -> list[str]:
        number, top = self._number(stretch), self.y(stretch.lane) - BAND_PX / 2
        begin, end = self.left + stretch.begin, self.left + stretch.end
        firm = end if stretch.signal is None else self.left + stretch.signal
        words = tip(f"{self.scene.lanes[stretch.lane]} in view {self._name(number)}")
        parts = [rect(begin, top, firm - begin, BAND_PX, view_class(number), words)]
        if stretch.signal is not None:
            classes = f"closing {view_class(number)}"
            parts.append(
                rect(firm, top, end - firm, BAND_PX, classes, tip(f"view {self._name(number)} is closing"))
            )
        if texture(number):
            cover = {"x": begin, "y": top, "width": end - begin, "height": BAND_PX}
            parts.append(element("rect", {**cover, "fill": f"url(#{texture(number)})"}))
        return parts

    def _name(self, number: int) -> str:
        return f"{letter(number)}: {' '.join(list(self.scene.members.values())[number])}"

    def _letters(self) -> list[str]:
        """The letter of a view where it begins; of two on the same spot, the later one."""
        parts = []
        last: dict[int, float] = {}
        for stretch in sorted(self.scene.stretches, key=lambda one: (one.lane, -one.begin)):
            name = letter(self._number(stretch))
            x = self.left + stretch.begin
            if last.get(stretch.lane, x + 99) - x >= LETTER_PX:
                parts.append(text(x + 2, self.y(stretch.lane) - BAND_PX / 2 - 3, name, "letter small"))
                last[stretch.lane] = x
        return parts

    def _arrow(self, send: PlacedMark, delivery: PlacedMark) -> str:
        assert delivery.mark.service is not None, "messages have a service"
        name = service_class(delivery.mark.service)
        x1, y1, x2, y2 = self.left + send.x, self.y(send.lane), self.left + delivery.x, self.y(delivery.lane)
        radius = self._radius
        if send.lane == delivery.lane:
            low = y1 + ARC_PX
            middle = (x1 + x2) / 2
            points = [("M", (x1, y1 + radius)), ("Q", (middle, low, x2, y2 + radius))]
            return path(points, f"arrow {name}")
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        back = radius / length
        ends = {"x1": x1, "y1": y1, "x2": x2 - (x2 - x1) * back, "y2": y2 - (y2 - y1) * back}
        return element("line", {**ends, "class": f"arrow {name}", "marker_end": f"url(#to-{name})"})

    def _mark(self, shown: PlacedMark) -> list[str]:
        x, y, kind = self.left + shown.x, self.y(shown.lane), shown.mark.kind
        high, low = y - BAND_PX / 2, y + BAND_PX / 2
        match kind:
            case MarkKind.SEND | MarkKind.DELIVER:
                return self._message(shown, x, y)
            case MarkKind.VIEW:
                return [line(x, high, x, low, "edge")]
            case MarkKind.SIGNAL:
                return [line(x, high - OVERHANG_PX, x, low + OVERHANG_PX, "signal")]
            case MarkKind.CRASH | MarkKind.LOST:
                return [cross(x, y), *([text(x + 9, y + 4, "?")] if kind is MarkKind.LOST else [])]
            case MarkKind.RECOVER:
                return [triangle(x, y)]
            case MarkKind.JOIN | MarkKind.LEAVE:
                return [text(x, high - 3, "+" if kind is MarkKind.JOIN else "−", "letter middle")]
            case MarkKind.LEFT | MarkKind.GONE:
                return [line(x, high, x, low, "edge")]

    def _message(self, shown: PlacedMark, x: float, y: float) -> list[str]:
        mark = shown.mark
        assert mark.message is not None, "a message has a name"
        assert mark.service is not None, "and a service"
        number = self.scene.numbers.get(mark.message)
        name = service_class(mark.service)
        sends = mark.kind is MarkKind.SEND
        radius = self._radius - 0.5 if sends else self._radius
        sender = mark.message.daemon + (f"/{mark.message.session}" if mark.message.session else "")
        when = seconds(mark.at_us - self.scene.zero_us)
        words = f"{self.scene.lanes[shown.lane]} {mark.kind} {name} {sender}:{mark.message.number} at {when}"
        circle: Attributes = {"cx": x, "cy": y, "r": radius, "class": f"{'send' if sends else 'dot'} {name}"}
        parts = [element("circle", circle, tip(words))]
        if number is not None:
            parts.append(text(x, y + 3.2, str(number), "number plain" if sends else "number"))
        return parts


def cross(x: float, y: float) -> str:
    """The sign of a process that ended."""
    return path(
        [("M", (x - 6, y - 6)), ("L", (x + 6, y + 6)), ("M", (x + 6, y - 6)), ("L", (x - 6, y + 6))], "crash"
    )


def triangle(x: float, y: float) -> str:
    """The sign of a process that began."""
    return path([("M", (x - 3, y - 6)), ("L", (x + 6, y)), ("L", (x - 3, y + 6)), ("Z", ())], "start")


def letter(number: int) -> str:
    """The name of the n-th view of a picture: A, B, ... Z, AA, AB."""
    first, last = divmod(number, 26)
    return (letter(first - 1) if first else "") + chr(ord("A") + last)


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
    """A time in seconds, without trailing zeros."""
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
