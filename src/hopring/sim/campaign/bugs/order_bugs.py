"""Planted bugs of links and ordering: promises, delivery order, the token, the clock, generations."""

from collections.abc import Callable
from typing import Any, Final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, SITES_MAX, SiteId
from hopring.links.ring.events import Release
from hopring.links.ring.state import RingState
from hopring.membership.message_flow import MessageFlow
from hopring.membership.messages import StateTrans
from hopring.membership.view import InstalledView, ViewAttempt
from hopring.ordering.entry import Entry, OrderedMessage, Position
from hopring.ordering.order import Order, SiteLine
from hopring.ordering.stamps import Stamps
from hopring.sim.campaign.bugs.planting import Bug, bug
from hopring.stack import Stack
from hopring.stack_events import Promise, WishVisit
from hopring.wire.control import Update
from hopring.wire.header import Header
from hopring.wire.routed import Meta

Deliver = Callable[[Order], list[Entry]]


def _unchecked(check: Callable[[SiteLine, int, int], None]) -> Any:
    """Receivers refuse stamps that contradict a promise, so the order would not break."""
    del check
    return lambda _self, _seq, _lts: None


def _promise_before_data(promise: Callable[[SiteLine, int, int], None]) -> Any:
    def promise_at_once(self: SiteLine, seq: int, lts: int) -> None:
        promise(self, seq, lts)
        self.next_lts = max(self.next_lts, lts)

    return promise_at_once


def _gap_ignored(hold: Callable[[SiteLine, int, int], None]) -> Any:
    def hold_as_if_whole(self: SiteLine, seq: int, lts: int) -> None:
        hold(self, seq, lts)
        self.next_lts = max(self.next_lts, lts + 1)

    return hold_as_if_whole


def _tie_ignored(edge: property) -> Any:
    del edge

    def edge_without_sites(self: Order) -> Position:
        return Position(min(line.next_lts for line in self.lines.values()), SITES_MAX - 1)

    return property(edge_without_sites)


def _with_stable(self: Order, stable: Callable[[SiteLine], int], then: Deliver) -> list[Entry]:
    """Does something as if the sites were known to have more than they are."""
    kept = {site: line.stable_lts for site, line in self.lines.items()}
    for line in self.lines.values():
        line.stable_lts = stable(line)
    try:
        return then(self)
    finally:
        for site, line in self.lines.items():
            line.stable_lts = kept[site]


def _safe_unstable(deliver: Deliver) -> Any:
    def deliver_safe_as_agreed(self: Order) -> list[Entry]:
        return _with_stable(self, lambda _: NEVER, deliver)

    return deliver_safe_as_agreed


def _discard_unstable(discard: Deliver) -> Any:
    def discard_what_is_delivered(self: Order) -> list[Entry]:
        return _with_stable(self, lambda line: line.next_lts, discard)

    return discard_what_is_delivered


def _agreed_passes_safe(deliver: Deliver) -> Any:
    def deliver_around_safe(self: Order) -> list[Entry]:
        out = deliver(self)
        for entry in self.listed[self.walked :]:
            if entry.position >= self.edge:
                break
            if not entry.delivered and entry.message and not entry.message.service.stable:
                entry.delivered = True
                out.append(entry)
        return out

    return deliver_around_safe


def _fifo_at_once(early: Callable[[Order, Entry], list[Entry]]) -> Any:
    def early_if_fifo(self: Order, entry: Entry) -> list[Entry]:
        if entry.message is not None and entry.message.service.by_session:
            entry.delivered = True
            return [entry]
        return early(self, entry)

    return early_if_fifo


def _duplicates_held(hold: Callable[[Order, Meta, OrderedMessage | None], list[Entry]]) -> Any:
    def hold_again(self: Order, meta: Meta, message: OrderedMessage | None) -> list[Entry]:
        if message is not None and self.lines[meta.source].holds(meta.seq):
            # A fresh entry, as if it had never been here.
            return [Entry(meta.source, meta.seq, meta.lts, meta.mask, meta.prev, message)]
        return hold(self, meta, message)

    return hold_again


def _never_seen(holds: Callable[[Order, SiteId, int], bool]) -> Any:
    def only_what_is_forgotten(self: Order, site: SiteId, seq: int) -> bool:
        return (site, seq) not in self.entries and holds(self, site, seq)

    return only_what_is_forgotten


def _store_forgets(has: Callable[[Any, int], bool]) -> Any:
    del has
    return lambda _self, _seq: False


def _promise_from_clock(wish: Callable[..., WishVisit | None]) -> Any:
    def promise_without_the_token(
        self: MessageFlow, view: InstalledView, stack: Stack, now_us: int
    ) -> Promise | WishVisit | None:
        updates, order = self.updates, view.order
        if stack.network.is_representative and len(stack.network.sites) > 1:
            news = updates.sent is None or order.clock >= updates.sent.lts
            if news and now_us >= updates.sent_at_us + updates.delta_us:
                line = order.lines[self.site]
                updates.sent = Update(self.site, line.highest, order.clock + 1, line.stable_lts)
                updates.sent_at_us = now_us
                return Promise(updates.sent)
        return wish(self, view, stack, now_us)

    return promise_without_the_token


def _one_value_aru(usable: Callable[[int, int], int]) -> Any:
    del usable
    return lambda written_now, _written_last: written_now


def _kept_counts(keep_token: Callable[..., None]) -> Any:
    def keep_as_if_it_had_gone(s: RingState, release: Release, packets: int, last_segments: int) -> None:
        keep_token(s, release, packets, last_segments)
        s.passed = s.passed.replace(link_aru=s.store.aru, site_aru=release.local_aru)

    return keep_as_if_it_had_gone


def _clock_not_raised(heard: Callable[[Stamps, int], None]) -> Any:
    del heard
    return lambda _self, _lts: None


def _clock_not_followed(follow: Callable[[Stamps, int], bool]) -> Any:
    del follow
    return lambda _self, _lts: True


def _stability_unchecked(stable: Callable[[Order, SiteId, int], None]) -> Any:
    """Without its clock a daemon would refuse every stability line."""
    del stable

    def stable_at_any_clock(self: Order, site: SiteId, aru: int) -> None:
        line = self.lines[site]
        line.stable_lts = max(line.stable_lts, aru)

    return stable_at_any_clock


def _state_unchecked(check: Callable[[ViewAttempt, StateTrans], None]) -> Any:
    """Others refuse a state beyond its own clock; the daemon itself would stop."""
    del check
    return lambda _self, _state: None


def _clock_of_the_view(heard: Callable[[Stack, int], None]) -> Any:
    """A new view's clock still counts: without it nothing at all would work."""
    del heard

    def raise_clock(self: Stack, lts: int) -> None:
        self.stamps.clock = max(self.stamps.clock, lts)

    return raise_clock


def _clock_kept(take: Callable[..., Any]) -> Any:
    """The order's own copy of the clock, which says when a promise is due, would notice the difference."""

    def take_without_clock(self: Order, *what: Any) -> Any:
        clock = self.clock
        out = take(self, *what)
        self.clock = clock
        return out

    return take_without_clock


def _stale_generation(check: Callable[[Stack, Header], None]) -> Any:
    def check_all_but_generation(self: Stack, header: Header) -> None:
        try:
            check(self, header)
        except PeerError as error:
            if error.reason is not Drop.STALE_GENERATION:
                raise

    return check_all_but_generation


def _unstamped_lost(take_back: Callable[[Stamps], list[tuple[int, bytes]]]) -> Any:
    def take_nothing_back(self: Stamps) -> list[tuple[int, bytes]]:
        take_back(self)
        return []

    return take_nothing_back


LINES: Final = "hopring.ordering.order:SiteLine"
ORDER: Final = "hopring.ordering.order:Order"
STORE: Final = "hopring.links.ring.store:RingStore"
STAMPS: Final = "hopring.ordering.stamps:Stamps"
STACK: Final = "hopring.stack:Stack"

UNCHECKED: Final = (
    (f"{LINES}.check", _unchecked),
    ("hopring.membership.view:ViewAttempt._check_own", _state_unchecked),
)
"""Without these checks bundles that break the order are held; with them the network or the daemon ends."""

BUGS: Final[tuple[Bug, ...]] = (
    bug(
        "promise-before-data",
        "rule 2",
        "a promise counts as soon as it comes, although bundles it speaks of are still under way",
        (f"{LINES}.promise", _promise_before_data),
        *UNCHECKED,
    ),
    bug(
        "gap-ignored",
        "rule 2",
        "a bundle above a gap raises its site's line as if the gap were not there",
        (f"{LINES}.hold", _gap_ignored),
        *UNCHECKED,
    ),
    bug(
        "tie-ignored",
        "rule 3, trap 10",
        "of a site with a lower number, having all up to the stamp counts as having the stamp too",
        (f"{ORDER}.edge", _tie_ignored),
    ),
    bug(
        "safe-unstable",
        "rule 5",
        "a Safe message does not wait until all daemons have it",
        (f"{ORDER}.deliver", _safe_unstable),
    ),
    bug(
        "agreed-passes-safe",
        "rule 4",
        "Agreed messages pass a Safe one that is not stable",
        (f"{ORDER}.deliver", _agreed_passes_safe),
    ),
    bug(
        "fifo-at-once",
        "rule 6, trap 12",
        "a FIFO message is delivered on receipt, past earlier ones of its session",
        (f"{ORDER}._early", _fifo_at_once),
    ),
    bug(
        "discard-unstable",
        "rules 5 and 13",
        "a bundle is forgotten once it is delivered here, though others may lack it",
        (f"{ORDER}.discard", _discard_unstable),
    ),
    bug(
        "duplicates-held",
        "rule 14",
        "the ring forgets which packets it had, and the order which bundles: duplicates are delivered",
        (f"{STORE}.has", _store_forgets),
        (f"{ORDER}.holds", _never_seen),
        (f"{ORDER}.hold", _duplicates_held),
    ),
    bug(
        "promise-from-clock",
        "rule 10",
        "a representative promises from its own clock, without the token: another daemon may yet stamp lower",
        ("hopring.membership.message_flow:MessageFlow.wish", _promise_from_clock),
        *UNCHECKED,
    ),
    bug(
        "one-value-aru",
        "rule 15, trap 9",
        "the value just written on the token counts as received by all, without that of the visit before",
        ("hopring.links.ring.visit:usable", _one_value_aru),
    ),
    bug(
        "kept-counts",
        "rule 15",
        "a visit after which the token stays counts as one of the two that bracket a rotation",
        ("hopring.links.ring.ring:keep_token", _kept_counts),
    ),
    bug(
        "clock-not-raised",
        "rule 8",
        "the clock that stamps does not rise on receipt",
        (f"{STAMPS}.heard", _clock_not_raised),
        (f"{STAMPS}.follow", _clock_not_followed),
        (f"{ORDER}.stable", _stability_unchecked),
        *UNCHECKED,
        (f"{STACK}.heard", _clock_of_the_view),
        (f"{ORDER}.hold", _clock_kept),
        (f"{ORDER}.promise", _clock_kept),
    ),
    bug(
        "stale-generation",
        "rule 14, trap 5",
        "packets of an earlier network between the same daemons are taken for the present one's",
        (f"{STACK}._check", _stale_generation),
        *UNCHECKED,
    ),
    bug(
        "unstamped-lost",
        "property 2.15",
        "bundles that wait for the token when a network ends are not taken back",
        (f"{STAMPS}.take_back", _unstamped_lost),
    ),
)
