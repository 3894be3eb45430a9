from dataclasses import replace

from hopring.config.model import Weights
from hopring.sim.campaign.fault_schedule import CHAOS_US, DAEMONS_MIN, KINDS, MOMENTS, RARE
from hopring.sim.campaign.world import LARGE, MEASURED, RELAPSES, draw_world

MANY = range(1, 201)


def test_a_seed_draws_the_same_world_twice() -> None:
    assert draw_world(4711) == draw_world(4711)
    assert replace(draw_world(4711), seed=1) != draw_world(1)


def test_worlds_are_within_their_bounds_and_reach_them() -> None:
    worlds = [draw_world(seed) for seed in MANY]
    sites = {len(world.config.sites) for world in worlds}
    daemons = {len(world.config.daemons) for world in worlds}

    assert (min(sites), max(sites)) == (1, 5)
    assert (min(daemons), max(daemons)) == (2, 9)


def test_nothing_breaks_after_the_heal_and_faults_come_in_order() -> None:
    for seed in MANY:
        times = [fault.at_us for fault in draw_world(seed).schedule]

        assert times == sorted(times)
        assert all(at_us < CHAOS_US for at_us in times)


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {fault.kind for seed in MANY for fault in draw_world(seed).schedule}

    # A storm and a cascade consist of others; a long pause is a pause.
    made = {"restart", "patchy", "faint", "deaf", "numb", "tear", "wake", "speak"}
    assert drawn == ({*KINDS, *RARE} | made) - {"storm", "cascade", "long_pause"}


def test_waiting_faults_exist_for_every_phase() -> None:
    faults = [fault for seed in MANY for fault in draw_world(seed).schedule if fault.moment]

    assert {fault.moment for fault in faults} == set(MOMENTS)
    assert all(fault.count > 0 for fault in faults)


def test_every_eighth_world_has_relapses_and_nothing_else() -> None:
    remainder, number = RELAPSES
    numb = {seed for seed in MANY if any(fault.kind == "numb" for fault in draw_world(seed).schedule)}

    assert all(seed % number == remainder for seed in numb)
    assert len(numb) > len(MANY) / number / 2
    for seed in range(remainder, 201, number):
        world = draw_world(seed)
        assert len(world.config.daemons) >= DAEMONS_MIN
        assert sum(fault.moment == "installed" for fault in world.schedule) == 2


def test_every_tenth_world_measures_its_weights_on_paths_that_change() -> None:
    remainder, number = MEASURED
    for seed in MANY:
        world = draw_world(seed)
        if seed % number != remainder:
            assert (world.config.weights, world.paths) == (Weights.FIXED, ())
            continue
        links = world.config.links
        assert world.config.weights is Weights.MEASURED
        assert len(world.config.sites) >= 3
        assert [path.sites for path in world.paths] == [link.sites for link in links] * 3
        assert all(0 < path.delay_us <= world.wide_delay_us for path in world.paths)
        assert all(path.at_us < CHAOS_US for path in world.paths)


def test_in_a_relapse_no_daemon_crashes_that_is_to_pause() -> None:
    remainder, number = RELAPSES
    for seed in range(remainder, 801, number):
        faults = [fault for fault in draw_world(seed).schedule if not fault.moment]
        crashed = {(fault.at_us, fault.what) for fault in faults if fault.kind == "crash"}
        asleep = {(fault.at_us, fault.what) for fault in faults if fault.kind == "pause"}

        assert crashed
        assert asleep
        assert not crashed & asleep


def test_a_world_has_about_ten_faults() -> None:
    faults = [fault for seed in MANY for fault in draw_world(seed).schedule]
    mends = [
        fault
        for fault in faults
        if fault.kind in ("restart", "wake", "heal", "speak") or (fault.kind == "loss" and fault.number <= 0.1)
    ]

    assert 9 < (len(faults) - len(mends)) / len(MANY) < 13


def test_rare_faults_are_drawn_and_are_rare() -> None:
    worlds = [draw_world(seed) for seed in range(1, 1_001)]

    for rare in (
        [world for world in worlds if world.load.sizes == LARGE],
        [world for world in worlds if world.starts_us],
        [world for world in worlds if world.lasting],
        [world for world in worlds if world.quality.duplicate_delay_us],
    ):
        assert 10 <= len(rare) <= 200


def test_all_daemons_share_a_view_before_a_world_ends() -> None:
    worlds = [draw_world(seed) for seed in range(1, 1_001)]
    assert all(world.settle_us + world.rest_us <= world.healed_us for world in worlds)
