"""ARU_Updates: when a site's representative owes the other sites a promise.

Implements  thesis 5.2, with an adaptive delta.

A promise with news is due as soon as the last one is at least delta old. While ordered bundles wait for
promises, delta is in proportion to the measured distance of the sites; otherwise, and at most, it is
`update_delta_us`. After `hurry_bytes` from other sites since the last promise, the next one is due at once:
their senders wait for it, and it costs little beside that data. A promise without news is due at the floor
rate.

While resilient bundles wait for holders, promises have the lines of the site's daemons, and a line that has
changed is news.

A bundle of the own site with the stamp t implies a promise of t + 1. So a promise that does not go beyond the
site's last bundle has no news: it would only delay the next one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from hopring.ids import NEVER, SiteId, SiteMask, mask_of
from hopring.membership.options import MembershipOptions
from hopring.stack_events import Visited
from hopring.wire.control import Update

SAMPLES: Final = 8
"""The distance is the least of the last samples: of this many, up to twice as many."""

DELTA_US_MIN: Final = 500
"""Lower bound of delta: every promise is work for all sites."""


@dataclass(slots=True)
class Distance:
    """The time from a new stamp of this site until every site is known to have it.

    A sample is at least the round trip to the farthest site, whatever the route: a site acknowledges a stamp
    only after it has heard of it. It is at most 3 D + 2 delta, with D the diameter of the overlay.
    """

    shown_lts: int  # The other sites know that this site sends nothing below it.
    timed_lts: int = 0  # The line that is being timed, or 0.
    since_us: int = 0  # When that line was first sent.
    least_us: int = NEVER
    _recent_us: int = NEVER
    _recent: int = 0

    def show(self, lts: int, timed: bool, now_us: int) -> None:
        """This line is sent to the other sites, perhaps not for the first time; one line at a time is timed."""
        if lts <= self.shown_lts:
            return
        self.shown_lts = lts
        if timed and not self.timed_lts:
            self.timed_lts, self.since_us = lts, now_us

    def reach(self, aru: int, now_us: int) -> None:
        """Everything stamped below this line is known to be at every site."""
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
    """The last promise of this site, and the events since then that decide when the next one is due."""

    delta_us_max: int
    floor_us: int
    hurry_bytes: int  # After this many bytes from other sites a promise does not wait for delta.
    others: SiteMask  # The other sites of the view.
    distance: Distance
    sent: Update | None = None
    sent_at_us: int = -(2**62)
    count: int = 0  # Promises sent in this view.
    wake_at_us: int = NEVER
    heard_bytes: int = 0  # Of other sites, since the last promise.
    told_lts: int = 0  # The highest line implied by promises and bundles sent so far.
    ordered_lts: int = 0  # The highest stamp of a bundle of an ordered service.

    @property
    def delta_us(self) -> int:
        """The least time between two promises while ordered bundles wait for promises.

        It is a fraction of the distance, because a sample includes such waits: so it shrinks where sites are
        near.
        """
        return min(self.delta_us_max, max(DELTA_US_MIN, self.distance.least_us * 3 // 5))

    # Events.

    def heard(self, size_bytes: int, lts: int, ordered: bool) -> None:
        """A bundle of another site, or its meta-data, is received."""
        self.heard_bytes += size_bytes
        if ordered:
            self.ordered_lts = max(self.ordered_lts, lts)

    def stamped(self, lts: int, mask: SiteMask, ordered: bool, now_us: int) -> None:
        """A bundle of this site is sent; for sites that get its body it implies a promise.

        Meta-data may wait for other data before it is sent, and a promise would not, so meta-data implies none.
        """
        if ordered:
            self.ordered_lts = max(self.ordered_lts, lts)
        if mask & self.others == self.others:
            self.told_lts = max(self.told_lts, lts + 1)
        self.distance.show(lts + 1, ordered, now_us)

    # Decisions.

    def check_due(self, clock: int, agreed_line: int, now_us: int) -> bool:
        """Whether a promise is due, so that the token is wanted now; otherwise `wake_at_us` is set."""
        due_us = self._due_us(clock + 1, agreed_line)
        if now_us >= due_us:
            self.wake_at_us = NEVER
            return True
        self.wake_at_us = due_us
        return False

    def visited(self, site: SiteId, visited: Visited, now_us: int) -> Update | None:
        """The promise to send in this visit, if one is due."""
        update = Update(site, visited.site_seq, visited.site_lts + 1, visited.site_aru, visited.lines)
        if now_us < self._due_us(update.lts, update.aru, update.lines):
            return None
        self.distance.show(update.lts, self._awaited, now_us)
        self.sent, self.sent_at_us, self.heard_bytes = update, now_us, 0
        self.told_lts = max(self.told_lts, update.lts)
        self.count += 1
        return update

    @property
    def _awaited(self) -> bool:
        """Whether an ordered bundle exists that this site's last promise does not cover."""
        return self.sent is None or self.ordered_lts >= self.sent.aru

    def _due_us(self, lts: int, aru: int, lines: tuple[int, ...] = ()) -> int:
        """When a promise of these lines becomes due."""
        if self.sent is None:
            return self.sent_at_us
        if lts <= self.told_lts and aru <= self.sent.aru and (not lines or lines == self.sent.lines):
            return self.sent_at_us + self.floor_us
        if self.heard_bytes >= self.hurry_bytes:
            return self.sent_at_us
        return self.sent_at_us + (self.delta_us if self._awaited else self.delta_us_max)


def aru_updates(
    options: MembershipOptions, site: SiteId, sites: Collection[SiteId], first_lts: int
) -> AruUpdates:
    """The promises of a new view of these sites, whose stamps begin at `first_lts`.

    Every site receives the promises of all others, so the urgency threshold grows with the number of sites.
    """
    return AruUpdates(
        options.update_delta_us,
        options.update_floor_us,
        options.update_hurry_bytes * len(sites),
        mask_of(*[one for one in sites if one != site]),
        Distance(first_lts),
    )
