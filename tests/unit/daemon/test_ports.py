from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.exchange import Exchange
from hopring.daemon.loop import Loop
from hopring.daemon.ports import HopPort, Outlet
from hopring.daemon.shaper import DatagramShaper, Shape
from hopring.daemon.udp import UdpEndpoint
from hopring.errors import Drop
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed, Submit
from hopring.links.hop import Hop, HopOptions
from hopring.wire.data import Data
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.ring import Hurry
from hopring.wire.train import Frame, Train, encode

CLUSTER = 0xC1
GENERATION = Generation(7)


def incarnation_of(daemon: int) -> Incarnation:
    return Incarnation(1_000 + daemon)


def header_of(daemon: int, family: Family, cluster: int = CLUSTER) -> Header:
    return Header(family, cluster, DaemonId(daemon), incarnation_of(daemon), GENERATION)


class Node:
    """A daemon with an exchange, an endpoint, and a shaper before it."""

    def __init__(self, loop: Loop, daemon: int, cluster: int = CLUSTER) -> None:
        self.loop = loop
        self.daemon = DaemonId(daemon)
        self.cluster = cluster
        self.exchange = Exchange(self.daemon, cluster)
        self.endpoint = UdpEndpoint(loop, ("127.0.0.1", 0), self.exchange.receive)
        self.shaper = DatagramShaper(loop, self.endpoint.send, Random(daemon))
        self.delivered: list[bytes] = []
        self.failures: list[str] = []

    def up(self, effect: Deliver | LinkFailed) -> None:
        if isinstance(effect, Deliver):
            self.delivered.append(effect.payload)
        else:
            self.failures.append(effect.reason)

    def link_to(self, peer: "Node", options: HopOptions | None = None) -> HopPort:
        own = header_of(self.daemon, Family.HOP, self.cluster)
        outlet = Outlet(self.shaper.send, peer.endpoint.address)
        port = HopPort(self.loop, Hop(options or HopOptions()), own, outlet, self.up)
        self.exchange.attach(port, Family.HOP, GENERATION, {peer.daemon: incarnation_of(peer.daemon)})
        return port


MakeNode = Callable[[int], Node]


@pytest.fixture
def make_node(loop: Loop) -> Iterator[MakeNode]:
    nodes: list[Node] = []

    def make(daemon: int) -> Node:
        nodes.append(Node(loop, daemon))
        return nodes[-1]

    yield make
    for node in nodes:
        node.endpoint.close()


def test_a_hop_link_carries_objects_between_real_sockets(loop: Loop, make_node: MakeNode) -> None:
    a, b = make_node(1), make_node(2)
    to_b, _ = a.link_to(b), b.link_to(a)
    to_b.give(Submit(b"one "))
    to_b.give(Submit(b"two "))
    to_b.give(Submit(b"3" * 60_000))
    run_until(loop, lambda: sum(map(len, b.delivered)) == 60_008)

    assert b"".join(b.delivered) == b"one two " + b"3" * 60_000
    assert b.exchange.traffic.dropped == {}


@pytest.mark.slow
def test_a_hop_link_delivers_everything_once_over_a_shaped_path(loop: Loop, make_node: MakeNode) -> None:
    a, b = make_node(1), make_node(2)
    to_b, _ = a.link_to(b), b.link_to(a)
    shape = Shape(delay_us=5_000, jitter_us=1_000, loss=0.02, duplicates=0.02)
    a.shaper.shape(b.endpoint.address, shape)
    b.shaper.shape(a.endpoint.address, shape)
    for number in range(2_000):
        to_b.give(Submit(number.to_bytes(4, "big") * 100))
    run_until(loop, lambda: sum(map(len, b.delivered)) >= 2_000 * 400)

    joined = b"".join(b.delivered)
    numbers = [int.from_bytes(joined[at : at + 4], "big") for at in range(0, len(joined), 400)]
    assert sorted(numbers) == list(range(2_000))
    assert a.shaper.lost > 0


def test_a_silent_neighbour_fails_the_link(loop: Loop, make_node: MakeNode) -> None:
    a, b = make_node(1), make_node(2)
    a.link_to(b, HopOptions(silence_us=30_000, initial_round_trip_us=1_000))
    run_until(loop, lambda: bool(a.failures))

    assert len(a.failures) == 1


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (Header(Family.HOP, 0xC2, DaemonId(2), Incarnation(1_002), GENERATION), Drop.CLUSTER),
        (Header(Family.HOP, CLUSTER, DaemonId(3), Incarnation(1_003), GENERATION), Drop.FOREIGN_SENDER),
        (Header(Family.RING, CLUSTER, DaemonId(2), Incarnation(1_002), GENERATION), Drop.FOREIGN_SENDER),
        (Header(Family.HOP, CLUSTER, DaemonId(2), Incarnation(1), GENERATION), Drop.STALE_INCARNATION),
        (Header(Family.HOP, CLUSTER, DaemonId(2), Incarnation(1_002), Generation(6)), Drop.STALE_GENERATION),
    ],
)
def test_packets_that_are_not_for_the_link_are_counted_by_reason(
    loop: Loop, make_node: MakeNode, header: Header, reason: Drop
) -> None:
    a, b = make_node(1), make_node(2)
    a.link_to(b)
    send_frames(b, a, header, (Data(1, b"no"),))
    run_until(loop, lambda: a.exchange.traffic.dropped.total() == 1)

    assert a.exchange.traffic.dropped == {reason: 1}
    assert a.delivered == []


def test_a_frame_of_another_family_and_one_past_the_window_are_counted(loop: Loop, make_node: MakeNode) -> None:
    a, b = make_node(1), make_node(2)
    a.link_to(b)
    own = header_of(2, Family.HOP)
    send_frames(b, a, own, (Hurry(),))
    send_frames(b, a, own, (Data(2**40, b"far"),))
    run_until(loop, lambda: a.exchange.traffic.dropped.total() == 2)

    assert a.exchange.traffic.dropped == {Drop.UNKNOWN_TYPE: 1, Drop.OUT_OF_WINDOW: 1}


def test_noise_never_ends_the_loop(loop: Loop, make_node: MakeNode) -> None:
    a, b = make_node(1), make_node(2)
    to_a = b.link_to(a)
    a.link_to(b)
    random = Random(4711)
    good = encode(encode_header(header_of(2, Family.HOP)), (Data(1, b"x" * 50),), 1400)[0].buffer
    for _ in range(500):
        bent = bytearray(good)
        bent[random.randrange(len(bent))] ^= 1 << random.randrange(8)
        b.endpoint.send(Train(bytes(bent[: random.randrange(1, len(bent))]), 1400), a.endpoint.address)
        b.endpoint.send(Train(random.randbytes(random.randrange(1, 3_000)), 1400), a.endpoint.address)
    to_a.give(Submit(b"still here"))
    run_until(loop, lambda: any(b"still here" in payload for payload in a.delivered))

    assert a.exchange.traffic.dropped.total() >= 900


def test_an_incarnation_that_is_not_known_yet_is_learnt_from_the_first_packet(loop: Loop) -> None:
    class Port:
        def __init__(self) -> None:
            self.frames: list[Frame] = []

        def receive(self, _sender: DaemonId, frames: Sequence[Frame]) -> None:
            self.frames.extend(frames)

    exchange = Exchange(DaemonId(1), CLUSTER)
    port = Port()
    exchange.attach(port, Family.HOP, GENERATION, {DaemonId(2): None})
    for incarnation in (5, 6, 5):
        header = Header(Family.HOP, CLUSTER, DaemonId(2), Incarnation(incarnation), GENERATION)
        (train,) = encode(encode_header(header), (Data(incarnation, b""),), 1400)
        exchange.receive(memoryview(train.buffer), len(train.buffer), ("", 0))
    exchange.detach(port)

    assert port.frames == [Data(5, b""), Data(5, b"")]
    assert exchange.traffic.dropped == {Drop.STALE_INCARNATION: 1}


def send_frames(sender: Node, receiver: Node, header: Header, frames: tuple[Frame, ...]) -> None:
    for train in encode(encode_header(header), frames, 1400):
        sender.endpoint.send(train, receiver.endpoint.address)
