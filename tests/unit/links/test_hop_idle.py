"""Idle Hop links: how seldom they send, how much loss they bear, and what they do in silence."""

from random import Random

import pytest
from tests.unit.links.fake_wire import FakeWire

from hopring.links.events import Tick
from hopring.links.hop.hop import Hop, HopOptions
from hopring.wire.hop import Ack

MS = 1_000
SECOND = 1_000_000


def make_wire(delay_us: int = 1_000) -> FakeWire[Hop]:
    return FakeWire(Hop(), Hop(), delay_us)


def acks_of(wire: FakeWire[Hop], end: str, since_us: int = 0) -> int:
    return sum(isinstance(frame, Ack) for at_us, who, frame in wire.log if who == end and at_us >= since_us)


def test_an_idle_end_sends_three_times_a_second() -> None:
    wire = make_wire()
    wire.run(2 * SECOND)

    wire.run(12 * SECOND)

    assert 28 <= acks_of(wire, "a", since_us=2 * SECOND) <= 34


def test_a_short_silence_has_its_own_heartbeat() -> None:
    quick = HopOptions(silence_us=120 * MS)
    wire = FakeWire(Hop(quick), Hop(quick), 1_000)

    wire.run(10 * SECOND)

    assert not wire.failed
    assert acks_of(wire, "a") >= 230


@pytest.mark.parametrize("delay_us", [1 * MS, 70 * MS])
@pytest.mark.parametrize("seed", range(4))
def test_a_link_that_loses_three_of_ten_packets_does_not_fail(seed: int, delay_us: int) -> None:
    dice = Random(seed)
    wire = make_wire(delay_us)
    wire.lose = lambda _sender, _frame: dice.random() < 0.3

    wire.run(400 * SECOND)

    assert not wire.failed


@pytest.mark.parametrize("begin_ms", range(0, 340, 20))
def test_a_link_that_is_cut_for_seven_tenths_of_the_silence_stays_up(begin_ms: int) -> None:
    wire = make_wire()
    begin_us = 3 * SECOND + begin_ms * MS
    wire.lose = lambda _sender, _frame: begin_us <= wire.now_us < begin_us + 850 * MS

    wire.run(10 * SECOND)

    assert not wire.failed


def test_an_end_that_was_never_heard_sends_until_the_other_has_heard_it() -> None:
    wire = make_wire()
    wire.lose = lambda sender, _frame: sender == "a" and wire.now_us < 800 * MS

    wire.run(5 * SECOND)

    assert not wire.failed


def test_an_uneasy_end_that_is_often_awake_does_not_flood_the_link() -> None:
    wire = make_wire()
    wire.run(SECOND)
    end, sent = wire.b, 0
    for now_us in range(SECOND, 2 * SECOND, 200):
        if end.early_tick_at_us <= now_us:
            sent += len(end.step(Tick(), now_us))

    assert 10 <= sent <= 80


def test_a_daemon_that_is_awake_sends_a_little_early() -> None:
    end = Hop()
    end.step(Tick(), 0)
    beat_us = end.state.ack_at_us

    assert end.early_tick_at_us == beat_us - beat_us // 3
    assert end.step(Tick(), end.early_tick_at_us - 1) == []
    assert len(end.step(Tick(), end.early_tick_at_us)) == 1


def test_an_end_that_waits_for_an_acknowledgement_does_not_send_early() -> None:
    wire = make_wire()
    wire.run(SECOND)
    wire.lose = lambda _sender, _frame: True

    wire.submit("a", b"on its way")
    wire.run(SECOND + 1)

    assert wire.a.early_tick_at_us == wire.a.state.ack_at_us


def test_reports_that_come_in_a_row_out_of_a_queue_do_not_silence_the_other_end() -> None:
    wire = make_wire()
    wire.run(2 * SECOND)
    reported_at_us, longest_us = wire.now_us, 0
    for number in range(150):
        # As they were sent: the neighbour had just heard from this end each time.
        now_us = 2 * SECOND + number * 20 * MS
        wire.b.step(Ack(0, 0, 0, stamp_us=number + 1, echo_us=1, echo_delay_us=1), now_us)
        if wire.b.wake_at_us <= now_us + 20 * MS and wire.b.step(Tick(), now_us + 19 * MS):
            longest_us = max(longest_us, now_us - reported_at_us)
            reported_at_us = now_us

    assert 0 < longest_us <= 700 * MS
    assert 2 * SECOND + 149 * 20 * MS - reported_at_us <= 700 * MS
