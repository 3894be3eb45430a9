"""One fault costs few views: no daemon installs more than three because of it."""

from collections import Counter
from dataclasses import replace

import pytest

from hopring.check.trace import ProcessName, ViewInstalled
from hopring.sim.campaign.fault_schedule import CHAOS_US, Fault
from hopring.sim.campaign.runner import WorldRun
from hopring.sim.campaign.world import SimWorld, draw_world

VIEWS_MAX = 3
FAULT_US = 1_000_000


def faults_of(world: SimWorld, kind: str) -> tuple[Fault, ...]:
    names = [daemon.name for daemon in world.config.daemons]
    sites = [site.name for site in world.config.sites]
    one = names[world.seed % len(names)]
    match kind:
        case "crash":
            return (Fault(FAULT_US, "crash", (one,)),)
        case "restart":
            return Fault(FAULT_US, "crash", (one,)), Fault(FAULT_US + 20_000, "restart", (one,))
        case "partition":
            return (Fault(FAULT_US, "partition", tuple(f"{name}={at % 2}" for at, name in enumerate(names))),)
        case "merge":
            split = tuple(f"{name}={at % 3}" for at, name in enumerate(names))
            return Fault(100_000, "partition", split), Fault(FAULT_US, "heal")
        case _:
            return (Fault(FAULT_US, "cut_sites", (sites[0], sites[-1])),) if len(sites) > 1 else ()


def with_one_fault(seed: int, kind: str) -> SimWorld:
    """The cluster of a seed on a good network, with a single fault."""
    drawn = draw_world(seed)
    quality = replace(drawn.quality, loss=0, duplicate=0, duplicate_delay_us=0)
    load = replace(drawn.load, per_second=10, sizes=(100,))
    calm = replace(drawn, quality=quality, load=load, starts_us=(), lasting=())
    return replace(calm, schedule=faults_of(calm, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["crash", "restart", "partition", "merge", "cut_sites"])
def test_a_single_fault_costs_a_daemon_at_most_three_views(kind: str) -> None:
    seen = 0
    for seed in range(1, 13):
        run = WorldRun(with_one_fault(seed, kind))
        run.live()
        installed: Counter[ProcessName] = Counter(
            event.process
            for event in run.cluster.history
            if isinstance(event, ViewInstalled) and FAULT_US <= event.at_us < CHAOS_US
        )
        seen += len(installed)
        assert max(installed.values(), default=0) <= VIEWS_MAX, f"seed {seed}: {installed}"
    assert seen > 10
