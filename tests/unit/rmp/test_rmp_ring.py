"""Rings without failures: joins, order, services, leaves, at rest."""

from functools import partial

import pytest
from tests.unit.rmp.ring_world import Faults, Node, World

from hopring.rmp.events import DataDelivered, JoinRing, ListCause, ListInstalled, PacketArrived, RingLeft
from hopring.rmp.options import PeerRingOptions
from hopring.services import Service
from hopring.wire.rmp.lists import MINIMUM_MAJORITY
from hopring.wire.rmp.packets import ListChange, ListChangeRequest


def ring_of(count: int, loss: float = 0.0, seed: int = 1) -> tuple[World, list[Node]]:
    """A world in which so many processes have joined one ring."""
    world = World(seed, PeerRingOptions(), Faults(loss))
    nodes = [world.add(number, JoinRing(f"n{number}")) for number in range(1, count + 1)]
    for node in nodes:
        world.join(node)
        world.run_until(world.now_us + 500_000)
    return world, nodes


def bodies(node: Node) -> list[bytes]:
    return [one.body for one in node.stays[-1].news if isinstance(one, DataDelivered)]


def lists(node: Node) -> list[ListInstalled]:
    return [one for one in node.stays[-1].news if isinstance(one, ListInstalled)]


def test_the_first_process_founds_a_ring_and_others_join_it() -> None:
    _, (first, second, third) = ring_of(3)

    assert [len(one.list) for one in lists(first)] == [1, 2, 3]
    assert [len(one.list) for one in lists(second)] == [2, 3]
    assert {one.cause for one in lists(first)} == {ListCause.JOIN}
    assert lists(first)[-1].list == lists(second)[-1].list == lists(third)[-1].list
    assert lists(third)[0].together == {lists(third)[0].who}
    assert len(lists(first)[-1].together) == 2


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_all_members_deliver_agreed_and_safe_messages_in_one_order(loss: float) -> None:
    world, nodes = ring_of(4, loss)
    for turn in range(40):
        world.at(world.now_us + 500 * turn, partial(world.submit, nodes[turn % 4], Service.AGREED))
        world.at(world.now_us + 700 * turn, partial(world.submit, nodes[turn % 4], Service.SAFE))
    world.run_until(world.now_us + 3_000_000)

    assert len(bodies(nodes[0])) == 80
    assert all(bodies(node) == bodies(nodes[0]) for node in nodes)
    assert all(node.ring.drained for node in nodes)


def test_a_reliable_message_is_delivered_on_receipt() -> None:
    world, (first, second) = ring_of(2)
    world.submit(first, Service.RELIABLE)
    world.run_until(world.now_us + 701)

    assert bodies(second) == [b"1"]
    (early,) = [one for one in second.stays[-1].news if isinstance(one, DataDelivered)]
    assert early.timestamp == 0


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_leaver_serves_until_the_others_have_everything_and_not_for_longer(count: int) -> None:
    world, nodes = ring_of(count)
    world.submit(nodes[1], Service.AGREED)
    world.leave(nodes[1])
    world.run_until(world.now_us + 300_000)  # A rotation at rest shows that the others have everything.

    assert not nodes[1].ring.serving
    assert nodes[0].ring.serving
    assert bodies(nodes[0]) == bodies(nodes[1])


def test_who_was_a_member_founds_a_ring_with_a_majority_only_if_it_left_as_the_last() -> None:
    world = World(1, PeerRingOptions(), Faults())
    wish = JoinRing("n1", minimum=MINIMUM_MAJORITY, found=True)
    first, second = world.add(1, wish), world.add(2, JoinRing("n2", minimum=MINIMUM_MAJORITY))
    for act in (world.join, world.leave, world.join):
        act(first)
        world.run_until(world.now_us + 500_000)
    world.join(second)
    world.run_until(world.now_us + 500_000)
    world.leave(first)
    world.run_until(world.now_us + 500_000)
    world.split({first.process: 1, second.process: 2})
    world.join(first)
    world.run_until(world.now_us + 1_000_000)

    shown = [any(isinstance(one, ListInstalled) for one in stay.news) for stay in first.stays]
    assert shown[:2] == [True, True]
    assert len(shown) > 2
    assert not any(shown[2:])


def test_a_leaver_is_told_and_others_go_on() -> None:
    world, (first, second, third) = ring_of(3)
    world.leave(second)
    world.run_until(world.now_us + 500_000)
    world.submit(third, Service.SAFE)
    world.run_until(world.now_us + 500_000)

    assert isinstance(second.stays[-1].news[-1], RingLeft)
    assert lists(first)[-1].cause is ListCause.LEAVE
    assert bodies(first) == bodies(third) == [b"1"]


def test_a_quiet_ring_rotates_its_token_once_in_each_rest() -> None:
    world, nodes = ring_of(4)
    world.run_until(world.now_us + 1_000_000)
    before = world.multicasts
    world.run_until(world.now_us + 10_000_000)

    assert 4 * 36 <= world.multicasts - before <= 4 * 40
    assert all(node.ring.snapshot().slots <= 8 for node in nodes)


def test_a_late_copy_of_a_join_does_not_bring_back_who_has_left() -> None:
    world, (first, second, third) = ring_of(3)
    member = lists(first)[-1].list.member(third.process)
    assert member is not None
    epoch = first.ring.state.epoch.generation
    world.leave(third)
    world.run_until(world.now_us + 500_000)
    late = ListChangeRequest(third.process, ListChange.JOIN, member.joined, "red")
    for node in (first, second):
        node.ring.step(PacketArrived(late, epoch, third.process), world.now_us)
    world.run_until(world.now_us + 1_000_000)

    assert [len(one.list) for one in lists(first)] == [1, 2, 3, 2]


def test_the_last_holder_passes_the_token_at_once_so_that_others_deliver() -> None:
    world, nodes = ring_of(4)
    world.faults.jitter_us = 0
    for number in range(12):
        sent_us = world.now_us
        world.submit(nodes[number % 4], Service.SAFE)
        world.run_until(sent_us + (4 + 2) * world.faults.delay_us)
        assert [len(bodies(node)) for node in nodes] == [number + 1] * 4
        world.run_until(world.now_us + 137_000)


def test_a_joiner_that_is_named_passes_the_token_at_once() -> None:
    world, nodes = ring_of(3)
    for turn in range(200):
        world.at(world.now_us + 1_000 * turn, partial(world.submit, nodes[turn % 3], Service.AGREED))
    world.run_until(world.now_us + 50_000)
    joiner = world.add(4, JoinRing("n4"))
    world.join(joiner)
    slowest = 0
    for _ in range(120):
        world.run_until(world.now_us + 1_000)
        slowest = max(slowest, len(nodes[0].ring.own.unordered))

    assert len(lists(joiner)[-1].list) == 4
    assert slowest <= 2


def test_who_founded_a_ring_behind_a_cut_and_hears_no_multicasts_asks_again_those_it_was_told_to_ask() -> None:
    world = World(1, PeerRingOptions())
    first = world.add(1, JoinRing("n1", capable=False))
    second = world.add(2, JoinRing("n2", capable=False, via=(first.process,)))
    world.split({first.process: 1})
    for node in (first, second):
        world.join(node)
    world.run_until(1_000_000)
    alone = [len(lists(node)[-1].list) for node in (first, second)]
    world.heal()
    world.run_until(3_000_000)
    asked = world.unicasts
    world.run_until(6_000_000)

    assert alone == [1, 1]
    assert lists(first)[-1].list == lists(second)[-1].list
    assert len(lists(first)[-1].list) == 2
    # An idle ring passes its token, and asks nobody any more.
    assert world.unicasts - asked < 60


def test_a_joiner_shows_its_list_when_all_have_the_safe_messages_below_it() -> None:
    for seed in range(20):
        world = World(seed, PeerRingOptions(), Faults(loss=0.2))
        nodes = [world.add(number, JoinRing(f"n{number}")) for number in range(1, 4)]
        for node in nodes:
            world.join(node)
            world.run_until(world.now_us + 500_000)
        for turn in range(400):
            world.at(world.now_us + 500 * turn, partial(world.submit, nodes[turn % 3], Service.SAFE))
        world.run_until(world.now_us + 20_000)
        joiner = world.add(4, JoinRing("n4"))
        world.join(joiner)
        while not lists(joiner):
            world.run_until(world.now_us + 100)

        below = lists(joiner)[0].list.id.timestamp - 1
        assert [node.ring.snapshot().consecutive >= below for node in nodes] == [True] * 3, seed
