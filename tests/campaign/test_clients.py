"""A short fault campaign with clients, for every commit; `hop sim --clients --seeds N` runs a long one."""

import pytest
from tests.campaign.caught import CAUGHT

from hopring.check.trace import ClientDelivered, GroupInstalled
from hopring.sim.campaign.bugs.planting import Bug, all_bugs, plant
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WITH_CLIENTS, draw_world
from hopring.testing.trace import digest

JOBS = 2


@pytest.mark.slow
def test_a_short_campaign_finds_nothing_broken() -> None:
    reports = list(run_many(range(1, 21), JOBS, None, WITH_CLIENTS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []


@pytest.mark.slow
def test_clients_see_views_and_messages_and_a_seed_gives_the_same_history_twice() -> None:
    first, second = run_seed(5, WITH_CLIENTS), run_seed(5, WITH_CLIENTS)

    assert sum(isinstance(event, GroupInstalled) for event in first.history) > 100
    assert sum(isinstance(event, ClientDelivered) for event in first.history) > 100
    assert digest(first.history) == digest(second.history)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [214, 216, 486, 796, 890, 2490, 3738])
def test_a_seed_that_failed_once_holds_now(seed: int) -> None:
    assert run_seed(seed, WITH_CLIENTS).broken == ()


def test_clients_do_not_change_the_daemons_and_paths_of_a_seed() -> None:
    for seed in range(1, 50):
        with_clients, without = draw_world(seed, WITH_CLIENTS), draw_world(seed)

        assert with_clients.config == without.config
        assert with_clients.quality == without.quality
        assert without.clients is None


def test_only_bugs_of_groups_need_clients() -> None:
    need = {one.name for one in all_bugs().values() if one.clients}

    assert set(CAUGHT) <= need
    assert all(
        all(
            patch.place.startswith(("hopring.groups.", "hopring.membership.message_flow:", "hopring.ordering."))
            for patch in one.patches
        )
        for one in all_bugs().values()
        if one.clients
    )


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_is_caught_by_the_property_that_it_breaks(name: str) -> None:
    seed, property_name = CAUGHT[name]
    one: Bug = all_bugs()[name]

    with plant(one) as planted:
        outcome = run_seed(seed, WITH_CLIENTS)

    assert planted.runs > 0
    assert property_name in [verdict.property for verdict in outcome.broken]


@pytest.mark.slow
def test_without_the_bugs_their_seeds_hold() -> None:
    reports = list(run_many(sorted({seed for seed, _ in CAUGHT.values()}), JOBS, None, WITH_CLIENTS))

    assert [(report.seed, report.broken) for report in reports if report.failed] == []
