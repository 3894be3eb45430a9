"""The campaign with resilient messages: R5 and R6 hold, and planted bugs are caught."""

import os

import pytest

from hopring.check.properties.resilience import IN_PRIMARIES, SURVIVES
from hopring.sim.blocks.kinds import KINDS
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WorldKind

JOBS = os.cpu_count() or 1
DAEMONS = WorldKind(resilient=True)
CLIENTS = WorldKind(clients=True, resilient=True)
CAUGHT = {
    "one-holder-less": (80, SURVIVES.name, DAEMONS),
    "line-of-another": (274, SURVIVES.name, DAEMONS),
    "majority-anywhere": (1, IN_PRIMARIES.name, DAEMONS),
}
"""`pruned-counts-as-holder` and `earlier-not-held` take too many worlds (docs/campaign.md):
tests/unit/ordering/test_resilient.py tests what they break."""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(1, 11), pytest.param(range(11, 21), marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [DAEMONS, CLIENTS])
def test_no_property_breaks_when_messages_wait_for_holders(kind: WorldKind, seeds: range) -> None:
    reports = list(run_many(seeds, JOBS, None, kind))

    assert [report for report in reports if report.failed] == []


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_of_resilience_is_caught(name: str) -> None:
    seed, property_broken, kind = CAUGHT[name]
    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, kind)

    assert planted.runs > 0
    assert property_broken in [verdict.property for verdict in outcome.broken]


@pytest.mark.slow
def test_without_the_bugs_their_seeds_hold() -> None:
    seeds = sorted({seed for seed, _, _ in CAUGHT.values()})
    assert [report for report in run_many(seeds, JOBS, None, DAEMONS) if report.failed] == []
    assert [report for report in run_many([216], JOBS, None, CLIENTS) if report.failed] == []


@pytest.mark.slow
def test_members_see_the_signal_on_one_side_of_a_resilient_message() -> None:
    """Once, one that a member had delivered counted as one that nobody could deliver, and moved the signal."""
    everything = WorldKind(clients=True, blocks=tuple(KINDS), resilient=True)

    assert run_seed(3005, everything).broken == ()
