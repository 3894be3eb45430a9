"""Flow of RMP senders: windows in bytes, round trips, halving, rates, and sizes of packets."""

from collections.abc import Callable
from itertools import product
from random import Random

import pytest

from hopring.ids import NEVER
from hopring.rmp.flow.flow import FIRST_TIMER_US_MIN, SenderFlow
from hopring.rmp.flow.policies import FlowOptions, FlowPolicy, SlowStartWindow
from hopring.rmp.flow.sizes import packet_bytes

PACKET = 1_000
OPTIONS = FlowOptions(FlowPolicy.RMP, packet_bytes_min=PACKET, window_bytes_max=64_000)
MS = 1_000


def paper_flow(window_bytes: int = PACKET) -> SenderFlow:
    """A flow with the paper's policy and this window."""
    flow = SenderFlow(OPTIONS)
    flow.policy = SlowStartWindow(OPTIONS, window_bytes)
    return flow


def fill(flow: SenderFlow, first: int, now_us: int) -> int:
    """Sends packets from this number on until the window is full; the number behind them."""
    seq = first
    while flow.may_send(PACKET, now_us):
        flow.sent(seq, PACKET, now_us)
        seq += 1
    return seq


def test_a_send_takes_and_the_first_copy_of_its_ack_gives_back() -> None:
    flow = paper_flow(4 * PACKET)
    assert fill(flow, 1, 0) == 5
    assert (flow.flight_bytes, flow.available_bytes) == (4_000, 0)

    flow.acknowledged(2, 10 * MS)
    assert flow.flight_bytes == 3_000
    window_bytes = flow.window_bytes

    flow.acknowledged(2, 11 * MS)
    flow.acknowledged(77, 11 * MS)
    assert (flow.flight_bytes, flow.window_bytes) == (3_000, window_bytes)


def test_the_window_doubles_in_each_round_trip() -> None:
    flow, seq, windows = paper_flow(), 1, []
    for turn in range(6):
        windows.append(flow.window_bytes)
        following = fill(flow, seq, turn * MS)
        for one in range(seq, following):
            flow.acknowledged(one, turn * MS + 500)
        seq = following

    assert windows == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000]


def test_the_window_has_a_limit() -> None:
    flow, seq = paper_flow(), 1
    for turn in range(20):
        following = fill(flow, seq, turn * MS)
        for one in range(seq, following):
            flow.acknowledged(one, turn * MS + 500)
        seq = following

    assert flow.window_bytes == 64_000


def test_a_window_that_is_not_used_does_not_grow() -> None:
    flow = paper_flow(8 * PACKET)
    for seq in range(1, 20):
        flow.sent(seq, PACKET, seq * MS)
        flow.acknowledged(seq, seq * MS + 500)

    assert flow.window_bytes == 8_000


def test_each_timer_halves_the_window_down_to_one_smallest_packet() -> None:
    flow = paper_flow(8 * PACKET)
    fill(flow, 1, 0)

    windows = []
    for turn in range(5):
        flow.timed_out(3, turn * MS)
        windows.append(flow.policy.window_bytes)

    assert windows == [4_000, 2_000, 1_000, 1_000, 1_000]
    assert flow.snapshot().shrunk == 5


def test_the_first_nack_of_a_packet_halves_and_further_ones_do_not() -> None:
    flow = paper_flow(32 * PACKET)
    fill(flow, 1, 0)

    windows = []
    for seq in (5, 5, 6, 7, 5, 8, 5):
        flow.nacked([seq], MS)
        windows.append(flow.policy.window_bytes // PACKET)

    # The cache has the last three: 5 is forgotten when 8 comes, and halves once more.
    assert windows == [16, 16, 8, 4, 4, 2, 1]


def test_a_nack_of_packets_that_were_never_sent_changes_nothing() -> None:
    flow = paper_flow(8 * PACKET)
    flow.sent(1, PACKET, 0)

    flow.nacked(range(2, 500), MS)
    flow.nacked([0, -4], MS)

    assert flow.window_bytes == 8_000


def test_one_overrun_receiver_cannot_push_a_window_below_one_packet() -> None:
    flow = paper_flow(32 * PACKET)
    fill(flow, 1, 0)

    flow.nacked(list(range(1, 33)) * 3, MS)

    assert flow.policy.window_bytes == PACKET
    assert flow.flight_bytes == 32_000


def test_round_trips_are_not_measured_with_what_was_sent_again() -> None:
    flow = paper_flow(8 * PACKET)
    for seq in (1, 2, 3):
        flow.sent(seq, PACKET, MS)
    flow.resent(1, 5 * MS)
    flow.nacked([2], 5 * MS)
    flow.timed_out(3, 5 * MS)

    for seq in (1, 2, 3):
        flow.acknowledged(seq, 40 * MS)
    assert not flow.round_trip.measured

    flow.sent(4, PACKET, 50 * MS)
    flow.acknowledged(4, 58 * MS)
    assert flow.round_trip.smoothed_us == 8 * MS


def test_the_timer_is_the_round_trip_and_four_deviations_within_bounds() -> None:
    flow = SenderFlow(OPTIONS, first_us=5 * MS, clamp_us=100 * MS)
    assert flow.timer_us == 5 * MS

    flow.sent(1, PACKET, 0)
    flow.acknowledged(1, 8 * MS + 1)  # The first sample, of a stamp of 1: a deviation of half of it.
    assert flow.timer_us == 8 * MS + 4 * 4 * MS

    flow.sent(2, PACKET, 100 * MS)
    flow.acknowledged(2, 108 * MS)  # The same again: a quarter less, and three round trips are longer.
    assert flow.timer_us == 3 * 8 * MS

    flow.sent(3, PACKET, 1_000 * MS)
    flow.acknowledged(3, 1_900 * MS)
    assert flow.timer_us == 100 * MS


def test_a_timer_that_was_too_short_stays_doubled_until_a_round_trip_is_measured() -> None:
    flow = SenderFlow(OPTIONS, first_us=5 * MS, clamp_us=100 * MS)
    flow.sent(1, PACKET, 0)
    flow.timed_out(1, 5 * MS)
    flow.acknowledged(1, 7 * MS)
    assert flow.timer_us == 10 * MS

    flow.sent(2, PACKET, 20 * MS)
    flow.acknowledged(2, 20 * MS)  # This site ordered it itself: no round trip.
    assert flow.timer_us == 10 * MS

    flow.sent(3, PACKET, 40 * MS)
    flow.acknowledged(3, 41 * MS)
    assert flow.timer_us == 5 * MS


def test_the_first_timer_is_at_least_that_of_the_paper() -> None:
    assert SenderFlow(OPTIONS, first_us=10).timer_us == FIRST_TIMER_US_MIN == 5 * MS


def test_what_was_sent_before_a_stall_gives_no_sample() -> None:
    flow = paper_flow(8 * PACKET)
    flow.sent(1, PACKET, 0)
    flow.stalled(3_000 * MS)
    flow.acknowledged(1, 3_001 * MS)

    assert not flow.round_trip.measured
    assert flow.flight_bytes == 0


def test_a_packet_longer_than_the_window_is_sent_alone() -> None:
    flow = paper_flow()

    assert flow.may_send(60_000, 0)
    flow.sent(1, 60_000, 0)

    assert flow.window_bytes == 60_000
    assert not flow.may_send(1, 0)
    flow.acknowledged(1, MS)
    assert flow.may_send(60_000, MS)


def test_leaving_a_ring_gives_everything_back() -> None:
    flow = paper_flow(4 * PACKET)
    fill(flow, 1, 0)
    flow.clear()

    assert (flow.flight_bytes, flow.available_bytes) == (0, 4_000)
    assert fill(flow, 5, 0) == 9


def test_cubic_shrinks_once_for_all_losses_of_one_round_trip() -> None:
    flow = SenderFlow(FlowOptions(FlowPolicy.CUBIC, packet_bytes_min=PACKET))
    assert flow.window_bytes == 10_000
    fill(flow, 1, 0)

    flow.nacked(range(1, 11), MS)
    assert (flow.window_bytes, flow.snapshot().shrunk) == (7_000, 1)

    for seq in range(1, 11):
        flow.acknowledged(seq, 2 * MS)
    flow.sent(11, PACKET, 3 * MS)
    flow.nacked([11], 4 * MS)
    assert (flow.window_bytes, flow.snapshot().shrunk) == (4_900, 2)


def test_cubic_shrinks_with_each_timer_to_two_packets() -> None:
    flow = SenderFlow(FlowOptions(packet_bytes_min=PACKET))
    fill(flow, 1, 0)
    windows = []
    for turn in range(6):
        flow.timed_out(1, turn * MS)
        windows.append(flow.policy.window_bytes)

    assert windows == [7_000, 4_900, 3_430, 2_401, 2_000, 2_000]


def test_cubic_grows_up_to_its_limit() -> None:
    options = FlowOptions(packet_bytes_min=PACKET, window_bytes_max=100_000)
    flow, seq = SenderFlow(options), 1
    for turn in range(200):
        following = fill(flow, seq, turn * 10 * MS)
        for one in range(seq, following):
            flow.acknowledged(one, turn * 10 * MS + 5 * MS)
        seq = following

    assert flow.window_bytes == 100_000


def test_a_rate_is_kept_whatever_is_lost() -> None:
    flow = SenderFlow(FlowOptions(FlowPolicy.RATE, rate_bytes_per_second=1_000_000, packet_bytes_max=10_000))
    sent, now_us = 0, 0
    while now_us < 1_000_000:
        if not flow.may_send(PACKET, now_us):
            now_us = flow.wake_at_us(PACKET, now_us)
            continue
        sent += 1
        flow.sent(sent, PACKET, now_us)
        flow.nacked([sent], now_us)
        flow.acknowledged(sent, now_us)

    # A second's credit, the bucket's 10,000 bytes, and a packet that overdraws it.
    assert 1_000 <= sent <= 1_011


def test_packets_that_nobody_acknowledges_are_paced_and_take_nothing_of_a_window() -> None:
    rate = SenderFlow(FlowOptions(FlowPolicy.RATE, rate_bytes_per_second=1_000_000, packet_bytes_max=10_000))
    window = paper_flow(4 * PACKET)
    for flow in (rate, window):
        flow.sent_loose(10_000, 0)

    assert not rate.may_send(PACKET, 0)
    assert (window.flight_bytes, window.may_send(PACKET, 0)) == (0, True)


def test_a_full_window_waits_for_an_ack_and_an_empty_bucket_for_time() -> None:
    window = paper_flow()
    window.sent(1, PACKET, 0)
    rate = SenderFlow(FlowOptions(FlowPolicy.RATE, rate_bytes_per_second=1_000_000, packet_bytes_max=10_000))
    rate.sent(1, 20_000, 0)

    assert window.wake_at_us(PACKET, 7) == NEVER
    assert rate.wake_at_us(PACKET, 7) == 10 * MS + 1


# Figure 4.2.


@pytest.mark.parametrize(
    ("offered", "window", "available", "size"),
    [
        (100, 10_000, 10_000, 100),  # The figure would send 1,000.
        (5_000, 10_000, 10_000, 5_000),
        (9_000, 10_000, 10_000, 5_000),  # Half of the window.
        (9_000, 10_000, 3_000, 3_000),
        (9_000, 10_000, 500, 0),  # Silly window: wait for an ACK.
        (300, 10_000, 500, 300),  # Fits, so it does not wait; in the figure it does.
        (600, 10_000, 500, 0),
        (9_000, 1_000, 1_000, 1_000),
        (90_000, 80_000, 80_000, 30_000),
    ],
)
def test_the_size_of_a_packet(offered: int, window: int, available: int, size: int) -> None:
    assert packet_bytes(offered, window, available, 1_000, 30_000) == size


def test_no_size_is_above_what_is_offered_or_available_or_half_of_a_large_window() -> None:
    sizes = (1, 500, 999, 1_000, 1_001, 4_000, 29_999, 64_000)
    for offered, window in product(sizes, (1_000, 1_001, 3_000, 50_000, 64_000)):
        for available in (*[one for one in sizes if one <= window], window):
            size = packet_bytes(offered, window, available, 1_000, 30_000)

            assert size <= min(offered, available, 30_000)
            assert size <= max(window // 2, 1_000)
            assert size or available < min(offered, 1_000)


def test_a_flow_offers_sizes_of_its_own_window() -> None:
    flow = paper_flow(8 * PACKET)
    assert flow.next_packet_bytes(60_000) == 4_000
    flow.sent(1, 4_000, 0)
    flow.sent(2, 3_500, 0)

    assert flow.next_packet_bytes(60_000) == 0
    assert flow.next_packet_bytes(400) == 400


# Random histories: the same checks have to find flows that are wrong.


class NeverGivesBack(SenderFlow):
    """Keeps the bytes of packets that were NACKed."""

    def acknowledged(self, seq: int, now_us: int) -> None:
        if seq % 7:
            super().acknowledged(seq, now_us)


class IgnoresTheWindow(SenderFlow):
    """Sends whatever is offered."""

    def may_send(self, size_bytes: int, now_us: int) -> bool:
        return size_bytes > 0 and now_us >= 0


class GivesBackTwice(SenderFlow):
    """Counts each copy of an ACK."""

    def acknowledged(self, seq: int, now_us: int) -> None:
        super().acknowledged(seq, now_us)
        self.flight_bytes = max(0, self.flight_bytes - PACKET)


def history(seed: int, make: Callable[[FlowOptions], SenderFlow]) -> str:
    """What is wrong in a random history of a flow, or nothing."""
    dice = Random(seed)
    options = FlowOptions(dice.choice(list(FlowPolicy)), packet_bytes_min=PACKET, window_bytes_max=64_000)
    flow, waiting, seq, now_us = make(options), dict[int, int](), 0, 0
    for _ in range(400):
        now_us += dice.randrange(3_000)
        size_bytes = dice.choice((100, PACKET, 5_000))
        if dice.random() < 0.6 and flow.may_send(size_bytes, now_us):
            if waiting and sum(waiting.values()) + size_bytes > flow.window_bytes:
                return "more in flight than the window"
            seq += 1
            flow.sent(seq, size_bytes, now_us)
            waiting[seq] = size_bytes
        elif waiting:
            one = dice.choice(list(waiting))
            match dice.randrange(6):
                case 0:
                    flow.nacked([one], now_us)
                case 1:
                    flow.timed_out(one, now_us)
                case 2:
                    old = dice.randint(1, seq)
                    waiting.pop(old, None)
                    flow.acknowledged(old, now_us)
                    flow.acknowledged(old, now_us)
                case _:
                    del waiting[one]
                    flow.acknowledged(one, now_us)
        if flow.flight_bytes != sum(waiting.values()):
            return "bytes in flight that are not"
        if not PACKET <= flow.policy.window_bytes <= 64_000:
            return "window out of bounds"
    return ""


def test_random_histories_keep_the_window_and_give_everything_back() -> None:
    assert [history(seed, SenderFlow) for seed in range(60)] == [""] * 60


@pytest.mark.parametrize("wrong", [NeverGivesBack, IgnoresTheWindow, GivesBackTwice])
@pytest.mark.interpreted
def test_the_same_checks_find_wrong_flows(wrong: Callable[[FlowOptions], SenderFlow]) -> None:
    assert sum(bool(history(seed, wrong)) for seed in range(60)) >= 40
