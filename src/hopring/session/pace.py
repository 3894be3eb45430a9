"""Pace: how much of its clients' messages a daemon has under way, so that the way stays short.

What clients send in bulk would otherwise fill every queue below, up to the windows of the membership, and a
message with priority would stand behind all of it. So the daemon looks how long its own bulk takes until it is
delivered here, and has only so much of it under way that this stays near the time that it takes with next to
nothing under way. That is congestion control by delay (Vegas, FAST TCP), on the daemons' order instead of a
link, with a look at the empty way now and then, as BBR has it.

Both times are medians, and are taken in the same way: of bulk, while more of it waits. What is small or sent
now and then has a way of its own, which says nothing about bulk; and if the processors are busy with
something else, that makes both longer.

Invariants  a message with priority waits only if ROOM_BYTES_MAX are under way; bulk goes at least once in
            STARVED_US, however full the way is of messages with priority; the room grows only when it was
            full; what is lost count of is forgotten with the view, or after a while.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER

ROOM_BYTES_MIN: Final = 64 * 1024
"""One bundle of a client, if they are of full size: the least with which anything goes on."""

ROOM_BYTES_MAX: Final = 4 * 1024 * 1024
"""Twice the window of the membership, which holds back beyond."""

SAMPLES: Final = 8
"""Times of which a median is taken; after it the room is looked at."""

SLACK_US: Final = 5_000
"""So much longer than the empty way, and a quarter of that, is still near it."""

EMPTY_EVERY_US: Final = 20_000_000
"""So often the room is made as small as it can be, for one look at the empty way."""

LOST_US: Final = 2_000_000
"""If nothing goes and nothing comes for so long, what is under way is not waited for: it was lost count of."""

STARVED_US: Final = 200_000
"""So long after the last message in bulk the next one may go, whatever is under way."""


@dataclass(slots=True)
class Pace:
    """One daemon's."""

    room_bytes: int = ROOM_BYTES_MIN
    under_way_bytes: int = 0
    _submitted: int = 0
    _delivered: int = 0
    _waits_for: int = 0  # The message whose time is taken, by its count; 0 if none.
    _since_us: int = 0  # When it went down.
    _moved_at_us: int = 0
    _bulk_at_us: int = 0
    _starved: bool = False
    _times_us: list[int] = field(default_factory=list)
    _empty_us: int = 0  # How long the empty way is; 0 if that is not known.
    _empty_until_us: int = 0  # Then it has to be looked at again.
    _back_to_bytes: int = ROOM_BYTES_MIN  # The room after that look.
    _starting: bool = True  # The way has never been full.

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
        if bulk and not self._waits_for and not self.open:
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
        self._empty_us = 0
        self.room_bytes = self._back_to_bytes = ROOM_BYTES_MIN
        self._starting = True

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
        if not self._empty_us:
            self._empty_us, self._empty_until_us = max(1, median_us), now_us + EMPTY_EVERY_US
            self.room_bytes = self._back_to_bytes
            return
        if now_us >= self._empty_until_us:
            self._empty_us, self._back_to_bytes = 0, self.room_bytes
            self.room_bytes = ROOM_BYTES_MIN
            return
        self._empty_us = min(self._empty_us, max(1, median_us))
        near_us = self._empty_us + self._empty_us // 4 + SLACK_US
        self._starting = self._starting and median_us < near_us
        fitting = self.room_bytes * (2 if self._starting else near_us / max(1, median_us))
        fitting = min(max(fitting, self.room_bytes / 2), self.room_bytes * 2)
        self.room_bytes = min(max(int(fitting), ROOM_BYTES_MIN), ROOM_BYTES_MAX)
