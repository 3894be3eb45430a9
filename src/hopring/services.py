"""The services a message may be sent with, as one table of capabilities.

Ordering, membership, groups, bundles, checkers, queries, reports and command lines ask a service for a
capability and never for its name, so a new service is a new row of the table.

reliable  Sent again until it arrives, with a stamp and so a place in the order. Without it a message is
          *loose*: outside the numbering of links and the order, and it may be lost.
fifo      Delivered after every earlier message of its session that is delivered at all.
causal    Delivered after every message that may have caused it.
total     Delivered at its turn in the one order of all messages. A reliable message without it is *early*,
          delivered before its turn: *by session*, behind the earlier ones of its session, if it is FIFO, and
          *at once*, on receipt, if it is not.
stable    Delivered once every daemon of the view holds it.
"""

from enum import IntEnum
from typing import Final, Literal

Capability = Literal["loose", "reliable", "fifo", "causal", "total", "stable", "early", "by_session", "at_once"]


class Service(IntEnum):
    """The services by the number that they have on the wire.

    Capabilities are plain attributes, because messages are asked for them on their way: reading one costs less
    than comparing with a member of an enumeration.
    """

    UNRELIABLE = 1
    RELIABLE = 2
    FIFO = 3
    CAUSAL = 4
    AGREED = 5
    SAFE = 6

    loose: bool
    reliable: bool
    fifo: bool
    causal: bool
    total: bool
    stable: bool
    early: bool
    by_session: bool
    at_once: bool
    may_be_resilient: bool

    def promises(self, other: "Service") -> bool:
        """Whether a message of this service may stand for one of the other, having all its capabilities."""
        return _CAPABILITIES[self].issuperset(_CAPABILITIES[other])


_CAPABILITIES: Final[dict[Service, frozenset[Capability]]] = {
    Service.UNRELIABLE: frozenset(),
    Service.RELIABLE: frozenset({"reliable"}),
    Service.FIFO: frozenset({"reliable", "fifo"}),
    Service.CAUSAL: frozenset({"reliable", "fifo", "causal", "total"}),  # In the order of Agreed messages.
    Service.AGREED: frozenset({"reliable", "fifo", "causal", "total"}),
    Service.SAFE: frozenset({"reliable", "fifo", "causal", "total", "stable"}),
}


def _grant(service: Service, capabilities: frozenset[Capability]) -> None:
    """Sets the capabilities of a row, and what follows from them."""
    service.reliable = "reliable" in capabilities
    service.fifo = "fifo" in capabilities
    service.causal = "causal" in capabilities
    service.total = "total" in capabilities
    service.stable = "stable" in capabilities
    service.loose = not service.reliable
    service.early = service.reliable and not service.total
    service.by_session = service.early and service.fifo
    service.at_once = service.early and not service.fifo
    # Safe is more than any resilience, and without a place in the order nothing can wait for holders.
    service.may_be_resilient = service.total and not service.stable


for _service, _row in _CAPABILITIES.items():
    _grant(_service, _row)

SERVICES: Final = {int(service): service for service in Service}
"""By number: a lookup takes a fraction of the time of `Service(number)`."""

UNRELIABLE = Service.UNRELIABLE
RELIABLE = Service.RELIABLE
FIFO = Service.FIFO
CAUSAL = Service.CAUSAL
AGREED = Service.AGREED
SAFE = Service.SAFE


def services_with(capability: Capability) -> tuple[Service, ...]:
    """The services that have the capability, by rising number."""
    return tuple([service for service in Service if getattr(service, capability)])
