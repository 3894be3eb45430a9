"""Pace: how much of its clients' messages a daemon has under way, so that the way stays short.

What clients send in bulk would otherwise fill every queue below, up to the windows of the membership, and a
message with priority would stand behind all of it. So the daemon looks how long its own messages take until
they are delivered here, and lets bulk go only as fast as that stays near the shortest time of late. That is the
idea of congestion control by delay (Vegas, LEDBAT), on the daemons' order instead of a link. Medians are
compared: a single time is short by luck, when the promises of others have just come, or long because the
processor was busy.

Invariants  a message with priority waits only if ROOM_BYTES_MAX are under way; bulk goes at least once in
            STARVED_US, however full the way is of messages with priority; what is lost count of is forgotten
            with the view, or after a while.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER

ROOM_BYTES_MIN: Final = 64 * 1024
ROOM_BYTES_FIRST: Final = 256 * 1024
ROOM_BYTES_MAX: Final = 4 * 1024 * 1024
"""Twice the window of the membership, which holds back beyond."""

STEP_BYTES: Final = 64 * 1024
SAMPLES: Final = 8
"""Times of which a median is taken; after it the room is looked at."""

SLACK_US: Final = 1_000
"""So much longer than the shortest way, and half of that way, is still near it."""

LOST_US: Final = 2_000_000
"""If nothing goes and nothing comes for so long, what is under way is not waited for: it was lost count of."""

STARVED_US: Final = 200_000
"""So long after the last message in bulk the next one may go, whatever is under way."""

SPAN_US: Final = 10_000_000
"""The shortest way is that of the last one or two such spans."""


@dataclass(slots=True)
class Pace:
    """One daemon's."""

    room_bytes: int = ROOM_BYTES_FIRST
    under_way_bytes: int = 0
    _submitted: int = 0
    _delivered: int = 0
    _waits_for: int = 0  # The message whose time is taken, by its count; 0 if none.
    _since_us: int = 0  # When it went down.
    _moved_at_us: int = 0
    _bulk_at_us: int = 0
    _starved: bool = False
    _times_us: list[int] = field(default_factory=list)
    _shortest_us: list[int] = field(default_factory=list)  # Medians, in the span before and in this one.
    _span_ends_us: int = 0

    @property
    def open(self) -> bool:
        """Whether bulk may go."""
        return self.under_way_bytes < self.room_bytes or self._starved

    @property
    def passable(self) -> bool:
        """Whether anything may go: if everybody has priority, nobody has."""
        return self.under_way_bytes < ROOM_BYTES_MAX

    @property
    def wake_at_us(self) -> int:
        """When `look` may open it."""
        return NEVER if self.open else min(self._moved_at_us + LOST_US, self._bulk_at_us + STARVED_US)

    def look(self, now_us: int) -> None:
        """Before it is asked whether bulk may go."""
        if self.under_way_bytes and now_us - self._moved_at_us >= LOST_US:
            self._forget()
        self._starved = now_us - self._bulk_at_us >= STARVED_US

    def submitted(self, size_bytes: int, now_us: int, bulk: bool = True) -> None:
        """A message of a client goes down."""
        self._moved_at_us = now_us
        if bulk:
            self._bulk_at_us, self._starved = now_us, False
        self.under_way_bytes += size_bytes
        self._submitted += 1
        if not self._waits_for:
            self._waits_for, self._since_us = self._submitted, now_us

    def delivered(self, size_bytes: int, now_us: int) -> None:
        """A message of a client here was delivered."""
        self._moved_at_us = now_us
        self.under_way_bytes = max(0, self.under_way_bytes - size_bytes)
        self._delivered = min(self._submitted, self._delivered + 1)
        if self._waits_for and self._delivered >= self._waits_for:
            self._waits_for = 0
            self._took(now_us - self._since_us, now_us)

    def begin(self) -> None:
        """A new view: another way, and what was under way in the old one is dealt with."""
        self._forget()
        self._times_us.clear()
        self._shortest_us.clear()
        self._span_ends_us = 0

    def _forget(self) -> None:
        self.under_way_bytes = 0
        self._delivered = self._submitted
        self._waits_for = 0

    def _took(self, time_us: int, now_us: int) -> None:
        self._times_us.append(time_us)
        if len(self._times_us) == SAMPLES:
            self._look(sorted(self._times_us)[SAMPLES // 2], now_us)
            self._times_us.clear()

    def _look(self, median_us: int, now_us: int) -> None:
        if now_us >= self._span_ends_us:
            self._span_ends_us = now_us + SPAN_US
            self._shortest_us = [*self._shortest_us[-1:], median_us]
        self._shortest_us[-1] = min(self._shortest_us[-1], median_us)
        shortest_us = min(self._shortest_us)
        near_us = shortest_us + shortest_us // 2 + SLACK_US
        if median_us > near_us:
            smaller = max(self.room_bytes // 2, self.room_bytes * near_us // median_us)
            self.room_bytes = max(ROOM_BYTES_MIN, smaller)
        else:
            self.room_bytes = min(ROOM_BYTES_MAX, self.room_bytes + STEP_BYTES)
