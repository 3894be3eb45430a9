"""Destinations: which sites want the body of a bundle, as the layer above knows it.

The mask is asked for when the bundle is stamped and not before: what a daemon has heard of before the stamp is
then in the mask, and a site that was left out is one whose wish comes later in the order.
"""

from hopring.ids import SiteMask
from hopring.ordering.entry import OrderedMessage


class Destinations:
    """Everybody wants everything; a layer above that prunes knows better."""

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:  # noqa: ARG002
        """The sites that want this bundle, of those in the view; the sender's own site must be among them."""
        return sites

    def heard(self, message: OrderedMessage) -> None:
        """A daemon's own message has come; its turn in the order is later."""
