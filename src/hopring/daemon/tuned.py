"""What a configuration says to one daemon about its networks."""

from dataclasses import replace

from hopring.config import Config
from hopring.ids import DaemonId
from hopring.links.ring_options import RingOptions
from hopring.stack_events import StackOptions


def stack_options(config: Config, me: DaemonId) -> StackOptions:
    """The options of its stacks; those of links are in the topology."""
    tuning = config.sites[config.site_of[me]].ring
    return StackOptions(ring=replace(RingOptions(), **tuning.given()))
