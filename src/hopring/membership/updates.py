"""ARU_Updates: when a site's representative owes the other sites a promise (thesis 5.2).

At once if none went out for delta, otherwise when delta has passed; and at a floor rate in any case.
"""

from dataclasses import dataclass

from hopring.ids import NEVER, SiteId
from hopring.stack_events import Visited
from hopring.wire.flood import Update


@dataclass(slots=True)
class Updates:
    """What was promised last, and when."""

    delta_us: int
    floor_us: int
    sent: Update | None = None
    sent_at_us: int = -(2**62)
    wake_at_us: int = NEVER

    def wants(self, clock: int, agreed_line: int, now_us: int) -> bool:
        """Whether the token is wanted now; if only later, `wake_at_us` says when."""
        if self.sent is not None and clock < self.sent.lts and agreed_line <= self.sent.aru:
            due_us = self.sent_at_us + self.floor_us
        else:
            due_us = self.sent_at_us + self.delta_us
        if now_us >= due_us:
            self.wake_at_us = NEVER
            return True
        self.wake_at_us = due_us
        return False

    def visited(self, site: SiteId, visited: Visited, now_us: int) -> Update | None:
        """The promise to send in this visit, if one is due."""
        update = Update(site, visited.site_seq, visited.site_lts + 1, visited.site_aru)
        news = self.sent is None or update.lts > self.sent.lts or update.aru > self.sent.aru
        due_us = self.sent_at_us + (self.delta_us if news else self.floor_us)
        if now_us < due_us:
            return None
        self.sent, self.sent_at_us = update, now_us
        return update
