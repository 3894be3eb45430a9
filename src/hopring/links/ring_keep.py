"""When a member keeps the token a moment: the policy for a client that sends one message after the other.

A member that was the last to send, and sends again, is likely to go on, and would have to wait for a whole
rotation each time. So, if it sent only a little and knows of nobody who wants the token, it numbers what comes
next without letting it go. It says HELD in the packet that it sends, so others know whom to ask with HURRY.
That everybody has something is known only when the token has gone round: so a kept visit raises no ARU, and the
token is never kept from a Safe bundle that waits.

Two clients at different members that answer each other are another case: the token comes with the packet, and
would be gone when the answer is there. A member where answers tend to come soon waits for one a moment.
"""

from dataclasses import dataclass
from typing import Final

from hopring.ids import NOBODY, DaemonId

KEPT_SEGMENTS_MAX: Final = 32
"""Who sends more than this has bundles to fill a rotation with, and gains nothing."""

ANSWERS_SURE: Final = 2
"""After so many answers in time the next one is waited for,"""
ANSWERS_MISSED: Final = -16
"""and after one that was waited for in vain, so many more have to come first."""


@dataclass(slots=True)
class Keeping:
    """What a member knows of kept tokens, its own and others'."""

    came_at_us: int = 0  # When the token came.
    last_seq: int = -1  # The last packet that this member numbered.
    segments: int = 0  # Sent since the token came, in visits after which it stayed.
    asked: bool = False  # Somebody said HURRY since it was last passed on,
    at: DaemonId = NOBODY  # and this one said HELD.

    def sent(self, link_seq: int, packets: int) -> bool:
        """Packets behind this number were sent; whether the one before them was this member's too."""
        alone = self.last_seq == link_seq
        self.last_seq = link_seq + packets
        return alone

    def may_go_on(self, sent_segments: int, now_us: int, kept_us_max: int) -> bool:
        """Whether the token may stay after a visit that sent so much."""
        few = self.segments + sent_segments <= KEPT_SEGMENTS_MAX
        return few and not self.asked and now_us < self.came_at_us + kept_us_max

    def passed(self) -> int:
        """The token goes; returns what was sent while it was kept."""
        segments, self.segments = self.segments, 0
        self.asked = False
        self.at = NOBODY
        return segments


@dataclass(slots=True)
class Answers:
    """Whether who is here tends to answer what comes from others."""

    heard_at_us: int = 0  # When the last packet of another member came,
    open: bool = False  # and whether nothing was to be sent from here since.
    in_time: int = 0  # Answers, the last ones.
    awaited: bool = False  # The token waits for one.

    def heard(self, now_us: int) -> None:
        """A packet of another member came."""
        self.heard_at_us = now_us
        self.open = True

    def wished(self, now_us: int, answer_us: int) -> None:
        """Something is to be sent from here."""
        if self.open and now_us < self.heard_at_us + answer_us:
            self.in_time = min(self.in_time + 1, ANSWERS_SURE)
        self.open = self.awaited = False

    def waited_long_enough(self) -> None:
        """The token goes on by itself; if it waited for an answer, that did not come."""
        if self.awaited:
            self.in_time = ANSWERS_MISSED
            self.open = self.awaited = False

    def likely(self, now_us: int, answer_us: int) -> bool:
        """Whether one may be about to come."""
        return self.open and self.in_time == ANSWERS_SURE and now_us < self.heard_at_us + answer_us
