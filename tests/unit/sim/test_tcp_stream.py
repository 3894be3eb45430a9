"""The TCP model: exact bytes in order, and the speed that TCP would have."""

import pytest

from hopring.sim.engine import SimEngine
from hopring.sim.network import Lose, SimNetwork, TargetedFault
from hopring.sim.path import Quality
from hopring.sim.tcp.links import SimTcpHost
from hopring.sim.tcp.stream import SimTcpFlags, SimTcpOptions, SimTcpStream, decode_segment

PORT = 80


class User:
    """Sends its bytes as fast as the stream takes them, and keeps received bytes."""

    def __init__(self, network: SimNetwork, data: bytes = b"") -> None:
        self.network = network
        self.unsent = memoryview(data)
        self.got = bytearray()
        self.log: list[tuple[int, str]] = []
        self.stream: SimTcpStream | None = None

    def connected(self, stream: SimTcpStream) -> None:
        self.stream = stream
        self._note("connected")
        self.writable(stream)

    def writable(self, stream: SimTcpStream) -> None:
        # More than the buffer holds, so that the stream calls again.
        taken = stream.send(bytes(self.unsent[:2_000_000]))
        self.unsent = self.unsent[taken:]

    def received(self, _stream: SimTcpStream, data: bytes) -> None:
        self.got += data

    def closed(self, _stream: SimTcpStream, reason: str) -> None:
        self._note(reason)

    def _note(self, word: str) -> None:
        self.log.append((self.network.engine.now_us, word))


def connect(
    data: bytes = b"", options: SimTcpOptions | None = None, seed: int = 1, **quality: float
) -> tuple[SimNetwork, User, User]:
    network = SimNetwork(SimEngine(), seed, Quality(**quality))  # type: ignore[arg-type]
    client, server = User(network, data), User(network)
    SimTcpHost(network, "b", options).listen(PORT, lambda _host: server)
    SimTcpHost(network, "a", options).connect("b", PORT, client)
    return network, client, server


def some_bytes(count: int) -> bytes:
    return bytes(number * number % 251 for number in range(count))


def test_a_connection_is_open_after_one_round_trip() -> None:
    network, client, server = connect(delay_us=10_000)

    network.engine.run_until(1_000_000)

    assert client.log == [(20_000, "connected")]
    assert server.log == [(30_000, "connected")]


def test_a_lost_syn_is_sent_again_after_a_second() -> None:
    network = SimNetwork(SimEngine(), 1, Quality(delay_us=10_000))
    network.interfere(
        TargetedFault(lambda flight: SimTcpFlags.SYN in decode_segment(flight.datagram).flags, Lose())
    )
    client, server = User(network), User(network)
    SimTcpHost(network, "b").listen(PORT, lambda _host: server)
    SimTcpHost(network, "a").connect("b", PORT, client)

    network.engine.run_until(5_000_000)

    assert client.log == [(1_020_000, "connected")]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_exactly_and_in_order_under_heavy_loss(seed: int) -> None:
    data = some_bytes(300_000)
    network, _client, server = connect(
        data, seed=seed, delay_us=5_000, loss=0.1, duplicate=0.05, reorder=0.05, jitter_us=2_000
    )

    network.engine.run_until(300_000_000)

    assert bytes(server.got) == data


def test_both_directions_flow_at_once() -> None:
    data = some_bytes(100_000)
    network, client, server = connect(data, delay_us=5_000, loss=0.02)
    server.unsent = memoryview(data[::-1])

    network.engine.run_until(60_000_000)

    assert bytes(server.got) == data
    assert bytes(client.got) == data[::-1]


@pytest.mark.slow
def test_the_rate_under_loss_is_near_the_formula_of_mathis() -> None:
    # 50 ms round trip, 1 % loss: MSS / RTT * 1.22 / sqrt(loss) is 353 KB/s.
    network, _client, server = connect(bytes(30_000_000), delay_us=25_000, loss=0.01)

    network.engine.run_until(60_000_000)

    rate = len(server.got) / 60
    assert 353_000 / 2 < rate < 353_000 * 2


def test_slow_start_doubles_the_window_every_round_trip() -> None:
    network, _client, server = connect(bytes(5_000_000), delay_us=50_000)
    got = []
    for _round in range(5):
        network.engine.run_until(network.engine.now_us + 100_000)
        got.append(len(server.got) // 1448)

    # The handshake, then 10 segments, 20, 40, 80.
    assert got == [0, 10, 30, 70, 150]


def test_the_line_is_filled_when_nothing_is_lost() -> None:
    network, _client, server = connect(bytes(4_000_000), delay_us=10_000, rate_bytes_per_second=250_000)

    network.engine.run_until(11_000_000)

    # The rate of the line since the handshake, less 52 bytes of headers in each 1500.
    assert 0.99 < len(server.got) / (10.97 * 250_000 * 1448 / 1500) <= 1.0


def test_one_loss_in_a_full_window_is_repaired_by_fast_retransmit() -> None:
    network, client, server = connect(bytes(60 * 1448), delay_us=50_000)
    network.engine.run_until(150_000)
    network.interfere(TargetedFault(lambda flight: len(flight.datagram) > 1_000, Lose(), 5, 5))

    network.engine.run_until(2_000_000)

    assert client.stream is not None
    assert len(server.got) == 60 * 1448
    assert (client.stream.timeouts, client.stream.out.retransmitted) == (0, 1)


def test_a_lost_tail_waits_for_the_time_out() -> None:
    network, client, server = connect(delay_us=10_000)
    network.engine.run_until(100_000)
    assert client.stream is not None
    network.interfere(TargetedFault(lambda flight: b"tail" in flight.datagram, Lose()))
    client.stream.send(b"tail")

    network.engine.run_until(309_999)
    assert bytes(server.got) == b""
    network.engine.run_until(400_000)

    assert bytes(server.got) == b"tail"
    assert client.stream.timeouts == 1


def test_a_lone_segment_is_acknowledged_with_delay() -> None:
    network, client, _server = connect(delay_us=10_000)
    network.engine.run_until(100_000)
    assert client.stream is not None
    client.stream.send(b"x")

    network.engine.run_until(100_000 + 59_999)
    assert client.stream.out.una == 0
    network.engine.run_until(100_000 + 60_000)

    assert client.stream.out.una == 1


def test_send_takes_no_more_than_the_buffer_holds() -> None:
    network, client, server = connect(options=SimTcpOptions(send_buffer_bytes=1_000), delay_us=1_000)
    network.engine.run_until(100_000)
    assert client.stream is not None

    assert client.stream.send(bytes(5_000)) == 1_000
    assert client.stream.send(bytes(5_000)) == 0
    client.unsent = memoryview(bytes(4_000))
    network.engine.run_until(10_000_000)

    assert len(server.got) == 5_000


def test_close_delivers_everything_first_and_ends_both_sides() -> None:
    network, client, server = connect(some_bytes(50_000), delay_us=1_000, loss=0.05)
    network.engine.run_until(1_000_000)
    assert client.stream is not None
    client.stream.close()

    network.engine.run_until_idle()

    assert bytes(server.got) == some_bytes(50_000)
    assert (client.log[-1][1], server.log[-1][1]) == ("closed", "closed")


def test_a_restarted_host_resets_its_old_connections() -> None:
    network, client, _server = connect(delay_us=1_000)
    network.engine.run_until(100_000)
    network.crash("b")
    network.restart("b")
    SimTcpHost(network, "b")
    assert client.stream is not None
    client.stream.send(b"anybody?")

    network.engine.run_until(200_000)

    assert client.log[-1] == (102_000, "reset")
    assert client.stream.send(b"more") == 0


def test_a_connection_to_a_silent_host_times_out() -> None:
    network, client, _server = connect(options=SimTcpOptions(retries_max=4), delay_us=1_000)
    network.engine.run_until(100_000)
    network.crash("b")
    assert client.stream is not None
    client.stream.send(b"anybody?")

    network.engine.run_until_idle()

    # 200 ms and four doublings of it.
    assert client.log[-1] == (100_000 + 200_000 * 31, "timed out")


def test_a_connection_without_a_listener_is_refused() -> None:
    network = SimNetwork(SimEngine(), 1, Quality(delay_us=1_000))
    client = User(network)
    SimTcpHost(network, "b")
    SimTcpHost(network, "a").connect("b", PORT, client)

    network.engine.run_until(1_000_000)

    assert client.log == [(2_000, "refused")]
