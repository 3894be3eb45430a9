"""The two worlds of clusters: channels that lose nothing, or the whole service on connections that do."""

from typing import Final

from hopring.sim.campaign.wide.outcome import WideOutcome
from hopring.sim.campaign.wide.service_runner import run_service_world, service_story
from hopring.sim.campaign.wide.service_world import ServiceWorld, draw_service_world
from hopring.sim.campaign.wide.wide_runner import run_wide_world, wide_story
from hopring.sim.campaign.wide.wide_world import WideWorld, draw_wide_world

CHANNELS_EVERY: Final = 3
"""Each world of this number is one of channels: the protocol alone, with more parcels in less time."""

AnyWideWorld = WideWorld | ServiceWorld


def draw_any_wide_world(seed: int) -> AnyWideWorld:
    """The world of a seed."""
    return draw_wide_world(seed) if seed % CHANNELS_EVERY == 0 else draw_service_world(seed)


def run_any_wide_world(world: AnyWideWorld) -> WideOutcome:
    """Runs a world of either kind and judges it."""
    return run_wide_world(world) if isinstance(world, WideWorld) else run_service_world(world)


def any_wide_story(world: AnyWideWorld, outcome: WideOutcome) -> list[str]:
    """The story of a run as lines of text."""
    if isinstance(world, WideWorld):
        return wide_story(world, outcome)
    return service_story(world, outcome)
