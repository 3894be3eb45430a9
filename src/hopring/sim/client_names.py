"""Names of clients' messages and views in the simulator, and which messages of daemons do not go everywhere."""

from struct import Struct
from typing import Final

from hopring.check import trace
from hopring.groups.names import GroupViewId
from hopring.groups.payloads import unseal
from hopring.ids import SiteMask
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, Message
from hopring.sim.cluster import view_name
from hopring.wire.bundle import Bundle, decode_bundle

# daemon, incarnation, session, number: a message's name, in front of its body.
NAME: Final = Struct("<HQII")

Key = bytes | tuple[object, ...]
"""What tells the messages of daemons apart: of a bundle its first message, of a word its place in the order."""


class Watched(Destinations):
    """The interest of a daemon's groups, and a note of every bundle that does not go everywhere."""

    def __init__(self, inner: Destinations, pruned: set[Key]) -> None:
        self._inner = inner
        self._pruned = pruned

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:
        """As the groups say."""
        mask = self._inner.mask(bundle, sites)
        if mask != sites:
            self._pruned.add(first_name(bundle[MESSAGE_HEAD_BYTES:]))
        return mask

    def heard(self, message: Message) -> None:
        """Tells the groups."""
        self._inner.heard(message)


def group_view_name(view: GroupViewId) -> trace.GroupViewName:
    """A group's view in the words of the trace."""
    path = tuple([view_name(one) for one in view.path])
    return trace.GroupViewName(view_name(view.view), path, view.step)


def first_name(payload: bytes | memoryview) -> bytes:
    """The name of a bundle's first message."""
    bundle: Bundle = decode_bundle(unseal(payload)[1])
    return bytes(bundle.message(0)[: NAME.size])
