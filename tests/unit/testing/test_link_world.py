import doctest
from collections.abc import Callable

import pytest

from hopring.errors import Drop
from hopring.sim.path import Quality
from hopring.testing import link_world as world_module
from hopring.testing.link_world import LinkWorld
from hopring.testing.trace import DatagramDropped, LinkEndFailed, ObjectReceived, ObjectRefused, digest

ROUGH = Quality(delay_us=5_000, jitter_us=1_000, loss=0.05, duplicate=0.02, reorder=0.02)


def hop(world: LinkWorld) -> None:
    world.hop("a", "b")


def tcp(world: LinkWorld) -> None:
    world.tcp("a", "b")


def ring(world: LinkWorld) -> None:
    world.ring("abc")


def run(seed: int, make: Callable[[LinkWorld], None], count: int = 50) -> LinkWorld:
    """Both ends send over a bad network, and there is time for everything to arrive."""
    world = LinkWorld(seed, ROUGH)
    make(world)
    for number in range(count):
        for (_link, host), end in sorted(world.ends.items()):
            end.submit(b"%s %d" % (host.encode(), number))
        world.run_for(7_000)
    world.run_for(10_000_000)
    return world


@pytest.mark.parametrize("make", [hop, tcp, ring])
def test_a_seed_gives_the_same_trace_every_time_and_another_seed_another(
    make: Callable[[LinkWorld], None],
) -> None:
    traces = [digest(run(seed, make, count=10).trace) for seed in (1, 1, 2)]

    assert traces[0] == traces[1]
    assert traces[0] != traces[2]


@pytest.mark.parametrize("make", [hop, tcp, ring])
def test_every_object_arrives_once_over_a_rough_network(make: Callable[[LinkWorld], None]) -> None:
    world = run(3, make)

    assert [verdict.witness for verdict in world.verdicts() if not verdict] == []
    assert not any(isinstance(event, LinkEndFailed | DatagramDropped) for event in world.trace)
    hosts = len(world.ends)
    assert sum(isinstance(event, ObjectReceived) for event in world.trace) == 50 * hosts * (hosts - 1)


def test_an_object_that_is_too_large_is_refused() -> None:
    world = LinkWorld()
    a, _b = world.hop("a", "b")

    assert a.submit(bytes(a.payload_bytes_max))
    assert not a.submit(bytes(a.payload_bytes_max + 1))
    assert isinstance(world.trace[-1], ObjectRefused)


def test_a_new_generation_of_a_link_refuses_what_the_old_one_sent() -> None:
    world = LinkWorld(quality=Quality(delay_us=1_000))
    a, _b = world.hop("a", "b")
    a.submit(b"old")
    world.run_for(500)
    a, b = world.hop("a", "b")
    a.submit(b"new")
    world.run_for(100_000)

    assert b.drops[Drop.STALE_GENERATION] > 0
    assert [event.payload for event in world.trace if isinstance(event, ObjectReceived)] == [b"new"]


def test_a_restarted_host_is_another_incarnation() -> None:
    world = LinkWorld(quality=Quality(delay_us=1_000))
    a, _b = world.hop("a", "b")
    a.submit(b"old")
    world.run_for(500)
    world.crash("a")
    world.restart("a")
    _a, b = world.hop("a", "b")
    world.run_for(100_000)

    assert set(b.drops) == {Drop.STALE_INCARNATION}


def test_a_run_without_recorded_datagrams_takes_the_same_course() -> None:
    worlds = [LinkWorld(5, ROUGH, record_datagrams=record) for record in (True, False)]
    for world in worlds:
        a, _b = world.hop("a", "b")
        for number in range(100):
            a.submit(b"%d" % number)
        world.run_for(1_000_000)

    received = [[event for event in world.trace if isinstance(event, ObjectReceived)] for world in worlds]
    assert received[0] == received[1]
    assert len(worlds[1].trace) == 200


def test_the_example_in_the_module_runs() -> None:
    assert doctest.testmod(world_module).failed == 0
