"""Stamps: gives bundles their site sequence and Lamport stamp during a visit of the token.

Implements  thesis 5.1, the identifiers of a message.
Below       the ring's visits, which bring the token's site_seq and site_lts.
Above       the stack, which queues bundles.
Invariants  stamps rise strictly along the site sequence, and are above every stamp heard of before; the
            destinations of a bundle are determined when it is stamped; nothing is stamped between visits.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, SiteId, SiteMask
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import resilience_of
from hopring.ordering.holders import ViewVotes
from hopring.value import Value
from hopring.wire.fragments import fragment
from hopring.wire.routed import Meta, Routed


@final
class StampedBundles(Value):
    """The bundles stamped in one visit, the fragments that leave, and the token's new counters."""

    def __init__(
        self,
        site_seq: int,
        site_lts: int,
        bundles: tuple[tuple[Meta, bytes], ...],
        fragments: tuple[Routed, ...],
    ) -> None:
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.bundles: Final = bundles  # Stamped in this visit.
        self.fragments: Final = fragments  # Those that leave in this visit, of bundles stamped in it or before.


@dataclass(slots=True)
class Stamps:
    """The bundles of this daemon that wait for the token."""

    site: SiteId
    object_bytes_max: int
    clock: int = 0  # The highest stamp seen.
    waiting: deque[tuple[int, SiteMask, bytes]] = field(default_factory=deque)
    waiting_bytes: int = 0
    leaving: deque[Routed] = field(default_factory=deque)  # Stamped, and not sent yet.
    last_seq: dict[int, int] = field(default_factory=dict)  # The sequence of the last bundle, by session.
    destinations: Destinations = field(default_factory=Destinations)
    votes: ViewVotes = field(
        default_factory=lambda: ViewVotes({})
    )  # The daemons by site; weights do not matter.
    in_flight_max: int = NUMBER_MAX  # The most bundles of all members that may be sent and not stable.
    start_lts: int = 0  # The view begins at this stamp, and a member may have installed it.
    site_seq: int = 0  # The token's sequence at the end of the last visit.

    @property
    def busy(self) -> bool:
        """Whether bundles or fragments wait for the next visit."""
        return bool(self.waiting or self.leaving)

    def put(self, session: int, mask: SiteMask, bundle: bytes) -> None:
        """Queues a session's bundle for the next visit."""
        self.waiting.append((session, mask, bundle))
        self.waiting_bytes += len(bundle)

    def take_back(self) -> list[tuple[int, bytes]]:
        """The bundles that are not stamped, with their sessions, the oldest first."""
        back = [(session, bundle) for session, _, bundle in self.waiting]
        self.waiting.clear()
        self.waiting_bytes = 0
        return back

    def heard(self, lts: int) -> None:
        """Advances the clock to a received stamp."""
        self.clock = max(self.clock, lts)

    def follow(self, lts: int) -> bool:
        """Advances the clock to a stamp that follows from those known; returns whether it does.

        Each stamp between the highest known one and this one belongs to a bundle in flight.
        """
        if lts > max(self.clock, self.start_lts) + self.in_flight_max:
            return False
        self.clock = max(self.clock, lts)
        return True

    def check_token(self, site_seq: int, site_lts: int) -> None:
        """Refuses the numbers of a token if the members cannot have that many bundles in flight."""
        if site_seq > self.site_seq + self.in_flight_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"token with bundle {site_seq}, the last had {self.site_seq}")
        if site_lts > max(self.clock, self.start_lts) + self.in_flight_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"token with stamp {site_lts}, our clock is at {self.clock}")

    def visit(self, site_seq: int, site_lts: int, reserve: Callable[[Routed], bool]) -> StampedBundles:
        """Stamps bundles until a fragment does not fit this visit; it goes first in the next one.

        `reserve` reserves space for a fragment in this visit and returns whether there was enough.
        """
        self.clock = max(self.clock, site_lts)
        bundles: list[tuple[Meta, bytes]] = []
        fragments: list[Routed] = []
        while self.busy:
            if not self.leaving:
                site_seq += 1
                self.clock += 1
                bundles.append(self._stamp(site_seq))
            if not reserve(self.leaving[0]):
                break
            fragments.append(self.leaving.popleft())
        self.site_seq = site_seq
        return StampedBundles(site_seq, self.clock, tuple(bundles), tuple(fragments))

    def _stamp(self, site_seq: int) -> tuple[Meta, bytes]:
        session, mask, bundle = self.waiting.popleft()
        self.waiting_bytes -= len(bundle)
        mask = self.destinations.mask(bundle, mask)
        resilience = resilience_of(bundle)
        if resilience:
            mask = self.votes.widened(mask, resilience)
        meta = Meta(self.site, site_seq, self.clock, mask, self.last_seq.get(session, 0))
        self.last_seq[session] = site_seq
        self.leaving.extend(fragment(meta, bundle, self.object_bytes_max))
        return meta, bundle
