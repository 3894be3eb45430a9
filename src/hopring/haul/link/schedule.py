"""Schedules of links: when the cluster that dials keeps a connection.

Implements  Makpangou and Birman, 2.1.1: controlled partitions; links that are opened as needed or possible.
Invariants  a schedule depends on the wall clock of the cluster that dials, and on nothing else; the other one
            accepts whenever it is asked. The end of a window is no failure: it is announced.
"""

from dataclasses import dataclass
from typing import Final

DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Always:
    """The link is kept open."""

    def is_open(self, wall_us: int) -> bool:
        """Whether a window is open at this time of the wall clock."""
        del wall_us
        return True

    def next_change_us(self, wall_us: int) -> int | None:
        """When a window begins or ends, after this time; None if never."""
        del wall_us
        return None


@dataclass(frozen=True, slots=True)
class Windows:
    """The link is open at the beginning of each period, counted from midnight UTC or from a time of day.

    `every 15min for 2min` has a period of 15 minutes; `22:00-06:00` has one of a day, and begins at 22:00.
    """

    period_us: int
    open_us: int
    begin_us: int = 0

    def __post_init__(self) -> None:
        assert 0 < self.open_us < self.period_us, "a window is shorter than its period"
        assert 0 <= self.begin_us < self.period_us, "a window begins within the period"

    def is_open(self, wall_us: int) -> bool:
        """Whether a window is open at this time of the wall clock."""
        return (wall_us - self.begin_us) % self.period_us < self.open_us

    def next_change_us(self, wall_us: int) -> int | None:
        """When a window begins or ends, after this time."""
        within_us = (wall_us - self.begin_us) % self.period_us
        return wall_us + (self.open_us if within_us < self.open_us else self.period_us) - within_us


@dataclass(frozen=True, slots=True)
class OnDemand:
    """The link is opened when so much waits, or something for so long, and closed when it is idle.

    What waits at the other end is not known here, so both ends have to dial on such a link.
    """

    waiting_bytes: int
    waiting_us: int
    idle_us: int = 5_000_000

    def is_due(self, waiting_bytes: int, since_us: int, now_us: int) -> bool:
        """Whether what waits since then is enough to open it."""
        return waiting_bytes > 0 and (
            waiting_bytes >= self.waiting_bytes or now_us >= since_us + self.waiting_us
        )


LinkSchedule = Always | Windows | OnDemand
