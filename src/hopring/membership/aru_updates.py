"""ARU_Updates: when a site's representative owes the other sites a promise (thesis 5.2).

A promise is due when it has news: at once if the last one is at least delta old, otherwise as soon as it is.
While somebody waits for the order, delta is in proportion to the measured distance of the sites; otherwise, and
at most, it is `update_delta_us`. If much has come from other sites since the last promise, the next one goes at
once: their senders wait for it, and beside so much data it is cheap. Without news it goes at a floor rate.

A bundle of the own site with the stamp t is as good as a promise of t + 1, so a promise that says no more than
the site's last bundle has no news: it would only make the next one wait.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from hopring.ids import NEVER, SiteId, SiteMask, mask_of
from hopring.membership.options import MembershipOptions
from hopring.stack_events import Visited
from hopring.wire.flood import Update

SAMPLES: Final = 8
"""The distance is the least of the last samples, of so many to twice as many."""

DELTA_US_MIN: Final = 500
"""However near the sites are, a promise is work for all of them."""


@dataclass(slots=True)
class Distance:
    """The time from a new stamp of this site until every site is known to have it.

    A sample is at least the round trip to the farthest site, by whatever links it is reached: a site that says
    that it has everything below a stamp has heard of it. It is at most 3 D + 2 delta.
    """

    shown_lts: int  # The other sites were told that nothing below it is to come.
    timed_lts: int = 0  # The line that is being timed, or 0,
    since_us: int = 0  # and when it was first shown.
    least_us: int = NEVER
    _recent_us: int = NEVER
    _recent: int = 0

    def show(self, lts: int, timed: bool, now_us: int) -> None:
        """The other sites are told of this line now, if not before; one at a time is timed."""
        if lts <= self.shown_lts:
            return
        self.shown_lts = lts
        if timed and not self.timed_lts:
            self.timed_lts, self.since_us = lts, now_us

    def reach(self, aru: int, now_us: int) -> None:
        """Everything stamped below this line is known to be everywhere."""
        if not 0 < self.timed_lts <= aru:
            return
        self.timed_lts = 0
        self._recent_us = min(self._recent_us, now_us - self.since_us)
        self._recent += 1
        self.least_us = min(self.least_us, self._recent_us)
        if self._recent == SAMPLES:
            self.least_us, self._recent_us, self._recent = self._recent_us, NEVER, 0


@dataclass(slots=True)
class AruUpdates:
    """The last promise, and what has happened since."""

    delta_us_max: int
    floor_us: int
    hurry_bytes: int  # So much of other sites is reason not to wait for delta.
    others: SiteMask  # The other sites of the view.
    distance: Distance
    sent: Update | None = None
    sent_at_us: int = -(2**62)
    count: int = 0  # Promises sent in this view.
    wake_at_us: int = NEVER
    heard_bytes: int = 0  # Of other sites, since the last promise.
    told_lts: int = 0  # Nothing below it is to come of this site, as promises and bundles have told the others.
    ordered_lts: int = 0  # The highest stamp of a bundle that somebody may want in order.

    @property
    def delta_us(self) -> int:
        """The least time between two promises while somebody waits for the order.

        A part of the distance, because a sample includes such waits: so it shrinks where sites are near.
        """
        return min(self.delta_us_max, max(DELTA_US_MIN, self.distance.least_us * 3 // 5))

    # What happens.

    def heard(self, size_bytes: int, lts: int, ordered: bool) -> None:
        """A bundle of another site has come, or its meta-data."""
        self.heard_bytes += size_bytes
        if ordered:
            self.ordered_lts = max(self.ordered_lts, lts)

    def stamped(self, lts: int, mask: SiteMask, ordered: bool, now_us: int) -> None:
        """A bundle of this site is on its way; to a site that gets its body it is as good as a promise.

        Meta-data may wait for company, which a promise is.
        """
        if ordered:
            self.ordered_lts = max(self.ordered_lts, lts)
        if mask & self.others == self.others:
            self.told_lts = max(self.told_lts, lts + 1)
        self.distance.show(lts + 1, ordered, now_us)

    # What follows.

    def wants(self, clock: int, agreed_line: int, now_us: int) -> bool:
        """Whether the token is wanted now; if only later, `wake_at_us` says when."""
        due_us = self._due_us(clock + 1, agreed_line)
        if now_us >= due_us:
            self.wake_at_us = NEVER
            return True
        self.wake_at_us = due_us
        return False

    def visited(self, site: SiteId, visited: Visited, now_us: int) -> Update | None:
        """The promise to send in this visit, if one is due."""
        update = Update(site, visited.site_seq, visited.site_lts + 1, visited.site_aru)
        if now_us < self._due_us(update.lts, update.aru):
            return None
        self.distance.show(update.lts, self._awaited, now_us)
        self.sent, self.sent_at_us, self.heard_bytes = update, now_us, 0
        self.told_lts = max(self.told_lts, update.lts)
        self.count += 1
        return update

    @property
    def _awaited(self) -> bool:
        """Whether a bundle is wanted in order of which this site has not said that it has all before it."""
        return self.sent is None or self.ordered_lts >= self.sent.aru

    def _due_us(self, lts: int, aru: int) -> int:
        """When a promise of these lines is due."""
        if self.sent is None:
            return self.sent_at_us
        if lts <= self.told_lts and aru <= self.sent.aru:
            return self.sent_at_us + self.floor_us
        if self.heard_bytes >= self.hurry_bytes:
            return self.sent_at_us
        return self.sent_at_us + (self.delta_us if self._awaited else self.delta_us_max)


def aru_updates(
    options: MembershipOptions, site: SiteId, sites: Collection[SiteId], first_lts: int
) -> AruUpdates:
    """For a view of these sites whose stamps begin there.

    All hear what each site says, so each hurries the less the more there are.
    """
    return AruUpdates(
        options.update_delta_us,
        options.update_floor_us,
        options.update_hurry_bytes * len(sites),
        mask_of(*[one for one in sites if one != site]),
        Distance(first_lts),
    )
