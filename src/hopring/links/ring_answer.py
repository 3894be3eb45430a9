"""When a member waits with the token in hand: the policy for clients that answer each other.

Of two clients at different daemons that answer each other, each finds the token somewhere else when it has its
answer, and waits for most of a rotation. So a member that has answered others soon, time and again, waits a
moment if the token comes right behind a packet of another one: the answer is likely to find it here. It says
HELD, so whoever wants the token asks for it with HURRY.

The token is never held from requests, from what this member lacks, from Safe bundles that wait, nor where much
is sent. Holding it changes nothing on it: it is as if it had come later.
"""

from dataclasses import dataclass
from typing import Final

from hopring.ids import NEVER

SURE: Final = 2
SCORE_MAX: Final = 3
"""So many answers in a row make it likely; one that does not come makes it less so."""

BUSY_SEGMENTS: Final = 32
"""Where more than this is sent in a rotation, nobody waits for anybody."""


@dataclass(slots=True)
class Answering:
    """How a member has answered others so far."""

    soon_us: int = 0  # An answer within this time is worth waiting for.
    score: int = 0
    heard_at_us: int = NEVER  # When another's packet came, if this member has sent nothing since.
    waits: bool = False  # It has the token in hand for that.

    def heard(self, now_us: int) -> None:
        """A packet of another member came."""
        self.heard_at_us = now_us

    def has(self, now_us: int) -> None:
        """This member has something to send."""
        if self.heard_at_us != NEVER:
            soon = now_us - self.heard_at_us <= self.soon_us
            self.score = min(self.score + 1, SCORE_MAX) if soon else max(self.score - 1, 0)
            self.heard_at_us = NEVER

    def likely(self, now_us: int) -> bool:
        """Whether an answer to what was heard last may come now."""
        return self.score >= SURE and self.heard_at_us != NEVER and now_us - self.heard_at_us <= self.soon_us

    def in_vain(self) -> None:
        """It waited, and nothing came."""
        self.score = max(self.score - 1, 0)
        self.heard_at_us = NEVER
