"""The campaign with sealed datagrams, and an attacker who has no key on the network."""

import os

import pytest

from hopring.errors import Drop
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import OPENED_ONCE, WorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
SEALED = WorldKind(sealed=True)
CAUGHT = {"replay-taken": 1, "challenge-skipped": 3}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SEALED, WorldKind(clients=True, sealed=True)])
def test_no_property_breaks_while_an_attacker_copies_changes_and_makes_up_datagrams(kind: WorldKind) -> None:
    reports = list(run_many(range(1, 21), JOBS, None, kind))

    assert [report for report in reports if report.failed] == []


@pytest.mark.slow
def test_the_attacker_acts_and_everything_that_it_sends_is_refused() -> None:
    run = WorldRun(draw_world(2, SEALED))
    run.live()
    assert run.cluster.attacker is not None
    refused = sum(
        (host.refused for host in run.cluster.hosts.values()), start=run.cluster.hosts["ams1"].refused
    )

    assert run.cluster.attacker.acts > 50
    assert {Drop.REPLAY, Drop.SEAL, Drop.KEY, Drop.CLEAR_TEXT, Drop.FOREIGN_SENDER} <= set(refused)
    assert run.judge().broken == ()


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_of_the_sealing_is_caught(name: str) -> None:
    seed = CAUGHT[name]
    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, SEALED)

    assert planted.runs > 0
    assert OPENED_ONCE in [verdict.property for verdict in outcome.broken]
    assert run_seed(seed, SEALED).broken == ()
