"""Objects of Unreliable bundles on a Hop link: they share its rate, and nothing else."""

from tests.unit.links.loose_objects import an_object

from hopring.links.events import Submit, Tick, Transmit
from hopring.links.hop.hop import Hop, HopOptions
from hopring.wire.data import Data
from hopring.wire.hop import Ack
from hopring.wire.train import Frame
from hopring.wire.unreliable import Loose

# A datagram of 1428 bytes on the wire every 10 ms.
SLOW = HopOptions(rate_bytes_per_second=142_800, burst_bytes=1)


def make_hop(options: HopOptions) -> Hop:
    hop = Hop(options)
    hop.step(Tick(), now_us=0)
    return hop


def sent(hop: Hop, until_us: int) -> list[Frame]:
    """Frames that leave up to this time, except reports."""
    frames: list[Frame] = []
    while hop.wake_at_us <= until_us:
        for output in hop.step(Tick(), max(hop.wake_at_us, 1)):
            frames += output.frames if isinstance(output, Transmit) else ()
    return [frame for frame in frames if not isinstance(frame, Ack)]


def test_a_loose_object_goes_at_the_tick_without_a_number() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000))

    assert hop.step(Submit(an_object(1), loose=True), now_us=5) == []
    hop.step(Submit(b"data"), now_us=5)

    assert hop.wake_at_us <= 5
    assert sent(hop, 5) == [Data(1, b"data"), Loose(an_object(1))]
    assert hop.state.sender.sent == 1
    assert list(hop.state.sender.unacked) == [1]


def test_a_loose_object_is_not_resent_and_not_acknowledged() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000))
    hop.step(Submit(an_object(1), loose=True), now_us=5)
    sent(hop, 5)

    assert sent(hop, 1_000_000) == []
    assert hop.state.sender.unacked == {}


def test_a_loose_object_respects_the_rate() -> None:
    hop = make_hop(SLOW)
    for number in range(1, 11):
        hop.step(Submit(an_object(number, size=1_370), loose=True), now_us=1)

    assert len(sent(hop, 100_000)) == 10
    hop = make_hop(SLOW)
    for number in range(1, 11):
        hop.step(Submit(an_object(number, size=1_370), loose=True), now_us=1)
    assert len(sent(hop, 30_000)) in (3, 4)


def test_a_flood_of_loose_objects_does_not_delay_data() -> None:
    hop = make_hop(SLOW)
    for number in range(1, 101):
        hop.step(Submit(an_object(number, size=1_370), loose=True), now_us=1)
    for _ in range(10):
        hop.step(Submit(bytes(1_000)), now_us=1)

    frames = sent(hop, 120_000)

    assert len([frame for frame in frames if isinstance(frame, Data)]) == 10


def test_a_flood_of_data_leaves_an_eighth_of_the_rate_for_loose_objects() -> None:
    hop = make_hop(SLOW)
    for _ in range(100):
        hop.step(Submit(bytes(1_200)), now_us=1)
    for number in range(1, 101):
        hop.step(Submit(an_object(number, size=1_370), loose=True), now_us=1)

    frames = sent(hop, 600_000)

    loose = [frame for frame in frames if isinstance(frame, Loose)]
    assert 5 <= len(loose) <= 9
    assert len(frames) - len(loose) >= 50


def test_when_the_queue_is_full_the_oldest_is_dropped_and_counted() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=142_800, loose_bytes_max=200))
    for number in range(1, 4):
        hop.step(Submit(an_object(number), loose=True), now_us=1)

    assert sent(hop, 1) == [Loose(an_object(2) + an_object(3))]
    assert hop.counters.loose_dropped == 1


def test_a_closed_window_does_not_delay_a_loose_object() -> None:
    hop = make_hop(HopOptions(rate_bytes_per_second=100_000_000, window_packets=1))
    hop.step(Submit(b"one"), now_us=1)
    assert sent(hop, 1) == [Data(1, b"one")]
    hop.step(Submit(b"two"), now_us=2)
    hop.step(Submit(an_object(1), loose=True), now_us=2)

    assert sent(hop, 2) == [Loose(an_object(1))]
