"""Deployments in virtual time: real daemons and programs keep their promises, and planted bugs are caught."""

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from typing import Final

import pytest

from hopring.check.trace import ClientDelivered, Gone, GroupInstalled, GroupLeft, GroupSignal
from hopring.check.trace_files import rows
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.deployment import DeploymentRun, draw_deployment, run_deployment
from hopring.sim.campaign.world import DEPLOYMENT_WORLD, WorldKind
from hopring.system.kernel import simulated

KIND: Final = WorldKind(world=DEPLOYMENT_WORLD)
CAUGHT: Final[dict[str, int]] = {
    "rest-of-write-lost": 2,
    "rest-of-link-lost": 20,
    "lost-client-kept": 12,
    "window-never-opens": 12,
    "credit-ignored": 12,
    "event-skipped": 19,
    "counter-not-read": 6,
    "counter-not-synced": 6,
}
"""For each planted bug a seed that catches it."""


def broken_in(seed: int) -> list[str]:
    return [verdict.property for verdict in run_deployment(draw_deployment(seed, KIND)).broken]


def digest(seed: int) -> str:
    outcome = run_deployment(draw_deployment(seed, KIND))
    return sha256(repr(list(rows(outcome.history))).encode()).hexdigest()


def test_a_short_campaign_finds_nothing_broken() -> None:
    assert {seed: found for seed in (4, 5, 6, 7, 12) if (found := broken_in(seed))} == {}


@pytest.mark.long
def test_a_campaign_finds_nothing_broken() -> None:
    assert {seed: found for seed in range(1, 101) if (found := broken_in(seed))} == {}


def test_the_history_depends_on_the_seed_alone() -> None:
    """Not on the process, nor on the order of sets, which Python draws anew for each process."""
    code = f"from {__name__} import digest; print(digest(6))"
    shown = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.strip()
        for number in ("1", "2")
    ]

    assert shown == [digest(6)] * 2
    assert digest(12) != shown[0]


def test_the_worlds_have_what_the_checks_are_about() -> None:
    seen: Counter[str] = Counter()
    for seed in (2, 7):
        run = DeploymentRun(draw_deployment(seed, KIND))
        with simulated(run.deployment.kernel):
            run.live()
        seen.update(type(event).__name__ for event in run.deployment.history())
        seen["said"] += sum(len(one.process.said) for one in run.deployment.hosts.values())
        seen["lost"] += sum("the daemon is gone" in one.failure for one in run.deployment.clients)

    assert (
        min(seen[kind.__name__] for kind in (ClientDelivered, Gone, GroupInstalled, GroupLeft, GroupSignal)) > 5
    )
    assert seen["said"] > 20
    assert seen["lost"] > 2


@pytest.mark.interpreted
@pytest.mark.parametrize("name", [bug.name for bug in all_bugs().values() if bug.world == DEPLOYMENT_WORLD])
def test_a_planted_bug_is_caught(name: str) -> None:
    with plant(all_bugs()[name]) as planted:
        broken = broken_in(CAUGHT[name])

    assert planted.runs > 0
    assert broken
