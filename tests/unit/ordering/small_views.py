"""Small views for tests of the order: bundles as `(site, seq, lts)`, with a short text as payload."""

from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.ordering.entry import Entry, OrderedMessage
from hopring.ordering.order import Order, new_order
from hopring.services import Service
from hopring.wire.routed import Meta

EVERYWHERE = SiteMask(0b111)


def order_of(*sites: int, start_lts: int = 0) -> Order:
    """An order for a view of these sites."""
    return new_order([SiteId(site) for site in sites], start_lts)


def hold(
    order: Order, site: int, seq: int, lts: int, word: str, service: Service = Service.AGREED, prev: int = 0
) -> list[str]:
    """Adds a bundle; returns those that may be delivered early."""
    meta = Meta(SiteId(site), seq, lts, EVERYWHERE, prev)
    return payloads(order.hold(meta, OrderedMessage(service, DaemonId(site), 1, word.encode())))


def hold_meta(order: Order, site: int, seq: int, lts: int, prev: int = 0) -> list[str]:
    """The meta-data of a bundle that is not for this site."""
    return payloads(order.hold(Meta(SiteId(site), seq, lts, SiteMask(0), prev), None))


def promise(order: Order, site: int, seq: int, lts: int) -> None:
    """Promises that the site stamps nothing below `lts` after `seq`."""
    order.promise(SiteId(site), seq, lts)


def deliver(order: Order) -> list[str]:
    """Delivers the bundles that are next in the order."""
    return payloads(order.deliver())


def payloads(entries: list[Entry]) -> list[str]:
    """Payloads of entries; meta-data as a dash."""
    return [bytes(entry.message.payload).decode() if entry.message is not None else "-" for entry in entries]
