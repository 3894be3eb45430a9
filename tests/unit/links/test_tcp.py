import dataclasses
from random import Random

import pytest

from hopring.ids import NEVER, DaemonId, Generation, Incarnation
from hopring.links.events import (
    Deliver,
    LinkFailed,
    StreamClosed,
    StreamObserve,
    StreamObserved,
    StreamOpened,
    StreamReceived,
    StreamWrite,
    StreamWritten,
    Submit,
    Tick,
)
from hopring.links.events import LinkOutput as Output
from hopring.links.tcp import Tcp, TcpOptions
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.header import Family, Header
from hopring.wire.stream import SIGN_OF_LIFE, encode_greeting, encode_packet

OURS = Header(Family.TCP, 99, DaemonId(1), Incarnation(11), Generation(7))
THEIRS = Header(Family.TCP, 99, DaemonId(2), Incarnation(22), Generation(7))
OPTIONS = TcpOptions(
    packet_bytes_max=100,
    unsent_bytes_max=150,
    backlog_bytes_max=1_000,
    lazy_us=5_000,
    heartbeat_us=200_000,
    silence_us=1_000_000,
    greeting_us=3_000_000,
)


def make_tcp(peer_incarnation: int | None = 22) -> Tcp:
    incarnation = None if peer_incarnation is None else Incarnation(peer_incarnation)
    return Tcp(OURS, DaemonId(2), incarnation, OPTIONS)


def make_open(at_us: int = 0) -> Tcp:
    """A link whose connection is open and greeted from both ends, with nothing unsent."""
    tcp = make_tcp()
    tcp.step(StreamOpened(), at_us)
    tcp.step(StreamReceived(encode_greeting(THEIRS)), at_us)
    tcp.step(StreamWritten(tcp.state.unsent_bytes), at_us)
    return tcp


def written(outputs: list[Output]) -> bytes:
    return b"".join(output.data for output in outputs if isinstance(output, StreamWrite))


def test_each_end_greets_first() -> None:
    tcp = make_tcp()

    assert tcp.step(StreamOpened(), 0) == [StreamWrite(encode_greeting(OURS))]


def test_what_was_submitted_before_the_connection_stands_goes_right_behind_the_greeting() -> None:
    tcp = make_tcp()
    tcp.step(Submit(b"early"), 0)
    assert tcp.wake_at_us == 3_000_000

    tcp.step(StreamOpened(), 10)

    assert tcp.wake_at_us == 0
    assert tcp.step(Tick(), 10) == [StreamWrite(encode_packet(b"early"))]


def test_a_submit_sends_nothing_by_itself_and_the_objects_of_one_turn_share_a_packet() -> None:
    tcp = make_open()

    assert tcp.step(Submit(b"one"), 5) == []
    assert tcp.step(Submit(b"two"), 5) == []
    assert tcp.wake_at_us <= 5
    assert tcp.step(Tick(), 5) == [StreamWrite(encode_packet(b"onetwo"))]


def test_objects_that_do_not_fit_together_go_in_packets_of_their_own() -> None:
    tcp = make_open()
    tcp.step(Submit(bytes(60)), 0)
    tcp.step(Submit(bytes(60)), 0)

    assert tcp.step(Tick(), 0) == [StreamWrite(encode_packet(bytes(60)))] * 2


def test_a_lazy_object_waits_for_other_objects_but_not_for_long() -> None:
    tcp = make_open()
    tcp.step(Submit(b"lazy", lazy=True), 0)

    assert tcp.wake_at_us == 5_000
    assert tcp.step(Tick(), 4_999) == []
    assert tcp.step(Tick(), 5_000) == [StreamWrite(encode_packet(b"lazy"))]


def test_payloads_are_delivered_in_order_however_the_bytes_arrive() -> None:
    tcp = make_open()
    stream = encode_packet(b"one") + encode_packet(b"two")

    assert tcp.step(StreamReceived(stream[:9]), 1) == [Deliver(b"one")]
    assert tcp.step(StreamReceived(stream[9:]), 2) == [Deliver(b"two")]
    assert tcp.counters.received == 2


def test_packets_may_come_right_behind_the_greeting() -> None:
    tcp = make_tcp()
    tcp.step(StreamOpened(), 0)

    assert tcp.step(StreamReceived(encode_greeting(THEIRS) + encode_packet(b"one")), 0) == [Deliver(b"one")]
    assert tcp.greeting == THEIRS


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (THEIRS.replace(cluster=98), "cluster"),
        (THEIRS.replace(sender=DaemonId(3)), "foreign_sender"),
        (THEIRS.replace(incarnation=Incarnation(23)), "stale_incarnation"),
        (THEIRS.replace(generation=Generation(6)), "stale_generation"),
    ],
)
def test_a_wrong_greeting_fails_the_link_and_nothing_behind_it_is_delivered(
    greeting: Header, reason: str
) -> None:
    tcp = make_tcp()
    tcp.step(StreamOpened(), 0)

    [failed] = tcp.step(StreamReceived(encode_greeting(greeting) + encode_packet(b"poison")), 0)

    assert isinstance(failed, LinkFailed)
    assert failed.reason.startswith(reason)
    assert tcp.greeting is None


def test_an_incarnation_that_is_not_known_yet_is_learnt_from_the_greeting() -> None:
    tcp = make_tcp(peer_incarnation=None)
    tcp.step(StreamOpened(), 0)

    assert tcp.step(StreamReceived(encode_greeting(THEIRS)), 0) == []
    assert tcp.greeting == THEIRS


def test_invalid_bytes_fail_the_link() -> None:
    tcp = make_open()
    too_long = (PACKET_BYTES_MAX + 1).to_bytes(4, "little")

    [failed] = tcp.step(StreamReceived(encode_packet(b"good") + too_long), 0)

    assert isinstance(failed, LinkFailed)
    assert failed.reason.startswith("limit")


def test_a_closed_connection_fails_the_link_once_and_for_all() -> None:
    tcp = make_open()
    tcp.step(StreamReceived(encode_packet(b"half")[:-1]), 0)

    assert tcp.step(StreamClosed("reset by peer"), 5) == [LinkFailed("reset by peer", absence=True)]
    assert tcp.wake_at_us == NEVER
    for event in (StreamClosed("again"), Submit(b"late"), StreamReceived(b"\0"), StreamWritten(1), Tick()):
        assert tcp.step(event, 6) == []


def test_a_connection_that_cannot_be_opened_fails_the_link() -> None:
    assert make_tcp().step(StreamClosed("connection refused"), 0) == [
        LinkFailed("connection refused", absence=True)
    ]


def test_a_link_that_is_not_greeted_in_time_fails() -> None:
    tcp = make_tcp()
    tcp.step(Tick(), 1_000)
    tcp.step(StreamOpened(), 2_000)
    tcp.step(StreamReceived(encode_greeting(THEIRS)[:-1]), 2_900_000)

    assert tcp.step(Tick(), 3_000_999) == []
    assert tcp.step(Tick(), 3_001_000) == [LinkFailed("no greeting in time", True, 3_000_000)]


def test_an_idle_link_sends_heartbeats() -> None:
    tcp = make_open()

    assert tcp.wake_at_us == 200_000
    assert tcp.step(Tick(), 200_000) == [StreamWrite(SIGN_OF_LIFE)]
    tcp.step(StreamReceived(SIGN_OF_LIFE), 200_000)
    assert tcp.wake_at_us == 400_000


def test_a_heartbeat_is_not_delivered_but_keeps_the_link_up() -> None:
    tcp = make_open()

    assert tcp.step(StreamReceived(SIGN_OF_LIFE), 900_000) == []
    assert LinkFailed not in map(type, tcp.step(Tick(), 1_899_999))
    assert tcp.step(Tick(), 1_900_000) == [LinkFailed("nothing heard for 1000 ms", True, 1_000_000)]


def ticks(tcp: Tcp, until_us: int) -> list[tuple[int, Output]]:
    """Ticks whenever the link asks for it; returns all outputs but heartbeats, with their times."""
    outputs: list[tuple[int, Output]] = []
    while (at_us := tcp.wake_at_us) <= until_us:
        outputs += [
            (at_us, output) for output in tcp.step(Tick(), at_us) if not isinstance(output, StreamWrite)
        ]
    return outputs


def test_a_link_whose_heartbeats_come_in_time_is_not_observed() -> None:
    tcp = make_open()
    for at_us in range(0, 5_000_000, 250_000):
        assert ticks(tcp, at_us) == []
        tcp.step(StreamReceived(SIGN_OF_LIFE), at_us)


def test_a_quiet_link_is_observed_and_for_the_last_time_just_before_it_fails() -> None:
    tcp = make_open()

    *observations, failure = ticks(tcp, 2_000_000)

    assert [output for _, output in observations] == [StreamObserve()] * len(observations)
    assert observations[0][0] == 300_000
    assert observations[-1][0] == 990_000
    assert failure == (1_000_000, LinkFailed("nothing heard for 1000 ms", True, 1_000_000))


def test_data_segments_that_cannot_be_read_yet_keep_the_link_up() -> None:
    tcp = make_open()
    for at_us in range(300_000, 9_000_000, 300_000):
        tcp.step(StreamObserved(data_segments=at_us // 100_000, round_trip_us=50_000), at_us)
        assert LinkFailed not in map(type, tcp.step(Tick(), at_us))


def test_the_first_observation_after_received_bytes_is_only_a_baseline() -> None:
    tcp = make_open()
    tcp.step(StreamObserved(data_segments=3, round_trip_us=50_000), 300_000)
    tcp.step(StreamReceived(SIGN_OF_LIFE), 400_000)
    tcp.step(StreamObserved(data_segments=4, round_trip_us=50_000), 700_000)

    assert tcp.step(Tick(), 1_400_000) == [LinkFailed("nothing heard for 1000 ms", True, 1_000_000)]


def test_while_a_segment_is_missing_the_link_waits_for_its_retransmission_but_not_for_ever() -> None:
    tcp = make_open()
    tcp.step(StreamObserved(data_segments=3, round_trip_us=50_000), 300_000)
    tcp.step(StreamObserved(data_segments=4, round_trip_us=50_000), 500_000)

    [*_, failure] = ticks(tcp, 10_000_000)

    assert failure == (4_500_000, LinkFailed("nothing heard for 4000 ms", True, 4_000_000))


def test_a_segment_that_came_in_its_turn_ends_the_longer_wait() -> None:
    tcp = make_open()
    tcp.step(StreamObserved(data_segments=3, round_trip_us=50_000), 300_000)
    tcp.step(StreamObserved(data_segments=4, round_trip_us=50_000), 500_000)
    tcp.step(StreamReceived(SIGN_OF_LIFE), 2_000_000)

    [*_, failure] = ticks(tcp, 10_000_000)

    assert failure == (3_000_000, LinkFailed("nothing heard for 1000 ms", True, 1_000_000))


@pytest.mark.parametrize(
    ("round_trip_us", "failed_at_us"),
    [(0, 1_000_000), (125_000, 1_000_000), (200_000, 1_600_000), (3_000_000, 4_000_000)],
)
def test_the_limit_of_silence_grows_with_the_round_trip(round_trip_us: int, failed_at_us: int) -> None:
    tcp = make_open()
    tcp.step(StreamObserved(data_segments=3, round_trip_us=round_trip_us), 300_000)

    [*_, (at_us, failure)] = ticks(tcp, 10_000_000)

    assert isinstance(failure, LinkFailed)
    assert at_us == failed_at_us


def test_a_daemon_that_did_not_run_reads_before_it_blames_the_neighbour() -> None:
    tcp = make_open()

    assert LinkFailed not in map(type, tcp.step(Tick(), 30_000_000))
    assert LinkFailed not in map(type, tcp.step(Tick(), 30_499_999))
    assert LinkFailed in map(type, tcp.step(Tick(), 30_500_000))


def test_a_stuck_connection_gets_no_heartbeats() -> None:
    tcp = make_open()
    tcp.step(Submit(b"stuck"), 0)
    tcp.step(Tick(), 0)

    assert tcp.step(Tick(), 200_000) == []
    tcp.step(StreamReceived(SIGN_OF_LIFE), 200_000)
    assert tcp.wake_at_us == 400_000


def test_data_waits_while_the_connection_holds_enough_and_goes_on_when_bytes_leave() -> None:
    tcp = make_open()
    for _ in range(3):
        tcp.step(Submit(bytes(90)), 0)

    first = tcp.step(Tick(), 0)
    assert written(first) == encode_packet(bytes(90)) * 2
    assert tcp.backlog_bytes == 188 + 90
    assert tcp.wake_at_us == 200_000

    tcp.step(StreamWritten(188), 10)
    assert tcp.wake_at_us <= 10
    assert written(tcp.step(Tick(), 10)) == encode_packet(bytes(90))


def test_urgent_objects_overtake_waiting_data_and_go_outside_its_window() -> None:
    tcp = make_open()
    for _ in range(3):
        tcp.step(Submit(bytes(90)), 0)
    tcp.step(Tick(), 0)
    tcp.step(Submit(b"urgent", urgent=True), 1)

    assert tcp.wake_at_us <= 1
    assert tcp.step(Tick(), 1) == [StreamWrite(encode_packet(b"urgent"))]


def test_a_backlog_over_its_limit_fails_the_link() -> None:
    tcp = make_tcp()
    for _ in range(10):
        assert tcp.step(Submit(bytes(100)), 0) == []

    [failed] = tcp.step(Submit(b"!"), 0)

    assert isinstance(failed, LinkFailed)


def test_an_object_that_is_empty_or_fits_no_packet_is_our_mistake() -> None:
    tcp = make_tcp()

    for payload in (b"", bytes(tcp.object_bytes_max + 1)):
        with pytest.raises(AssertionError):
            tcp.step(Submit(payload), 0)


def test_two_ends_carry_everything_over_a_connection_that_cuts_at_will() -> None:
    rng = Random(4711)
    ends = (make_tcp(), Tcp(THEIRS, DaemonId(1), Incarnation(11), OPTIONS))
    pipes = [bytearray(), bytearray()]
    delivered: list[list[bytes]] = [[], []]
    objects = [bytes([number]) * rng.randint(1, 100) for number in range(200)]
    left = [list(objects), list(objects)]

    def act(side: int, outputs: list[Output]) -> None:
        pipes[side] += written(outputs)
        delivered[side] += [output.payload for output in outputs if isinstance(output, Deliver)]
        assert not any(isinstance(output, LinkFailed) for output in outputs)

    for side, end in enumerate(ends):
        act(side, end.step(StreamOpened(), 0))
    for now_us in range(0, 20_000_000, 2_000):
        for side, end in enumerate(ends):
            if left[side] and end.backlog_bytes < 300:
                act(side, end.step(Submit(left[side].pop(0), lazy=rng.random() < 0.3), now_us))
            if end.wake_at_us <= now_us:
                act(side, end.step(Tick(), now_us))
            chunk = bytes(pipes[side][: rng.randrange(80)])
            del pipes[side][: len(chunk)]
            act(side, end.step(StreamWritten(len(chunk)), now_us))
            if chunk:
                act(1 - side, ends[1 - side].step(StreamReceived(chunk), now_us))

    for side in (0, 1):
        assert sorted(b"".join(delivered[side])) == sorted(b"".join(objects))


def test_a_loose_object_goes_with_the_others_while_little_waits() -> None:
    tcp = Tcp(OURS, DaemonId(2), Incarnation(22), dataclasses.replace(OPTIONS, loose_bytes_max=100))
    tcp.step(Submit(b"data"), 0)
    tcp.step(Submit(bytes(90), loose=True), 0)
    tcp.step(Submit(b"toomuch", loose=True), 0)
    tcp.step(Submit(b"more"), 0)

    tcp.step(StreamOpened(), 10)

    assert written(tcp.step(Tick(), 10)) == encode_packet(b"data" + bytes(90) + b"more")
    assert tcp.counters.loose_dropped == 1


def test_loose_objects_never_bring_a_link_to_its_limit() -> None:
    tcp = make_tcp()  # It fails with 1000 bytes waiting.
    for _ in range(20):
        assert tcp.step(Submit(bytes(90), loose=True), 0) == []

    assert tcp.backlog_bytes == 450
    assert tcp.counters.loose_dropped == 15
