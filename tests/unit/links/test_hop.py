import random

import pytest
from tests.unit.links.fake_wire import FakeWire

from hopring.errors import PeerError
from hopring.ids import NEVER
from hopring.links.events import Deliver, LinkFailed, LinkOutput, Submit, Tick, Transmit
from hopring.links.hop.hop import Hop, HopOptions
from hopring.wire.data import Data, Missing, Segment, chunk_bytes_of, cut
from hopring.wire.hop import Ack, Nack
from hopring.wire.train import Frame

FAST = HopOptions(rate_bytes_per_second=100_000_000)


def make_hop(options: HopOptions = FAST, initial_seq: int = 1) -> Hop:
    return Hop(options, initial_seq)


def make_wire(options: HopOptions = FAST, delay_us: int = 10_000, initial_seq: int = 1) -> FakeWire[Hop]:
    return FakeWire(make_hop(options, initial_seq), make_hop(options, initial_seq), delay_us)


def frames_of(outputs: list[LinkOutput]) -> list[Frame]:
    return [frame for output in outputs if isinstance(output, Transmit) for frame in output.frames]


def measured(hop: Hop, round_trip_us: int) -> None:
    """Lets a link at time 0 learn its round trip, with hardly any deviation."""
    for _ in range(40):
        hop.state.round_trip.sample(2**32 - round_trip_us + 1, 0, 0)


def test_the_first_tick_says_hello_so_that_the_round_trip_is_known_early() -> None:
    hop = make_hop()

    assert hop.wake_at_us == 0
    assert frames_of(hop.step(Tick(), now_us=7)) == [Ack(0, 0, 0, stamp_us=7, echo_us=0, echo_delay_us=7)]


def test_a_submitted_object_goes_at_the_tick_and_not_before() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)

    assert hop.step(Submit(b"one"), now_us=5) == []
    assert hop.wake_at_us <= 5
    assert frames_of(hop.step(Tick(), now_us=5)) == [Data(1, b"one")]


def test_objects_of_one_turn_share_a_packet() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    for word in (b"one", b"two", b"three"):
        hop.step(Submit(word), now_us=5)

    assert frames_of(hop.step(Tick(), now_us=5)) == [Data(1, b"onetwothree")]


def test_an_urgent_object_goes_first() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    hop.step(Submit(b"data"), now_us=5)
    hop.step(Submit(b"control", urgent=True), now_us=5)

    assert frames_of(hop.step(Tick(), now_us=5)) == [Data(1, b"controldata")]


def test_a_lazy_object_waits_for_other_objects_but_not_for_ever() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    hop.step(Submit(b"meta", lazy=True), now_us=0)

    assert frames_of(hop.step(Tick(), now_us=4_999)) == []
    assert hop.wake_at_us == 5_000
    assert frames_of(hop.step(Tick(), now_us=5_000))[0] == Data(1, b"meta")


def test_a_lazy_object_shares_the_next_packet() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    hop.step(Submit(b"meta", lazy=True), now_us=0)
    hop.step(Submit(b"body"), now_us=1)

    assert frames_of(hop.step(Tick(), now_us=1)) == [Data(1, b"bodymeta")]


def test_a_packet_is_delivered_at_once_although_an_earlier_one_is_missing() -> None:
    hop = make_hop()

    assert hop.step(Data(2, b"two"), now_us=0) == [Deliver(b"two")]
    assert hop.step(Data(1, b"one"), now_us=1) == [Deliver(b"one")]


def test_a_duplicate_is_dropped() -> None:
    hop = make_hop()
    hop.step(Data(1, b"one"), now_us=0)

    assert hop.step(Data(1, b"one"), now_us=1) == []
    assert hop.counters.duplicates == 1


def test_a_gap_is_reported_only_after_the_delay() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    hop.step(Data(3, b"three"), now_us=0)

    assert not any(isinstance(frame, Nack) for frame in frames_of(hop.step(Tick(), now_us=1_999)))
    assert Nack((Missing(1, 2),)) in frames_of(hop.step(Tick(), now_us=2_000))


def test_the_missing_range_ends_before_the_packet_that_showed_it() -> None:
    hop = make_hop()
    hop.step(Data(1, b"one"), now_us=0)
    hop.step(Data(3, b"three"), now_us=0)

    assert Nack((Missing(2, 1),)) in frames_of(hop.step(Tick(), now_us=2_000))


def test_a_nack_is_repeated_until_the_packet_comes() -> None:
    hop = make_hop()
    measured(hop, 40_000)
    hop.step(Data(2, b"two"), now_us=0)
    asked_at = [
        at for at in range(0, 200_000, 1_000) if Nack((Missing(1, 1),)) in frames_of(hop.step(Tick(), at))
    ]

    assert asked_at == [2_000, 52_000, 102_000, 152_000]

    hop.step(Data(1, b"one"), now_us=200_000)
    assert not any(
        isinstance(f, Nack) for at in range(200_000, 400_000, 1_000) for f in frames_of(hop.step(Tick(), at))
    )


def test_after_a_pause_that_looked_like_a_long_round_trip_a_nack_is_repeated_all_the_same() -> None:
    hop = make_hop()
    measured(hop, 40_000)
    hop.state.round_trip.sample(2**32 - 4_000_000 + 1, 0, 0)
    assert hop.state.round_trip.answer_us > 2 * FAST.silence_us
    hop.step(Data(2, b"two"), now_us=0)
    asked_at = [
        at for at in range(0, 2_000_000, 1_000) if Nack((Missing(1, 1),)) in frames_of(hop.step(Tick(), at))
    ]

    assert asked_at == [20_000, 20_000 + FAST.silence_us]


def test_the_aru_is_below_the_first_gap_and_without_a_gap_the_last_packet() -> None:
    hop = make_hop()
    hop.step(Data(1, b"one"), now_us=0)
    hop.step(Data(3, b"three"), now_us=0)
    hop.step(Data(4, b"four"), now_us=0)
    with_gap = frames_of(hop.step(Tick(), now_us=10_000))[-1]
    hop.step(Data(2, b"two"), now_us=10_000)
    without = frames_of(hop.step(Tick(), now_us=20_000))[-1]

    assert isinstance(with_gap, Ack)
    assert isinstance(without, Ack)
    assert (with_gap.aru, with_gap.top) == (1, 4)
    assert (without.aru, without.top) == (4, 4)


def test_an_ack_that_names_the_highest_sequence_shows_a_lost_tail() -> None:
    hop = make_hop()
    hop.step(Ack(aru=0, top=0, max_sent=2, stamp_us=1, echo_us=0, echo_delay_us=0), now_us=0)

    assert Nack((Missing(1, 2),)) in frames_of(hop.step(Tick(), now_us=2_000))


def test_an_ack_frees_what_it_covers_and_the_packet_it_names() -> None:
    hop = make_hop()
    for word in (b"x" * 40_000, b"y" * 40_000, b"z" * 40_000):
        hop.step(Submit(word), now_us=0)
    hop.step(Tick(), now_us=0)
    hop.step(Tick(), now_us=1_000)
    assert list(hop.state.sender.unacked) == [1, 2, 3]

    hop.step(Ack(aru=2, top=2, max_sent=0, stamp_us=1, echo_us=0, echo_delay_us=0), now_us=2_000)

    assert list(hop.state.sender.unacked) == [3]


def test_the_window_holds_back_new_packets_and_never_a_retransmission() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000, window_packets=2))
    for word in (b"x" * 60_000, b"y" * 60_000, b"z" * 60_000):
        hop.step(Submit(word), now_us=0)
    sent = frames_of(hop.step(Tick(), now_us=0)) + frames_of(hop.step(Tick(), now_us=2_000))
    assert [frame.seq for frame in sent if isinstance(frame, Data)] == [1, 2]

    hop.step(Nack((Missing(1, 1),)), now_us=3_000)

    assert frames_of(hop.step(Tick(), now_us=3_000))[0] == Data(1, b"x" * 60_000)
    assert hop.backlog_bytes == 60_000


def test_requests_for_one_packet_twice_are_refused_and_nothing_is_sent_again() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000))
    hop.step(Submit(b"x" * 1_000), now_us=0)
    hop.step(Tick(), now_us=0)

    with pytest.raises(PeerError):
        hop.step(Nack((Missing(1, 1), Missing(1, 1))), now_us=3_000)

    assert not hop.state.sender.to_resend


def test_an_urgent_object_passes_a_closed_window() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000, window_packets=1))
    hop.step(Submit(b"x" * 60_000), now_us=0)
    hop.step(Submit(b"y" * 60_000), now_us=0)
    hop.step(Tick(), now_us=0)
    hop.step(Submit(b"control", urgent=True), now_us=5_000)

    assert Data(2, b"control") in frames_of(hop.step(Tick(), now_us=5_000))


def test_only_the_segments_that_are_missing_are_sent_again() -> None:
    payload = bytes(range(256)) * 20
    chunk = chunk_bytes_of(FAST.segment_bytes)
    segments = cut(1, payload, chunk)
    sender, receiver = make_hop(), make_hop()
    sender.step(Submit(payload), now_us=0)
    assert frames_of(sender.step(Tick(), now_us=0))[0] == Data(1, payload)

    for segment in (segments[0], segments[3]):
        assert receiver.step(segment, now_us=0) == []
    nack = next(frame for frame in frames_of(receiver.step(Tick(), now_us=2_000)) if isinstance(frame, Nack))
    assert nack == Nack((Missing(1, 1, segments=0b0110),))

    sender.step(nack, now_us=3_000)
    again = [frame for frame in frames_of(sender.step(Tick(), now_us=3_000)) if isinstance(frame, Segment)]
    assert again == [segments[1], segments[2]]
    assert [receiver.step(segment, now_us=4_000) for segment in again] == [[], [Deliver(payload)]]


def test_a_fixed_rate_is_kept_and_counts_retransmissions() -> None:
    dice = random.Random(1)
    wire = make_wire(HopOptions(rate_bytes_per_second=100_000, burst_bytes=3_000))
    wire.lose = lambda _end, _frame: dice.random() < 0.1
    wire.submit("a", *[b"x" * 1_000] * 400)
    wire.run(2_000_000)

    sent_bytes = sum(len(f.payload) + 72 for _, end, f in wire.log if end == "a" and isinstance(f, Data))
    assert 190_000 <= sent_bytes <= 200_000 + 3_000 + 1_100
    assert wire.a.counters.retransmissions > 0


def test_congestion_control_starts_slowly_and_halves_its_window_at_a_loss() -> None:
    wire = make_wire(HopOptions(), delay_us=20_000)
    wire.submit("a", *[b"x" * 1_000] * 20_000)
    wire.run(200_000)
    congestion = wire.a.state.congestion
    assert congestion is not None
    assert congestion.slow_start
    before = congestion.window_bytes
    assert before > 14_000

    sent = wire.a.state.sender.sent
    wire.a.step(Nack((Missing(sent, 1),)), wire.now_us + 500_000)
    wire.a.step(Nack((Missing(sent - 1, 1),)), wire.now_us + 500_000)

    assert congestion.window_bytes == pytest.approx(before * 0.7)
    assert not congestion.slow_start


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_every_object_arrives_exactly_once_in_both_directions(loss: float, seed: int) -> None:
    dice = random.Random(seed)
    wire = make_wire(HopOptions(rate_bytes_per_second=2_000_000, nacks_max=40))
    wire.lose = lambda _end, _frame: dice.random() < loss
    objects = [b"%05d" % number for number in range(300)]
    for at in range(0, 300, 10):
        wire.submit("a", *objects[at : at + 10])
        wire.submit("b", *objects[at : at + 10])
        wire.run(wire.now_us + dice.randrange(20_000))
    wire.run(wire.now_us + 3_000_000)

    assert wire.failed == {}
    for end in ("a", "b"):
        stream = b"".join(sorted(split_in_fives(wire.delivered[end])))
        assert stream == b"".join(objects)
    assert not wire.a.state.sender.unacked


def split_in_fives(payloads: list[bytes]) -> list[bytes]:
    return [payload[at : at + 5] for payload in payloads for at in range(0, len(payload), 5)]


@pytest.mark.parametrize("start", [2**32 - 5, 2**63 - 5])
def test_sequences_continue_past_word_boundaries(start: int) -> None:
    dice = random.Random(3)
    wire = make_wire(initial_seq=start)
    wire.lose = lambda _end, _frame: dice.random() < 0.2
    for number in range(20):
        wire.submit("a", b"%02d" % number)
        wire.run(wire.now_us + 1_000)
    wire.run(2_000_000)

    assert sorted(wire.delivered["b"]) == [b"%02d" % number for number in range(20)]


def test_acks_share_datagrams_with_data_when_there_is_any() -> None:
    wire = make_wire(HopOptions(rate_bytes_per_second=10_000_000))
    for _ in range(100):
        wire.submit("a", b"x" * 100)
        wire.submit("b", b"y" * 100)
        wire.run(wire.now_us + 1_000)

    moments = {(at, end) for at, end, frame in wire.log if isinstance(frame, Data)}
    alone = [at for at, end, frame in wire.log if isinstance(frame, Ack) and (at, end) not in moments]
    shared = [at for at, end, frame in wire.log if isinstance(frame, Ack) and (at, end) in moments]
    assert len(alone) <= 4
    assert len(shared) > 20


def test_an_idle_link_sends_heartbeats_and_stays_up() -> None:
    wire = make_wire()
    wire.run(60_000_000)

    assert wire.failed == {}
    assert len(wire.log) < 60 * 20


def test_silence_fails_the_link_once_at_both_ends() -> None:
    wire = make_wire()
    wire.run(1_000_000)
    wire.lose = lambda _end, _frame: True
    wire.run(3_000_000)

    assert set(wire.failed) == {"a", "b"}
    assert "nothing heard" in wire.failed["a"]
    assert wire.a.wake_at_us == NEVER


def test_a_packet_that_never_gets_through_fails_the_link_although_others_do() -> None:
    wire = make_wire()
    wire.lose = lambda end, frame: end == "a" and isinstance(frame, Data) and frame.seq == 2
    for word in (b"one", b"two", b"three"):
        wire.submit("a", word)
        wire.run(wire.now_us + 100)
    wire.run(5_000_000)

    assert wire.failed
    assert any("asked" in reason for reason in wire.failed.values())
    assert wire.delivered["b"] == [b"one", b"three"]


def test_a_failed_link_does_nothing_more() -> None:
    hop = make_hop()
    hop.step(Tick(), now_us=0)
    assert hop.step(Tick(), now_us=1_200_000) == [LinkFailed("nothing heard for 1200 ms", True, 1_200_000)]

    assert hop.step(Data(1, b"one"), now_us=1_200_001) == []
    assert hop.step(Submit(b"one"), now_us=1_200_001) == []
    assert hop.step(Tick(), now_us=9_000_000) == []


def test_a_backlog_beyond_its_limit_fails_the_link() -> None:
    hop = make_hop(HopOptions(backlog_bytes_max=10))
    hop.step(Submit(b"12345"), now_us=0)

    assert isinstance(hop.step(Submit(b"678901"), now_us=0)[0], LinkFailed)


HOSTILE: list[Data | Segment | Ack | Nack] = [
    Data(1 + 4_096 + 64 + 2, b"far"),
    Segment(2**64 - 1, 0, 2, 4, b"ab"),
    Ack(aru=2, top=2, max_sent=0, stamp_us=1, echo_us=0, echo_delay_us=0),
    Ack(aru=0, top=9, max_sent=0, stamp_us=1, echo_us=0, echo_delay_us=0),
    Ack(aru=0, top=0, max_sent=2**64 - 1, stamp_us=1, echo_us=0, echo_delay_us=0),
    Nack((Missing(2, 1),)),
    Nack((Missing(1, 60_000),)),
    Nack((Missing(2**64 - 1, 1),)),
]


@pytest.mark.parametrize("frame", HOSTILE)
def test_an_invalid_frame_is_refused_and_changes_nothing(
    frame: Data | Segment | Ack | Nack,
) -> None:
    hop, same = make_hop(), make_hop()
    for one in (hop, same):
        one.step(Submit(b"one"), now_us=0)
        one.step(Tick(), now_us=0)
        one.step(Segment(1, 0, 2, 4, b"ab"), now_us=0)

    with pytest.raises(PeerError):
        hop.step(frame, now_us=5)

    assert hop.state == same.state


def test_segments_of_another_segmentation_are_refused_and_change_nothing() -> None:
    hop, same = make_hop(), make_hop()
    for one in (hop, same):
        one.step(Segment(1, 0, 3, 6, b"ab"), now_us=0)

    with pytest.raises(PeerError):
        hop.step(Segment(1, 1, 2, 4, b"cd"), now_us=5)

    assert hop.state == same.state


def test_a_long_train_on_a_slow_line_is_not_taken_for_lost() -> None:
    hop = make_hop()
    measured(hop, 4_000)
    payload = bytes(45 * chunk_bytes_of(FAST.segment_bytes))
    for number, segment in enumerate(cut(1, payload, chunk_bytes_of(FAST.segment_bytes))):
        out = hop.step(segment, now_us=number * 11_000)
        for at_us in range(number * 11_000, (number + 1) * 11_000, 1_000):
            assert not any(isinstance(one, LinkFailed) for one in hop.step(Tick(), at_us))
            hop.step(Ack(0, 0, 1, 1, 0, 0), at_us)

    assert out == [Deliver(payload)]
    assert hop.counters.nacks <= 45 + 1


def test_a_request_that_came_before_the_packet_could_arrive_is_ignored() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000))
    measured(hop, 10_000)
    hop.step(Submit(b"x" * 50_000), now_us=0)
    hop.step(Tick(), now_us=0)

    hop.step(Nack((Missing(1, 1),)), now_us=200_000)
    assert hop.counters.retransmissions == 0
    hop.step(Nack((Missing(1, 1),)), now_us=600_000)
    assert hop.counters.retransmissions == 1


def test_a_short_outage_with_a_gap_open_does_not_kill_a_short_link() -> None:
    wire = make_wire(delay_us=1_000)
    wire.run(500_000)
    wire.lose = lambda end, frame: end == "a" and isinstance(frame, Data) and frame.seq == 1
    wire.submit("a", b"one")
    wire.run(501_000)
    wire.submit("a", b"two")
    wire.run(503_000)
    wire.lose = lambda _end, _frame: True
    wire.run(1_500_000)
    wire.lose = lambda _end, _frame: False
    wire.run(3_000_000)

    assert wire.failed == {}
    assert sorted(wire.delivered["b"]) == [b"one", b"two"]


def test_after_a_pause_of_this_host_silence_is_still_noticed() -> None:
    wire = make_wire()
    wire.run(1_000_000)
    late = [Ack(0, 0, 0, 1, (1_000_000 + at) & 0xFFFFFFFF, 0) for at in range(0, 30_000_000, 200_000)]
    for ack in late:
        wire.b.step(ack, now_us=31_000_000)

    assert wire.b.wake_at_us <= 31_000_000 + 4_800_000
    assert isinstance(wire.b.step(Tick(), now_us=35_800_000)[0], LinkFailed)


def test_the_round_trip_is_measured_without_the_neighbours_delay() -> None:
    wire = make_wire(delay_us=30_000)
    wire.run(3_000_000)

    assert 59_000 <= wire.a.counters.round_trip_us <= 61_000


def test_slightly_reordered_packets_are_not_requested() -> None:
    hop = make_hop()
    for at in range(0, 1_000, 2):
        hop.step(Data(at + 2, b"later"), now_us=at * 1_000)
        hop.step(Data(at + 1, b"earlier"), now_us=at * 1_000 + 1_500)
        hop.step(Tick(), now_us=at * 1_000 + 1_500)

    assert hop.counters.nacks == 0
    assert hop.counters.received == 1_000
