"""Destinations: the sites that want the body of a bundle, as the layer above knows them.

The mask is computed when the bundle is stamped. So it includes every interest that this daemon had received
before, and the interest of a site that is left out is later in the order.
"""

from hopring.ids import SiteMask
from hopring.ordering.entry import OrderedMessage


class Destinations:
    """All sites want all bodies; a layer above that prunes overrides this."""

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:  # noqa: ARG002
        """The sites that want this bundle, of those in the view; the sender's own site must be among them."""
        return sites

    def heard(self, message: OrderedMessage) -> None:
        """Called when a daemon's own message arrives, before it is delivered in order."""
