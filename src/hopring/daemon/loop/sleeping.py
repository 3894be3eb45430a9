"""Policies for the sleeps of an event loop: when to poll before a sleep, and when the process did not run.

Pure: the times come in as arguments. The loop reports until when it sleeps at most, and when it runs again.

`LingerPolicy`: a sleep and a wake-up take several times as long as one poll, and the work after them is slower.
A loop with frequent events therefore polls for a moment before it sleeps, and yields the processor to other
processes meanwhile. A loop with occasional events sleeps at once, so an idle daemon costs nothing.

`StallDetector`: notices that the process was stopped, suspended, starved, or busy with one thing for long.
"""

from typing import Final

from hopring.ids import NEVER

STALL_US_MIN: Final = 100_000
"""Shorter delays are normal scheduling."""


class StallDetector:
    """Compares when a loop should have run with when it did."""

    __slots__ = ("_ahead_us", "_due_us")

    def __init__(self, ahead_us: int) -> None:
        self._due_us = NEVER
        self._ahead_us = ahead_us  # CLOCK_BOOTTIME against the monotonic clock.

    def sleeps(self, until_us: int) -> None:
        """Records a sleep: until then the loop is not late."""
        self._due_us = until_us

    def runs(self, now_us: int) -> int:
        """The loop runs now; returns by how much it is late if that is a stall, or 0."""
        late_us = now_us - self._due_us
        self._due_us = now_us
        return late_us if late_us >= STALL_US_MIN else 0

    def woke(self, now_us: int, ahead_us: int) -> int:
        """As `runs`, after a sleep; adds the time for which the host was suspended."""
        suspended_us, self._ahead_us = ahead_us - self._ahead_us, ahead_us
        late_us = self.runs(now_us)
        return late_us + suspended_us if suspended_us >= STALL_US_MIN else late_us


LINGER_US: Final = 400
"""The longest polling before a sleep; events within a round trip on one machine come sooner."""
LINGER_US_MAX: Final = 10_000

QUICK_US: Final = 500
QUICK_WAITS: Final = 48
"""A loop is busy after QUICK_WAITS waits that each began within QUICK_US of the one before. A single message
makes a daemon wait a dozen times. A longer pause halves the count, which is at most twice QUICK_WAITS:
so one pause does not end polling, and the second one does."""


class LingerPolicy:
    """Decides from the recent waits of a loop whether it polls before it sleeps."""

    def __init__(self, linger_us: int = LINGER_US) -> None:
        """With 0 the loop never polls."""
        self.linger_us = linger_us
        self._waited_at_us = 0
        self._quick = 0  # Waits that began within QUICK_US.

    def until_us(self, now_us: int) -> int:
        """A wait begins; returns until when to poll, which is now if the loop is not busy."""
        if now_us - self._waited_at_us >= QUICK_US:
            self._quick //= 2
        elif self._quick < 2 * QUICK_WAITS:
            self._quick += 1
        self._waited_at_us = now_us
        return now_us + self.linger_us if self._quick >= QUICK_WAITS else now_us
