"""What a configuration says to one daemon about its networks and its membership."""

from dataclasses import replace
from typing import Final

from hopring.config import Config
from hopring.ids import DaemonId
from hopring.links.ring_options import RingOptions
from hopring.membership.options import MembershipOptions
from hopring.stack_events import StackOptions

REST_PART: Final = 3
"""The part of `token_loss` for which an idle token may rest, as a divisor."""


def stack_options(config: Config, me: DaemonId) -> StackOptions:
    """The options of its stacks; those of links are in the topology."""
    tuning = config.sites[config.site_of[me]].ring
    ring = replace(RingOptions(), **tuning.given())
    if tuning.hold_us is None:
        # An idle daemon sleeps more; a host that wakes up late needs the rest of the time.
        ring = replace(ring, rest_us_max=ring.token_loss_us // REST_PART)
    return StackOptions(ring=ring)


def membership_options(config: Config) -> MembershipOptions:
    """The options of its membership."""
    return replace(MembershipOptions(), **config.membership.given())
