"""A line that all hosts share: its time is that of frames with what Ethernet, IP and UDP add."""

from hopring.sim.engine import SimEngine
from hopring.sim.line import SharedLine, frames_of
from hopring.sim.network import Address, SimNetwork
from hopring.sim.path import LossReason, Quality


def test_a_long_datagram_takes_several_frames() -> None:
    assert [frames_of(size) for size in (0, 1, 1_472, 1_473, 8_192)] == [1, 1, 1, 2, 6]


def test_frames_leave_one_after_the_other_at_the_rate_of_the_line() -> None:
    line = SharedLine(1_000_000)

    assert line.occupy(1_000 - 66, 0) == 1_000
    assert line.occupy(500 - 66, 100) == 1_500
    assert line.occupy(500 - 66, 5_000) == 5_500
    assert (line.frames, line.bytes) == (3, 2_000)


def test_a_full_line_drops_the_newest() -> None:
    line = SharedLine(1_000_000, queue_bytes=1_500)

    assert line.occupy(934, 0) == 1_000
    assert line.occupy(934, 0) is LossReason.QUEUE
    assert line.occupy(434, 0) == 1_500
    assert line.frames == 2


def test_a_multicast_is_on_the_line_once_and_each_unicast_for_itself() -> None:
    engine = SimEngine()
    network = SimNetwork(engine, seed=1, quality=Quality(delay_us=10))
    line = network.shared_line(SharedLine(1_000_000))
    arrivals: list[tuple[int, str]] = []
    hosts = [Address(name, 1) for name in "abcd"]
    for host in hosts:
        network.bind(host, lambda _source, _data, name=host.host: arrivals.append((engine.now_us, name)))  # type: ignore[misc]
        network.join("ring", host)

    network.multicast(hosts[0], "ring", bytes(934))
    network.send(hosts[1], hosts[2], bytes(934))
    engine.run_until_idle()

    assert arrivals == [(1_010, "b"), (1_010, "c"), (1_010, "d"), (2_010, "c")]
    assert line.frames == 2
