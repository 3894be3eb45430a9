"""When a member keeps the token a moment: the policy for a client that sends one message after the other.

A member that was the last to send, and sends again, is likely to go on, and would have to wait for a whole
rotation each time. So, if it sent only a little and knows of nobody who wants the token, it numbers what comes
next without letting it go. It says HELD in the packet that it sends, so others know whom to ask with HURRY.
That everybody has something is known only when the token has gone round: so a kept visit raises no ARU, and the
token is never kept from a Safe bundle that waits.
"""

from dataclasses import dataclass
from typing import Final

from hopring.ids import NOBODY, DaemonId

KEPT_SEGMENTS_MAX: Final = 32
"""Who sends more than this has bundles to fill a rotation with, and gains nothing."""


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
