from dataclasses import replace

from hopring.sim.campaign.draw import CHAOS_US, KINDS, draw_world

MANY = range(1, 201)


def test_a_seed_draws_the_same_world_twice() -> None:
    assert draw_world(4711) == draw_world(4711)
    assert replace(draw_world(4711), seed=1) != draw_world(1)


def test_worlds_are_within_their_bounds_and_reach_them() -> None:
    worlds = [draw_world(seed) for seed in MANY]
    sites = {len(world.config.sites) for world in worlds}
    daemons = {len(world.config.daemons) for world in worlds}

    assert (min(sites), max(sites)) == (1, 4)
    assert (min(daemons), max(daemons)) == (2, 9)


def test_nothing_breaks_after_the_heal_and_faults_come_in_order() -> None:
    for seed in MANY:
        times = [fault.at_us for fault in draw_world(seed).schedule]

        assert times == sorted(times)
        assert all(at_us < CHAOS_US for at_us in times)


def test_every_kind_of_fault_is_drawn() -> None:
    drawn = {fault.kind for seed in MANY for fault in draw_world(seed).schedule}

    # A storm is made of loss and a break.
    assert drawn == {*KINDS, "restart"} - {"storm"}
