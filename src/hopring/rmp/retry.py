"""Retry: the timer of packets that want an answer, doubled with each try and clamped (paper 4.6)."""

from dataclasses import dataclass

from hopring.ids import NEVER

LATE_US = 50_000
"""A timer that fires later than this does not count as a try: this process did not run (trap 29)."""


@dataclass(slots=True)
class Retry:
    """One timer with a count; it stands while nothing is waited for."""

    first_us: int
    clamp_us: int
    due_us: int = NEVER
    gap_us: int = 0
    tries: int = 0

    @property
    def running(self) -> bool:
        """Whether something is waited for."""
        return self.due_us != NEVER

    def start(self, now_us: int) -> None:
        """Begins to wait, unless that has begun."""
        if not self.running:
            self.restart(now_us)

    def restart(self, now_us: int, wait_us: int | None = None) -> None:
        """Begins to wait from now, with the first gap."""
        self.tries = 0
        self.gap_us = self.first_us if wait_us is None else wait_us
        self.due_us = now_us + self.gap_us

    def stop(self) -> None:
        """Waits for nothing any more."""
        self.due_us = NEVER
        self.tries = 0

    def is_due(self, now_us: int) -> bool:
        """Whether it is time for another try."""
        return now_us >= self.due_us

    def again(self, now_us: int) -> None:
        """Counts a try and waits twice as long."""
        if now_us - self.due_us <= LATE_US:
            self.tries += 1
        self.gap_us = min(2 * self.gap_us, max(self.clamp_us, self.first_us))
        self.due_us = now_us + self.gap_us

    def postpone(self, by_us: int) -> None:
        """This process did not run for a while: others could not answer."""
        if self.running:
            self.due_us += by_us
            self.tries = 0
