"""Planted bugs of the order: lines, promises, the walk through the list, and what is forgotten."""

from collections.abc import Callable
from typing import Any, Final

from hopring.ids import NEVER, SITES_MAX, SiteId
from hopring.ordering.entry import Entry, Message, Position
from hopring.ordering.lines import SiteLine
from hopring.ordering.order import Order
from hopring.sim.campaign.bugs import Bug, bug
from hopring.wire.routed import Meta

Deliver = Callable[[Order], list[Entry]]


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


def _duplicates_held(hold: Callable[[Order, Meta, Message | None], list[Entry]]) -> Any:
    def hold_again(self: Order, meta: Meta, message: Message | None) -> list[Entry]:
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


LINES: Final = "hopring.ordering.lines:SiteLine"
ORDER: Final = "hopring.ordering.order:Order"
STORE: Final = "hopring.links.ring_store:RingStore"

BUGS: Final[tuple[Bug, ...]] = (
    bug(
        "promise-before-data",
        "rule 2",
        "a promise counts as soon as it comes, although bundles it speaks of are still under way",
        (f"{LINES}.promise", _promise_before_data),
    ),
    bug(
        "gap-ignored",
        "rule 2",
        "a bundle above a gap raises its site's line as if the gap were not there",
        (f"{LINES}.hold", _gap_ignored),
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
        "the ring forgets which packets it had, and the order which bundles: what is sent again comes again",
        (f"{STORE}.has", _store_forgets),
        (f"{ORDER}.holds", _never_seen),
        (f"{ORDER}.hold", _duplicates_held),
    ),
)
