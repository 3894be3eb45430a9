"""What a configuration says to one daemon about its networks and its membership."""

from dataclasses import replace
from typing import Final

from hopring.config import Config
from hopring.config.model import LinkProtocol
from hopring.ids import DaemonId
from hopring.links.ring_options import RingOptions
from hopring.membership.options import MembershipOptions
from hopring.stack_events import StackOptions
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, packet_bytes_of

REST_PART: Final = 3
"""The part of `token_loss` for which an idle token may rest, as a divisor."""


def stack_options(config: Config, me: DaemonId) -> StackOptions:
    """The options of its stacks; those of links are in the topology."""
    tuning = config.sites[config.site_of[me]].ring
    ring = replace(RingOptions(), **tuning.given())
    if tuning.hold_us is None:
        # An idle daemon sleeps more; a host that wakes up late needs the rest of the time.
        ring = replace(ring, rest_us_max=ring.token_loss_us // REST_PART)
    return StackOptions(ring=ring, object_bytes_max=_object_bytes_max(config))


def _object_bytes_max(config: Config) -> int:
    """What fits in one packet of every ring and link: an object crosses several, and is cut only once."""
    rings = [
        replace(RingOptions(), **site.ring.given()).among(len(site.daemons)).packet_bytes
        for site in config.sites
    ]
    segments = [link.tuning.segment_bytes for link in config.all_links if link.protocol is LinkProtocol.HOP]
    return min([*rings, *[packet_bytes_of(one or SEGMENT_BYTES_DEFAULT) for one in segments]])


def membership_options(config: Config) -> MembershipOptions:
    """The options of its membership."""
    return replace(MembershipOptions(), **config.membership.given())
