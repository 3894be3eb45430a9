"""The campaign with sealed datagrams: an attacker who has no key on the network, and a faulty daemon."""

import os
from collections import Counter

import pytest

from hopring.errors import Drop
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.fault_schedule import CHAOS_US
from hopring.sim.campaign.parallel import run_many
from hopring.sim.campaign.runner import NO_CRASH, OPENED_ONCE, SELF_SENDING, WorldRun, run_seed
from hopring.sim.campaign.world import WorldKind, draw_world

JOBS = os.cpu_count() or 1
SEALED = WorldKind(sealed=True)
KNOWN = {
    # Members that were told different things refused each other for ever (116 to 704). An own bundle without a
    # place in the order was lost (1216, 1436). A late packet of an ended process began a search (1304).
    # A recorded response brought such a process back (1655).
    SEALED: [116, 288, 424, 536, 704, 1216, 1304, 1436, 1655],
    WorldKind(clients=True, sealed=True): [140, 224, 1584],
}
CAUGHT = {
    "replay-taken": (1, OPENED_ONCE),
    "challenge-skipped": (3, OPENED_ONCE),
    "own-bundle-believed": (152, SELF_SENDING),
    "promise-unbounded": (48, NO_CRASH),
}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(1, 11), pytest.param(range(11, 21), marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [SEALED, WorldKind(clients=True, sealed=True)])
def test_no_property_breaks_while_an_attacker_copies_changes_and_makes_up_datagrams(
    kind: WorldKind, seeds: range
) -> None:
    reports = list(run_many(seeds, JOBS, None, kind))

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


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(24, 52, 4), pytest.param(range(52, 84, 4), marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [SEALED, WorldKind(clients=True, sealed=True)])
def test_no_daemon_ends_or_stays_apart_because_of_one_that_sends_wrong_packets(
    kind: WorldKind, seeds: range
) -> None:
    reports = list(run_many(seeds, JOBS, None, kind))

    assert [report for report in reports if report.failed] == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), KNOWN.items(), ids=["daemons", "clients"])
def test_worlds_in_which_lies_once_had_lasting_effects_are_whole(kind: WorldKind, seeds: list[int]) -> None:
    reports = list(run_many(seeds, JOBS, None, kind))

    assert [report for report in reports if report.failed] == []


@pytest.mark.slow
def test_a_faulty_daemon_changes_packets_of_all_layers_until_the_heal_and_others_drop_some() -> None:
    kinds: Counter[str] = Counter()
    drops: Counter[Drop] = Counter()
    for seed in (*range(4, 64, 4), 72):  # The last one has a packet of a foreign sender.
        run = WorldRun(draw_world(seed, SEALED))
        run.live()
        assert run.cluster.faulty is not None
        assert run.cluster.faulty.lies
        for lie in run.cluster.faulty.lies:
            at_ms, _, rest = lie.partition(" ms ")
            assert float(at_ms) < CHAOS_US / 1_000
            kinds[rest.split()[0].split(".")[0].strip(":'")] += 1
        for host in run.cluster.hosts.values():
            drops += host.membership.drops

    assert {"A", "J", "Token", "Data", "Ack", "Update", "Routed", "Control"} <= set(kinds)
    assert {Drop.OUT_OF_WINDOW, Drop.INCONSISTENT, Drop.FOREIGN_SENDER} <= set(drops)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_planted_bug_of_the_sealing_or_of_bounds_is_caught(name: str) -> None:
    seed, property_broken = CAUGHT[name]
    with plant(all_bugs()[name]) as planted:
        outcome = run_seed(seed, SEALED)

    assert planted.runs > 0
    assert property_broken in [verdict.property for verdict in outcome.broken]


@pytest.mark.slow
def test_without_the_bugs_their_seeds_hold() -> None:
    reports = list(run_many(sorted({seed for seed, _ in CAUGHT.values()}), JOBS, None, SEALED))

    assert [report for report in reports if report.failed] == []
