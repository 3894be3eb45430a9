"""ARU_Updates: when a site's representative owes the other sites a promise (thesis 5.2).

At once if none went out for delta, otherwise when delta has passed; and at a floor rate in any case. If much
has come from other sites since, also before: their senders wait for it, and beside so much data it is cheap.
"""

from dataclasses import dataclass

from hopring.ids import NEVER, SiteId
from hopring.membership.options import MembershipOptions
from hopring.stack_events import Visited
from hopring.wire.flood import Update


@dataclass(slots=True)
class Updates:
    """What was promised last, and when."""

    delta_us: int
    floor_us: int
    hurry_bytes: int  # So much of other sites is reason not to wait for delta.
    sent: Update | None = None
    sent_at_us: int = -(2**62)
    wake_at_us: int = NEVER
    heard_bytes: int = 0  # Of other sites, since the last promise.

    def wants(self, clock: int, agreed_line: int, now_us: int) -> bool:
        """Whether the token is wanted now; if only later, `wake_at_us` says when."""
        if self.sent is not None and clock < self.sent.lts and agreed_line <= self.sent.aru:
            due_us = self.sent_at_us + self.floor_us
        else:
            due_us = self._news_due_us
        if now_us >= due_us:
            self.wake_at_us = NEVER
            return True
        self.wake_at_us = due_us
        return False

    def visited(self, site: SiteId, visited: Visited, now_us: int) -> Update | None:
        """The promise to send in this visit, if one is due."""
        update = Update(site, visited.site_seq, visited.site_lts + 1, visited.site_aru)
        news = self.sent is None or update.lts > self.sent.lts or update.aru > self.sent.aru
        due_us = self._news_due_us if news else self.sent_at_us + self.floor_us
        if now_us < due_us:
            return None
        self.sent, self.sent_at_us, self.heard_bytes = update, now_us, 0
        return update

    @property
    def _news_due_us(self) -> int:
        """When a promise that has something new to say is due."""
        return self.sent_at_us + (0 if self.heard_bytes >= self.hurry_bytes else self.delta_us)


def updates_of(options: MembershipOptions, sites: int) -> Updates:
    """For a view of so many sites; all hear what each says, so each hurries the less the more there are."""
    return Updates(options.update_delta_us, options.update_floor_us, options.update_hurry_bytes * sites)
