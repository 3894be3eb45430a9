"""The table of worlds that a campaign can run: how one is drawn from a seed, run, and told."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from hopring.sim.campaign.deployment import draw_deployment, run_deployment
from hopring.sim.campaign.rmp.ring_runner import run_ring_world
from hopring.sim.campaign.rmp.ring_story import ring_story
from hopring.sim.campaign.rmp.ring_world import RingWorld, aim_of, draw_ring_world
from hopring.sim.campaign.runner import WorldOutcome, run_world
from hopring.sim.campaign.story import story
from hopring.sim.campaign.wide.wide_worlds import (
    AnyWideWorld,
    any_wide_story,
    draw_any_wide_world,
    run_any_wide_world,
)
from hopring.sim.campaign.world import (
    DAEMONS_WORLD,
    DEPLOYMENT_WORLD,
    RMP_WORLD,
    WIDE_WORLD,
    SimWorld,
    WorldKind,
    draw_world,
)


@dataclass(frozen=True, slots=True)
class CampaignWorld:
    """One row: the functions take and return worlds of its own kind."""

    about: str
    draw: Callable[[int, WorldKind], Any]
    run: Callable[[Any], WorldOutcome]
    run_traced: Callable[[Any], WorldOutcome] | None
    """With everything that a file of the history is to have; None if there are no such files."""
    tell: Callable[[Any, Any], list[str]]  # The story of a world and its outcome.
    aim_of: Callable[[int], str] = lambda _seed: ""  # What the schedule of a seed aims at.


LINK_COUNTERS_US: Final = 100_000
"""How often the links' counters are in a history that is written to a file."""


def _run_with_counters(world: SimWorld) -> WorldOutcome:
    return run_world(world, LINK_COUNTERS_US)


def _draw_ring(seed: int, kind: WorldKind) -> RingWorld:
    assert kind.world == RMP_WORLD, "nothing is added to a world of peers"
    return draw_ring_world(seed)


def _draw_wide(seed: int, kind: WorldKind) -> AnyWideWorld:
    assert kind.world == WIDE_WORLD, "nothing is added to a world of clusters"
    return draw_any_wide_world(seed)


WORLDS: Final[dict[str, CampaignWorld]] = {
    DAEMONS_WORLD: CampaignWorld(
        "daemons, with or without clients", draw_world, run_world, _run_with_counters, story
    ),
    DEPLOYMENT_WORLD: CampaignWorld(
        "real processes of daemons and of clients, on a simulated kernel",
        draw_deployment,
        run_deployment,
        run_deployment,
        story,
    ),
    RMP_WORLD: CampaignWorld(
        "peers that form rings of RMP", _draw_ring, run_ring_world, run_ring_world, ring_story, aim_of
    ),
    WIDE_WORLD: CampaignWorld(
        "independent clusters, joined by the long-haul service",
        _draw_wide,
        run_any_wide_world,
        None,
        any_wide_story,
    ),
}


def run_any_seed(seed: int, kind: WorldKind) -> WorldOutcome:
    """Draws the world of a seed, runs it and judges it."""
    row = WORLDS[kind.world]
    return row.run(row.draw(seed, kind))


def aimed_first(seeds: Iterable[int], world: str, aim: str) -> list[int]:
    """The seeds; those whose schedules aim at this, if it is anything, come before the others."""
    row = WORLDS[world]
    return sorted(seeds, key=lambda seed: bool(aim) and row.aim_of(seed) != aim)
