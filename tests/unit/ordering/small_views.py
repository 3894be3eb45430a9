"""Small views for tests of the order: bundles as `(site, seq, lts)`, with a word for a payload."""

from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.ordering.entry import Entry, OrderedMessage
from hopring.ordering.order import Order, new_order
from hopring.services import Service
from hopring.wire.routed import Meta

EVERYWHERE = SiteMask(0b111)


def order_of(*sites: int, start_lts: int = 0) -> Order:
    """The order of a view of these sites."""
    return new_order([SiteId(site) for site in sites], start_lts)


def hold(
    order: Order, site: int, seq: int, lts: int, word: str, service: Service = Service.AGREED, prev: int = 0
) -> list[str]:
    """A bundle comes; returns what may be delivered before its turn."""
    meta = Meta(SiteId(site), seq, lts, EVERYWHERE, prev)
    return payloads(order.hold(meta, OrderedMessage(service, DaemonId(site), 1, word.encode())))


def hold_meta(order: Order, site: int, seq: int, lts: int, prev: int = 0) -> list[str]:
    """The meta-data of a bundle that is not for this site."""
    return payloads(order.hold(Meta(SiteId(site), seq, lts, SiteMask(0), prev), None))


def promise(order: Order, site: int, seq: int, lts: int) -> None:
    """A site's word that beyond `seq` it stamps nothing below `lts`."""
    order.promise(SiteId(site), seq, lts)


def deliver(order: Order) -> list[str]:
    """What has come to its turn."""
    return payloads(order.deliver())


def payloads(entries: list[Entry]) -> list[str]:
    """Entries by their words; meta-data as a dash."""
    return [bytes(entry.message.payload).decode() if entry.message is not None else "-" for entry in entries]
