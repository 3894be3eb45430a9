"""Locks and flow control in rings: claims go through the order, and every member sees the same holders."""

from random import Random

import pytest
from tests.unit.rmp.ring_world import Faults, Node, World

from hopring.groups.locks import LockEnd
from hopring.rmp.claims import RingClaims
from hopring.rmp.events import (
    ClaimRingLock,
    JoinRing,
    ListInstalled,
    ReleaseRingLock,
    RingLockEnded,
    RingLockGranted,
    RingSuspended,
)
from hopring.rmp.flow.policies import FlowOptions, FlowPolicy
from hopring.rmp.options import PeerRingOptions, paper_options
from hopring.rmp.requests import OwnRequests
from hopring.rmp.retry import LATE_US, Retry
from hopring.services import Service
from hopring.wire.rmp.lists import MINIMUM_MAJORITY

CLOCK = 1_763_532_000_000 << 20

LockNews = RingLockGranted | RingLockEnded


def ring_of(count: int, minimum: int = MINIMUM_MAJORITY, **options: object) -> tuple[World, list[Node]]:
    """A world in which so many processes have joined one ring."""
    world = World(1, PeerRingOptions(**options), Faults())  # type: ignore[arg-type]
    wishes = [JoinRing(f"n{number}", minimum, fence=CLOCK) for number in range(1, count + 1)]
    nodes = [world.add(number, wish) for number, wish in enumerate(wishes, start=1)]
    for node in nodes:
        world.join(node)
        world.run_until(world.now_us + 500_000)
    return world, nodes


def news(node: Node) -> list[LockNews]:
    return [one for one in node.stays[-1].news if isinstance(one, LockNews)]


def claim(world: World, node: Node, lock: str, serial: int, partial: bool = False) -> None:
    world.request(node, ClaimRingLock(lock, serial, partial))
    world.run_until(world.now_us + 100_000)


def release(world: World, node: Node, serial: int) -> None:
    world.request(node, ReleaseRingLock(serial))
    world.run_until(world.now_us + 100_000)


def fences(node: Node) -> list[int]:
    return [one.fence for one in news(node) if isinstance(one, RingLockGranted)]


def test_a_lock_goes_from_holder_to_holder_with_rising_fences() -> None:
    world, (first, second, third) = ring_of(3)
    claim(world, second, "row", 1)
    claim(world, third, "row", 1)
    claim(world, first, "row", 7)

    assert [fences(node) for node in (first, second, third)] == [[], [CLOCK + 1], []]

    release(world, second, 1)
    release(world, third, 1)

    assert [fences(node) for node in (first, second, third)] == [[CLOCK + 3], [CLOCK + 1], [CLOCK + 2]]
    assert news(second)[-1] == RingLockEnded("row", 1, LockEnd.RELEASED.value)


def test_a_grant_comes_directly_behind_its_list() -> None:
    world, (first, second) = ring_of(2)
    claim(world, first, "row", 1)

    told = first.stays[-1].news
    at = next(place for place, one in enumerate(told) if isinstance(one, RingLockGranted))
    before = told[at - 1]
    assert isinstance(before, ListInstalled)
    assert before.list.locks.locks[0].fence == CLOCK + 1
    assert news(second) == []


def test_a_claim_of_a_founder_needs_nobody_else() -> None:
    world, (only,) = ring_of(1)
    world.request(only, ClaimRingLock("row", 1))

    assert fences(only) == [CLOCK + 1]


def test_a_claim_before_the_join_is_made_in_the_ring() -> None:
    world, (_, second) = ring_of(2)
    third = world.add(9, JoinRing("n9", MINIMUM_MAJORITY))
    world.join(third)
    world.request(third, ClaimRingLock("row", 3))
    world.request(third, ClaimRingLock("other", 4))
    world.request(third, ReleaseRingLock(4))
    world.run_until(world.now_us + 500_000)
    claim(world, second, "row", 1)

    assert [(type(one), one.serial) for one in news(third)] == [(RingLockEnded, 4), (RingLockGranted, 3)]
    assert fences(third) == [CLOCK + 1]


def test_a_leaver_gives_up_its_locks_and_is_told() -> None:
    world, (first, second) = ring_of(2)
    claim(world, second, "row", 1)
    claim(world, first, "row", 1)
    world.leave(second)
    world.run_until(world.now_us + 500_000)

    assert fences(first) == [CLOCK + 2]
    assert news(second)[-1] == RingLockEnded("row", 1, LockEnd.NOT_A_MEMBER.value)


def test_claims_of_a_ring_that_is_not_primary_are_refused_unless_they_accept_that() -> None:
    world, (first, second) = ring_of(2, minimum=1)
    claim(world, first, "row", 1)
    claim(world, second, "row", 2, partial=True)

    assert news(first) == [RingLockEnded("row", 1, LockEnd.NOT_PRIMARY.value)]
    assert fences(second) == [CLOCK + 1 - 2**63]


@pytest.mark.slow
def test_the_251st_lock_is_refused_to_its_member() -> None:
    world, (first, second) = ring_of(2)
    for serial in range(251):
        world.request(first, ClaimRingLock(f"row-{serial}", serial))
    world.run_until(world.now_us + 10_000_000)

    assert len(fences(first)) == 250
    assert news(first)[-1] == RingLockEnded("row-250", 250, LockEnd.FULL.value)
    claim(world, second, "1", 1)
    assert len(fences(second)) == 1


def test_a_claim_of_a_process_outside_of_any_ring_ends_at_once() -> None:
    world = World(1, PeerRingOptions())
    node = world.add(1, JoinRing())

    assert node.ring.step(ClaimRingLock("row", 1), 0) == [RingLockEnded("row", 1, LockEnd.NOT_A_MEMBER.value)]


@pytest.mark.parametrize("seed", range(6))
def test_in_random_histories_all_see_one_holder_at_each_place(seed: int) -> None:
    world, nodes = ring_of(3)
    world.faults.loss = 0.05
    dice, serial, own = Random(seed), 0, {node.process: [0] for node in nodes}
    for _ in range(40):
        node = dice.choice(nodes)
        if dice.random() < 0.6:
            serial += 1
            own[node.process].append(serial)
            world.request(node, ClaimRingLock(dice.choice("xy"), serial))
        else:
            world.request(node, ReleaseRingLock(own[node.process].pop(0) if own[node.process] else 0))
        world.run_until(world.now_us + dice.randrange(30_000))
    world.faults.loss = 0.0
    world.run_until(world.now_us + 5_000_000)

    shown = [[one.list for one in node.stays[-1].news if isinstance(one, ListInstalled)] for node in nodes]
    assert shown[0][-1] == shown[1][-1] == shown[2][-1]
    granted = sorted(
        (one.timestamp, one.fence) for node in nodes for one in news(node) if isinstance(one, RingLockGranted)
    )
    assert len(granted) >= 5
    assert [fence for _, fence in granted] == sorted({fence for _, fence in granted})
    holders = {lock.fence for lock in shown[0][-1].locks.locks}
    ended = [{one.serial for one in news(node) if isinstance(one, RingLockEnded)} for node in nodes]
    kept = {
        one.fence
        for node, ends in zip(nodes, ended, strict=True)
        for one in news(node)
        if isinstance(one, RingLockGranted) and one.serial not in ends
    }
    assert kept == holders


def test_a_suspended_holder_is_told_and_gives_the_lock_up_when_its_ring_returns() -> None:
    world, (holder,) = ring_of(1)
    claim(world, holder, "row", 5)
    held = next(one for one in holder.stays[-1].news[::-1] if isinstance(one, ListInstalled))
    claims = RingClaims(holder.ring.state, OwnRequests(holder.ring.state))

    assert claims.follow([held]) == [held, RingLockGranted("row", 5, CLOCK + 1, held.list.id.timestamp)]
    suspended = RingSuspended(frozenset(), 2)
    assert claims.follow([suspended]) == [RingLockEnded("row", 5, LockEnd.NOT_PRIMARY.value), suspended]
    assert claims.follow([suspended]) == [suspended]
    assert claims.follow([held]) == [held]
    assert [(one.change.name, one.serial) for one in claims.requests.waiting] == [("RELEASE", 5)]


# Flow.


def in_flight(node: Node) -> int:
    return node.ring.snapshot().flow.flight_bytes


@pytest.mark.parametrize("policy", list(FlowPolicy))
def test_a_member_never_has_more_in_flight_than_its_window_and_gets_everything_back(policy: FlowPolicy) -> None:
    flow = FlowOptions(policy, packet_bytes_min=1_000, window_bytes_max=64_000, rate_bytes_per_second=1_000_000)
    world, (first, second) = ring_of(2, flow=flow)
    world.faults.loss = 0.05
    for _ in range(200):
        before = in_flight(first)
        world.submit(first, Service.AGREED, size=900)
        snapshot = first.ring.snapshot().flow
        # A window that has shrunk since may be overdrawn, and then nothing is sent.
        assert snapshot.flight_bytes <= max(snapshot.window_bytes, before)
        world.run_until(world.now_us + 300)
    assert in_flight(first) > 0
    world.run_until(world.now_us + 10_000_000)

    assert (in_flight(first), first.ring.drained) == (0, True)
    assert first.ring.snapshot().flow.round_trip_us > 0
    assert second.ring.drained


def test_losses_shrink_the_window_of_a_ring() -> None:
    flow = FlowOptions(FlowPolicy.RMP, packet_bytes_min=1_000, window_bytes_max=64_000)
    world, (first, second, _) = ring_of(3, flow=flow)
    for _ in range(300):
        world.submit(first, Service.AGREED, size=900)
        world.run_until(world.now_us + 200)
    before = first.ring.snapshot().flow
    world.faults.loss = 0.1
    for _ in range(300):
        world.submit(first, Service.AGREED, size=900)
        world.run_until(world.now_us + 200)
    after = first.ring.snapshot().flow

    assert (before.shrunk, before.window_bytes > 10_000) == (0, True)
    assert after.shrunk > 3
    assert after.window_bytes < before.window_bytes
    assert second.ring.snapshot().flow.shrunk == 0


def test_a_rate_is_kept_by_a_ring() -> None:
    flow = FlowOptions(FlowPolicy.RATE, packet_bytes_max=10_000, rate_bytes_per_second=100_000)
    world, (first, _) = ring_of(2, flow=flow)
    start_us = world.now_us
    for _ in range(100):
        world.submit(first, Service.AGREED, size=998)
    world.run_until(start_us + 500_000)

    # Half a second of 100,000 bytes, the bucket's 10,000, and one packet.
    assert 58 <= 100 - first.ring.snapshot().queued <= 61
    world.run_until(start_us + 2_000_000)
    assert first.ring.drained


# Timers and tries (trap 29).


def detection_us(first_us: int, options: PeerRingOptions) -> int:
    """From the first copy of a packet until its timer has expired as often as it may, in virtual time."""
    retry, now_us = Retry(first_us, options.clamp_us), 0
    retry.start(now_us)
    while retry.tries < options.tries_max:
        now_us = retry.due_us
        retry.again(now_us)
    return now_us


def test_times_of_detection_are_those_of_the_presets() -> None:
    paper, default = paper_options(), PeerRingOptions()

    assert (paper.tries_max, paper.clamp_us, default.tries_max, default.clamp_us) == (10, 2_000_000, 8, 100_000)
    assert detection_us(1_000, paper) == 1_023_000
    assert detection_us(5_000, paper) == 4_555_000
    assert detection_us(200_000, paper) == 15_000_000
    assert detection_us(5_000, default) == 455_000 == default.detection_us


def test_a_late_timer_is_no_try() -> None:
    retry = Retry(5_000, 100_000)
    retry.start(0)
    retry.again(5_000 + LATE_US + 1)

    assert retry.tries == 0
    retry.again(retry.due_us)
    assert retry.tries == 1
