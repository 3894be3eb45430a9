"""Reconnection after a lost connection: which daemon to try next, and when.

Pure: time and randomness come in as arguments. The delay doubles after each round over all daemons up to a
limit; half of it is random, so that the clients of one daemon do not return at the same moment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.client.arguments import check_seconds
from hopring.client.errors import WrongValue

_DOUBLINGS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How long and how often a session tries to reconnect."""

    delay_seconds_min: float = 0.1  # Before the first try; up to half of it is random.
    delay_seconds_max: float = 5.0
    give_up_seconds: float = 120.0  # Without a connection for this time the session ends.

    def __post_init__(self) -> None:
        for name in ("delay_seconds_min", "delay_seconds_max"):
            check_seconds(name, getattr(self, name), forever=False, above_zero=True)
        check_seconds("give_up_seconds", self.give_up_seconds, forever=False)
        if self.delay_seconds_min > self.delay_seconds_max:
            reason = f"{self.delay_seconds_min:g} s is more than delay_seconds_max"
            raise WrongValue("delay_seconds_min", reason, f"give at most {self.delay_seconds_max:g}")


@dataclass(slots=True)
class ReconnectSchedule:
    """The schedule of one session's tries."""

    urls: tuple[str, ...]
    options: Reconnect
    chance: Callable[[], float]  # From 0 to 1.
    at: int = 0  # The index of the present URL.
    count: int = 0  # Since the connection was lost.
    up_at_us: int | None = None  # When the present connection was made.
    give_up_at_us: int = 0
    _tried: int = 0  # Tries since the last connection that lasted.

    @property
    def url(self) -> str:
        """The URL of the present try or connection."""
        return self.urls[self.at]

    def up(self, now_us: int) -> None:
        """Records that a connection was made."""
        self.up_at_us = now_us

    def lost(self, now_us: int) -> None:
        """Records the loss of a connection; after a short one the delays continue to rise."""
        assert self.up_at_us is not None, "there was one"
        self.count = 0
        if now_us - self.up_at_us >= _us(self.options.delay_seconds_max):
            self._tried = 0
        self.give_up_at_us = now_us + _us(self.options.give_up_seconds)

    def move_on(self) -> None:
        """Moves on to the next daemon."""
        self.at = (self.at + 1) % len(self.urls)

    def next(self, now_us: int) -> int | None:
        """Moves on to the next daemon; returns the time of the try, or None to give up."""
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
