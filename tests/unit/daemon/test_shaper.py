from random import Random

from tests.unit.daemon.shaped_outbox import HERE, THERE, Outbox
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import DatagramShaper, Lane, Shape, StreamShaper
from hopring.wire.train import Train


def test_a_lane_without_a_shape_lets_packets_pass() -> None:
    assert Lane(Shape(), Random(1)).enter(1_000, now_us=5) == [5]


def test_a_lane_delays() -> None:
    assert Lane(Shape(delay_us=30_000), Random(1)).enter(1_000, now_us=5) == [30_005]


def test_jitter_adds_up_to_its_limit_and_is_replayed_by_the_seed() -> None:
    shape = Shape(delay_us=10_000, jitter_us=2_000)
    moments = [Lane(shape, Random(seed)).enter(100, now_us=0)[0] for seed in range(200)]

    assert min(moments) >= 10_000
    assert max(moments) < 12_000
    assert len(set(moments)) > 100
    assert moments == [Lane(shape, Random(seed)).enter(100, now_us=0)[0] for seed in range(200)]


def test_loss_and_duplicates_come_as_often_as_asked_for() -> None:
    lane = Lane(Shape(loss=0.1, duplicates=0.2), Random(1))
    copies = [len(lane.enter(100, now_us=0)) for _ in range(10_000)]

    assert 900 < copies.count(0) < 1_100
    assert 1_700 < copies.count(2) < 1_900  # A fifth of those that were not lost.


def test_a_rate_spaces_packets_and_its_queue_overflows() -> None:
    lane = Lane(Shape(rate_bits_per_second=8_000_000, queue_bytes_max=3_000), Random(1))

    assert [lane.enter(1_000, now_us=0) for _ in range(4)] == [[1_000], [2_000], [3_000], []]
    assert lane.enter(1_000, now_us=1_000) == [4_000]
    assert lane.enter(1_000, now_us=90_000) == [91_000]


def test_a_train_leaves_later_as_single_datagrams_in_order(loop: Loop) -> None:
    outbox = Outbox(loop)
    shaper = DatagramShaper(loop, outbox.send, Random(1))
    shaper.shape(THERE, Shape(delay_us=2_000))
    start_us = loop.now_us()
    shaper.send(Train(b"aaabbbc", 3), THERE)

    run_until(loop, lambda: len(outbox.trains) == 3)
    assert outbox.buffers == [b"aaa", b"bbb", b"c"]
    assert outbox.trains[0][0] >= start_us + 2_000


def test_other_destinations_are_not_touched(loop: Loop) -> None:
    outbox = Outbox(loop)
    shaper = DatagramShaper(loop, outbox.send, Random(1))
    shaper.shape(THERE, Shape(loss=1.0))
    train = Train(b"aaabbbc", 3)
    shaper.send(train, THERE)
    shaper.send(train, HERE)

    assert [(train, address) for _, train, address in outbox.trains] == [(train, HERE)]
    assert shaper.lost == 3


def test_datagrams_of_one_train_are_lost_one_by_one(loop: Loop) -> None:
    outbox = Outbox(loop)
    shaper = DatagramShaper(loop, outbox.send, Random(1))
    shaper.shape(THERE, Shape(loss=0.5))
    shaper.send(Train(bytes(40), 1), THERE)

    assert 10 < len(outbox.trains) < 30
    assert len(outbox.trains) + shaper.lost == 40


def test_writes_to_a_stream_are_delayed_and_stay_in_order(loop: Loop) -> None:
    written: list[bytes] = []
    shaper = StreamShaper(loop, written.append, Shape(delay_us=1_000, jitter_us=3_000), Random(1))
    pieces = [bytes([number]) for number in range(50)]
    start_us = loop.now_us()
    for piece in pieces:
        shaper.write(piece)

    assert written == []
    run_until(loop, lambda: len(written) == 50)
    assert written == pieces
    assert loop.now_us() >= start_us + 1_000
