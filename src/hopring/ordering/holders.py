"""Holders: how many daemons must hold a message before it is delivered, and which daemons do.

Implements  the K resilient and majority resilient services of the RMP paper (3.2, figure 3.2), for daemons.
Below       the line of each daemon: it has everything stamped below it that its site wants.
Above       the order, which delivers a resilient message when it has its holders.
Invariants  a message with resilience k is delivered when it survives the loss of any k daemons of the view; one
            with MAJORITY, when all sets of daemons with at least half of the view's votes have a holder.
Deviations  the paper counts transfers of the token, K or K - 1 of them; here k + 1 distinct daemons are
            counted, by what each says of itself. A message is ordered behind earlier ones, and so survives
            only if they do: one that is only for some sites needs as many holders among their daemons, or all
            of them, since nobody else wants it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import SiteId, SiteMask, mask_of

RESILIENCE_MAX: Final = 254
"""The highest number of lost daemons that a message may be asked to survive."""

MAJORITY: Final = 255
"""Instead of a number: daemons with more than half of the view's votes, and primary views only."""


@dataclass(frozen=True, slots=True)
class ViewVotes:
    """The votes of a view's daemons, by site and in the order of the site's ring."""

    by_site: Mapping[SiteId, tuple[int, ...]]

    @property
    def total(self) -> int:
        """The votes of all daemons."""
        return sum(map(sum, self.by_site.values()))

    def widened(self, mask: SiteMask, resilience: int) -> SiteMask:
        """The mask with further sites, the lowest first, until they have daemons enough for the message."""
        if resilience == MAJORITY:
            return mask_of(*self.by_site)
        daemons = sum([len(votes) for site, votes in self.by_site.items() if mask >> site & 1])
        for site, votes in sorted(self.by_site.items()):
            if daemons > resilience:
                break
            if not mask >> site & 1:
                mask = SiteMask(mask | 1 << site)
                daemons += len(votes)
        return mask


@dataclass(slots=True)
class Holders:
    """What the daemons of a view are known to hold, as one of them knows it."""

    votes: ViewVotes
    site: SiteId  # Of this daemon.
    place: int  # Of this daemon in the ring of its site.
    lines: dict[SiteId, tuple[int, ...]] = field(default_factory=dict)  # Of the daemons of each site.

    def check(self, site: SiteId, lines: tuple[int, ...], clock: int) -> None:
        """Refuses lines that cannot be true."""
        if len(lines) != len(self.votes.by_site.get(site, ())):
            raise PeerError(Drop.INCONSISTENT, f"{len(lines)} lines of daemons of site {site}")
        if max(lines) > clock + 1:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a daemon's line {max(lines)}, our clock is at {clock}")

    def learn(self, site: SiteId, lines: tuple[int, ...]) -> None:
        """Records the lines that the daemons of a site have stated; a line never falls."""
        known = self.lines.get(site, lines)
        self.lines[site] = tuple([max(pair) for pair in zip(known, lines, strict=True)])

    def enough(self, lts: int, mask: SiteMask, resilience: int, stable: Mapping[SiteId, int]) -> bool:
        """Whether enough daemons of these sites have everything up to this stamp, or all of them do."""
        holders, votes_held = self._count(lts, mask, stable)
        if holders == self.daemons(mask):
            return True
        return 2 * votes_held > self.votes.total if resilience == MAJORITY else holders > resilience

    def daemons(self, mask: SiteMask) -> int:
        """The number of daemons of these sites."""
        return sum([len(votes) for site, votes in self.votes.by_site.items() if mask >> site & 1])

    def count(self, lts: int, mask: SiteMask, stable: Mapping[SiteId, int]) -> int:
        """How many daemons of these sites are known to have everything up to this stamp."""
        return self._count(lts, mask, stable)[0]

    def _count(self, lts: int, mask: SiteMask, stable: Mapping[SiteId, int]) -> tuple[int, int]:
        """These daemons and their votes.

        `stable` has the line that all daemons of a site have reached. This daemon has everything.
        """
        holders = votes_held = 0
        for site, votes in self.votes.by_site.items():
            if not mask >> site & 1:
                continue
            lines = self.lines.get(site, ())
            for place, weight in enumerate(votes):
                mine = site == self.site and place == self.place
                if mine or stable[site] > lts or (lines and lines[place] > lts):
                    holders += 1
                    votes_held += weight
        return holders, votes_held


def one_vote_each(sites: Iterable[SiteId]) -> ViewVotes:
    """The votes of daemons of these sites, one for each daemon."""
    return ViewVotes({site: (1,) * count for site, count in Counter(sites).items()})
