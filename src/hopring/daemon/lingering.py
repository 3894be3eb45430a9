"""When a loop that has nothing to do looks again for a moment, instead of going to sleep.

To fall asleep and to be woken up takes a process several times as long as a look, and its work takes longer
after that. So a loop that is asked for something again and again lingers: it looks, lets others have the
processor if they want it, and looks again. One that has been asked now and then goes to sleep at once, so
silence, and a message now and then, cost what they did.
"""

from typing import Final

LINGER_US: Final = 400
"""So long at most; with what happens within a round trip on one machine it has something to do before."""
LINGER_US_MAX: Final = 10_000

QUICK_US: Final = 500
QUICK_WAITS: Final = 48
"""Who has begun to wait so often, each time so soon after the time before, is asked again and again. A message
that comes alone makes a daemon wait a dozen times. A wait that is longer takes away half of what was counted,
and twice as many are counted at most: so one pause ends nothing, and the second one does."""


class Lingering:
    """What one loop knows of its waits."""

    def __init__(self, linger_us: int = LINGER_US) -> None:
        """0 is not to linger at all."""
        self.linger_us = linger_us
        self._waited_at_us = 0
        self._quick = 0  # So many waits began soon.

    def until_us(self, now_us: int) -> int:
        """A wait begins; until when to linger, which is now if it is not worth it."""
        if now_us - self._waited_at_us >= QUICK_US:
            self._quick //= 2
        elif self._quick < 2 * QUICK_WAITS:
            self._quick += 1
        self._waited_at_us = now_us
        return now_us + self.linger_us if self._quick >= QUICK_WAITS else now_us
