"""Bookkeeping of an event loop's sleeps: when polling is worth more than sleep, and when the process did not
run.

Pure: the times come in as arguments. The loop reports until when it sleeps at most, and when it runs again.

`LingerPolicy`: to fall asleep and to be woken up takes a process several times as long as one poll, and its
work takes longer after that. A loop with frequent events therefore polls for a moment before it sleeps, and
yields the processor to whoever wants it. A loop with occasional events sleeps at once, so silence costs
nothing.

`StallDetector`: notices that the process was stopped, suspended, starved, or busy with one thing for long.
"""

from typing import Final

from hopring.ids import NEVER

STALL_US_MIN: Final = 100_000
"""Shorter ones are every machine's own affair."""


class StallDetector:
    """When a loop should have run, and when it did."""

    __slots__ = ("_ahead_us", "_due_us")

    def __init__(self, ahead_us: int) -> None:
        self._due_us = NEVER
        self._ahead_us = ahead_us  # The clock that goes on while the host is suspended, against the other one.

    def sleeps(self, until_us: int) -> None:
        """Nothing is late before then."""
        self._due_us = until_us

    def runs(self, now_us: int) -> int:
        """It runs now; returns for how long it did not although it should have, or 0."""
        late_us = now_us - self._due_us
        self._due_us = now_us
        return late_us if late_us >= STALL_US_MIN else 0

    def woke(self, now_us: int, ahead_us: int) -> int:
        """The same after a sleep; if the host was suspended in it, the monotonic clock stood still."""
        suspended_us, self._ahead_us = ahead_us - self._ahead_us, ahead_us
        late_us = self.runs(now_us)
        return late_us + suspended_us if suspended_us >= STALL_US_MIN else late_us


LINGER_US: Final = 400
"""So long at most; with what happens within a round trip on one machine it has something to do before."""
LINGER_US_MAX: Final = 10_000

QUICK_US: Final = 500
QUICK_WAITS: Final = 48
"""Who has begun to wait so often, each time so soon after the time before, is asked again and again. A message
that comes alone makes a daemon wait a dozen times. A wait that is longer takes away half of what was counted,
and twice as many are counted at most: so one pause ends nothing, and the second one does."""


class LingerPolicy:
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
