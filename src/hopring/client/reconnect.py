"""How a session comes back after its connection was lost: which daemon is tried next, and when.

Pure: the time comes in as an argument, and chance as a function. The delay doubles after each round over all
daemons up to its limit; half of it is chance, so that the many clients of one daemon do not return at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.client.arguments import check_seconds
from hopring.client.errors import WrongValue

_DOUBLINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How long a session tries to come back, and how often."""

    delay_seconds_min: float = 0.1  # Before the first try; up to half of it is left to chance.
    delay_seconds_max: float = 5.0
    give_up_seconds: float = 120.0  # After that without a connection the session ends.

    def __post_init__(self) -> None:
        for name in ("delay_seconds_min", "delay_seconds_max"):
            check_seconds(name, getattr(self, name), forever=False, above_zero=True)
        check_seconds("give_up_seconds", self.give_up_seconds, forever=False)
        if self.delay_seconds_min > self.delay_seconds_max:
            reason = f"{self.delay_seconds_min:g} s is more than delay_seconds_max"
            raise WrongValue("delay_seconds_min", reason, f"give at most {self.delay_seconds_max:g}")


@dataclass(slots=True)
class ReconnectSchedule:
    """The tries of one session."""

    urls: tuple[str, ...]
    options: Reconnect
    chance: Callable[[], float]  # From 0 to 1.
    at: int = 0  # The place of the URL in use.
    count: int = 0  # Since the connection was lost.
    up_at_us: int | None = None  # Since when there is a connection.
    give_up_at_us: int = 0
    _tried: int = 0  # Since there was a connection that lasted.

    @property
    def url(self) -> str:
        """The one in use."""
        return self.urls[self.at]

    def up(self, now_us: int) -> None:
        """There is a connection."""
        self.up_at_us = now_us

    def lost(self, now_us: int) -> None:
        """There was a connection, and it is lost; after one that did not last the delays go on to rise."""
        assert self.up_at_us is not None, "there was one"
        self.count = 0
        if now_us - self.up_at_us >= _us(self.options.delay_seconds_max):
            self._tried = 0
        self.give_up_at_us = now_us + _us(self.options.give_up_seconds)

    def move_on(self) -> None:
        """To the next daemon."""
        self.at = (self.at + 1) % len(self.urls)

    def next(self, now_us: int) -> int | None:
        """Moves on; returns when to try there, or None if it is time to give up."""
        if now_us >= self.give_up_at_us:
            return None
        self.move_on()
        doublings = min(self._tried // len(self.urls), _DOUBLINGS_MAX)
        delay_us = _us(min(self.options.delay_seconds_max, self.options.delay_seconds_min * 2**doublings))
        self.count += 1
        self._tried += 1
        return min(now_us + int(delay_us * (0.5 + self.chance() / 2)), self.give_up_at_us)


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
