from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally
from tests.unit.wire.samples import CLUSTER, a_seq, a_train

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.wire.data import SEGMENT_OVERHEAD_BYTES, Data, Missing, Segment, cut, packet_bytes_of
from hopring.wire.header import FRAMES_MAX, Family, Header, encode_header
from hopring.wire.hop import Ack, Nack
from hopring.wire.ring import Held, Hurry
from hopring.wire.train import (
    Frame,
    LongDatagram,
    Packet,
    Train,
    decode,
    decode_train,
    decoded,
    encode,
    encode_long,
    with_frames,
)

HEADER: Final = Header(Family.HOP, CLUSTER, DaemonId(3), Incarnation(2**64 - 1), Generation(2**63))
HEAD: Final = encode_header(HEADER)
ACK: Final = Ack(aru=1, top=2, max_sent=3, stamp_us=4, echo_us=5, echo_delay_us=6)
CASES: Final = 40_000
BATCH: Final = 100


def one_by_one(buffer: bytes, segment_bytes: int) -> list[Packet | PeerError]:
    """The result of decoding each datagram of a buffer separately."""
    packets: list[Packet | PeerError] = []
    for at in range(0, max(1, len(buffer)), segment_bytes):
        try:
            packets.append(decode(buffer[at : at + segment_bytes], CLUSTER))
        except PeerError as error:
            packets.append(error)
    return packets


def joined(packets: list[Packet | PeerError]) -> Packet | None:
    """The packet of a train that these datagrams make up in order, joined the slow way."""
    frames = [packet.frames if isinstance(packet, Packet) else () for packet in packets]
    heads = {packet.header for packet in packets if isinstance(packet, Packet)}
    segments = [one[0] for one in frames if one and isinstance(one[0], Segment)]
    if len(packets) < 2 or len(segments) != len(packets) or len(heads) != 1:
        return None
    if any(len(one) != 1 for one in frames[:-1]):
        return None
    payload = b"".join(segment.chunk for segment in segments)
    if segments != cut(segments[0].seq, payload, len(segments[0].chunk)):
        return None
    return Packet(heads.pop(), (Data(segments[0].seq, payload), *frames[-1][1:]))


def texts(packets: list[Packet | PeerError]) -> list[Packet | str]:
    return [str(packet) if isinstance(packet, PeerError) else packet for packet in packets]


def judge(buffer: bytes, segment_bytes: int, tally: Tally) -> None:
    """Checks that a whole train gives one packet, and anything else the result of its separate datagrams."""
    apart = one_by_one(buffer, segment_bytes)
    whole = joined(apart)
    got = list(decode_train(memoryview(buffer), segment_bytes, CLUSTER))
    assert texts(got) == texts([whole] if whole else apart)
    with tally.attempt():  # A train is accepted if every datagram is.
        for one in apart:
            if isinstance(one, PeerError):
                raise one


def test_small_frames_share_a_datagram() -> None:
    frames: tuple[Frame, ...] = (Data(7, b"seven"), ACK, Nack((Missing(2, 1),)), Hurry(), Held(9))

    trains = encode(HEAD, frames, 1400)

    assert len(trains) == 1
    assert decode(trains[0].buffer, CLUSTER) == Packet(HEADER, frames)


def test_the_longest_packet_travels_as_one_train_and_arrives_as_one_packet() -> None:
    data = Data(2**64 - 1, Random(1).randbytes(packet_bytes_of(1400)))

    [train] = encode(HEAD, [data], 1400)

    assert len(train.buffer) == 46 * 1400
    assert list(decode_train(memoryview(train.buffer), 1400, CLUSTER)) == [Packet(HEADER, (data,))]


def test_each_datagram_of_a_train_is_the_segment_that_the_one_cut_gives() -> None:
    data = Data(5, Random(1).randbytes(5_000))

    [train] = encode(HEAD, [data], 1400)

    packets = [decode(datagram, CLUSTER) for datagram in train.datagrams()]
    assert [packet.frames for packet in packets] == [(segment,) for segment in cut(5, data.payload, 1356)]


def test_frames_after_a_train_are_sent_in_its_last_datagram() -> None:
    frames: tuple[Frame, ...] = (Data(5, bytes(3_000)), ACK)

    [train] = encode(HEAD, frames, 1400)

    assert list(decode_train(memoryview(train.buffer), 1400, CLUSTER)) == [Packet(HEADER, frames)]


def test_frames_are_sent_in_a_datagram_that_has_space() -> None:
    frames = [Data(7, b"payload")]
    [train] = encode(HEAD, frames, 1400)
    joined = with_frames(train, frames, [Held(3), Hurry()])

    assert joined is not None
    assert decode(joined.buffer, CLUSTER) == Packet(HEADER, (Data(7, b"payload"), Held(3), Hurry()))
    assert decode(train.buffer, CLUSTER) == Packet(HEADER, (Data(7, b"payload"),)), (
        "the other datagram was changed"
    )


def test_no_frames_are_added_without_space_or_to_a_longer_train() -> None:
    frames = [Data(7, b"payload")]
    [train] = encode(HEAD, frames, 1400)
    size = len(train.buffer)
    [held] = encode(HEAD, [Held(3)], 1400)
    held_bytes = len(held.buffer) - len(HEAD)

    assert with_frames(Train(train.buffer, size + held_bytes), frames, [Held(3)]) is not None
    assert with_frames(Train(train.buffer, size + held_bytes - 1), frames, [Held(3)]) is None
    longer = [Data(7, bytes(5_000))]
    [long] = encode(HEAD, longer, 1400)
    assert with_frames(long, longer, [Held(3)]) is None


def test_a_datagram_has_no_more_frames_than_receivers_take() -> None:
    frames = [Data(seq, b"x") for seq in range(2 * FRAMES_MAX + 3)]
    packets = [decode(one, CLUSTER) for train in encode(HEAD, frames, 9000) for one in train.datagrams()]
    full = frames[:FRAMES_MAX]
    [train] = encode(HEAD, full, 9000)

    assert [len(packet.frames) for packet in packets] == [FRAMES_MAX, FRAMES_MAX, 3]
    assert [frame for packet in packets for frame in packet.frames] == frames
    assert with_frames(train, full, [Hurry()]) is None


def test_what_comes_before_a_train_goes_in_a_datagram_of_its_own() -> None:
    trains = encode(HEAD, [ACK, Data(5, bytes(3_000))], 1400)

    assert [len(train.datagrams()) for train in trains] == [1, 3]


def test_full_datagrams_and_one_short_one_share_a_train_up_to_what_a_send_may_carry() -> None:
    full = [Data(seq, bytes(9_000 - 44)) for seq in range(10)]

    trains = encode(HEAD, [*full, ACK], 9_000)

    assert [len(train.datagrams()) for train in trains] == [7, 4]
    assert all(len(train.buffer) <= 65_000 for train in trains)


def test_a_packet_longer_than_a_train_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="fit in a train"):
        encode(HEAD, [Data(1, bytes(packet_bytes_of(1400) + 1))], 1400)


def test_a_frame_longer_than_a_datagram_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="fit in a datagram"):
        encode(HEAD, [Nack(tuple(Missing(seq, 1) for seq in range(64)))], 576)


def test_a_train_with_one_datagram_of_another_link_is_no_train() -> None:
    [train] = encode(HEAD, [Data(5, bytes(3_000))], 1400)
    other = encode_header(Header(Family.HOP, CLUSTER, DaemonId(4), Incarnation(1), Generation(1)))
    mixed = train.buffer[:1400] + other + train.buffer[1400 + len(other) :]

    packets = list(decode_train(memoryview(mixed), 1400, CLUSTER))

    assert [packet.header.sender for packet in packets if isinstance(packet, Packet)] == [3, 4, 3]


def test_a_train_that_lost_a_datagram_gives_the_other_segments() -> None:
    [train] = encode(HEAD, [Data(5, bytes(3_000))], 1400)

    packets = list(decode_train(memoryview(train.buffer[1400:]), 1400, CLUSTER))

    indexes = [
        frame.index
        for packet in packets
        if isinstance(packet, Packet)
        for frame in packet.frames
        if isinstance(frame, Segment)
    ]
    assert indexes == [1, 2]


def test_a_train_whose_chunks_do_not_make_up_the_packet_is_no_train() -> None:
    frames = [Segment(5, index, 2, 250, bytes(100)) for index in range(2)]
    buffer = b"".join(encode(HEAD, [frame], 144)[0].buffer for frame in frames)

    first, last = decode_train(memoryview(buffer), 144, CLUSTER)

    assert isinstance(first, PeerError)
    assert last == Packet(HEADER, (frames[1],))


def test_a_train_that_claims_more_segments_than_there_are_is_no_train() -> None:
    frames = [Segment(5, index, 5, 250, bytes(size)) for index, size in enumerate((100, 100, 50))]
    buffer = b"".join(encode(HEAD, [frame], 144)[0].buffer for frame in frames)

    *others, last = decode_train(memoryview(buffer), 144, CLUSTER)

    assert all(isinstance(other, PeerError) for other in others)
    assert last == Packet(HEADER, (frames[2],))


def test_one_bad_datagram_does_not_spoil_its_neighbours() -> None:
    [train] = encode(HEAD, [Data(5, bytes(3_000))], 1400)
    broken = b"XX" + train.buffer[2:]

    packets = list(decode_train(memoryview(broken), 1400, CLUSTER))

    assert [packet.reason for packet in packets if isinstance(packet, PeerError)] == [Drop.MAGIC]
    assert len(packets) == 3


def test_a_greeting_of_a_stream_is_no_datagram() -> None:
    head = encode_header(Header(Family.TCP, CLUSTER, DaemonId(3), Incarnation(1), Generation(1)))

    with pytest.raises(PeerError, match="stream"):
        decode(encode(head, [ACK], 1400)[0].buffer, CLUSTER)


def test_a_datagram_without_a_frame_or_with_too_many_is_refused() -> None:
    many = HEAD + encode(HEAD, [Hurry()], 1400)[0].buffer[len(HEAD) :] * (FRAMES_MAX + 1)

    for datagram in (HEAD, many):
        with pytest.raises(PeerError):
            decode(datagram, CLUSTER)


def test_an_empty_datagram_is_counted_as_truncated() -> None:
    [error] = decode_train(memoryview(b""), 1400, CLUSTER)

    assert isinstance(error, PeerError)
    assert error.reason is Drop.TRUNCATED


def disturbed(rng: Random, train: bytes, segment_bytes: int) -> bytes:
    """A train as it is altered by networks and attackers."""
    datagrams = [train[at : at + segment_bytes] for at in range(0, len(train), segment_bytes)]
    match rng.randrange(6):
        case 0:
            del datagrams[rng.randrange(len(datagrams))]
        case 1:
            datagrams[:-1] = rng.sample(datagrams[:-1], len(datagrams) - 1)
        case 2:
            datagrams.insert(0, rng.choice(datagrams[:1]))
        case 3:
            broken = bytearray(train)
            broken[rng.randrange(min(len(train), 60))] ^= 1 << rng.randrange(8)
            return bytes(broken)
        case 4:
            broken = bytearray(train)
            broken[segment_bytes * rng.randrange(len(datagrams)) + rng.randrange(26)] ^= 1 << rng.randrange(8)
            return bytes(broken)
        case _:
            return train + a_train(rng, segment_bytes)
    return b"".join(datagrams)


@pytest.mark.slow
def test_the_fast_path_agrees_with_decoding_each_datagram_by_itself() -> None:
    tally = Tally()

    @settings(max_examples=CASES // BATCH, deadline=None, database=None, derandomize=True)
    @given(seed=st.integers(0, 2**64 - 1))
    def batch(seed: int) -> None:
        rng = Random(seed)
        for _ in range(BATCH // 2):
            segment_bytes = rng.choice([110, 200, rng.randint(100, 300)])
            train = a_train(rng, segment_bytes)
            judge(train, segment_bytes, tally)
            judge(disturbed(rng, train, segment_bytes), segment_bytes, tally)

    batch()

    assert tally.taken + tally.refused >= CASES
    tally.expect(1 / 2)  # Half of them are as they were sent.


@pytest.mark.slow
@pytest.mark.parametrize("examples", [50, pytest.param(150, marks=pytest.mark.long)])
def test_any_buffer_cut_anywhere_gives_packets_or_errors(examples: int) -> None:
    tally = Tally()

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(seed=st.integers(0, 2**64 - 1), segment_bytes=st.integers(1, 70_000), noise=st.binary(max_size=300))
    def one(seed: int, segment_bytes: int, noise: bytes) -> None:
        train = a_train(Random(seed), 150)
        judge(train, 150, tally)
        for buffer in (noise, train, train + noise, noise + train):
            judge(buffer, segment_bytes, tally)

    one()
    tally.expect(1 / 5)  # Every fifth is cut where it was joined.


def test_sequences_up_to_the_last_one_travel_unharmed() -> None:
    for seed in range(20):
        data = Data(a_seq(Random(seed)), bytes(500))

        [train] = encode(HEAD, [data], 200)

        assert list(decode_train(memoryview(train.buffer), 200, CLUSTER)) == [Packet(HEADER, (data,))]


def test_a_long_datagram_is_decoded_as_in_one_piece_and_its_payload_is_not_copied() -> None:
    packet = Data(2**64 - 1, bytes(range(256)) * 200)
    long = encode_long(HEAD, packet)

    found = decoded(long, CLUSTER)

    assert found == Packet(HEADER, (packet,)) == decode(long.whole, CLUSTER)
    assert isinstance(found, Packet)
    data = found.frames[0]
    assert isinstance(data, Data)
    assert data.payload is packet.payload


@pytest.mark.parametrize("at", range(SEGMENT_OVERHEAD_BYTES))
def test_a_changed_byte_before_the_payload_means_the_same_in_one_piece_and_in_two(at: int) -> None:
    long = encode_long(HEAD, Data(7, bytes(5_000)))
    for change in (1, 0x80, 0xFF):
        start = bytearray(long.start)
        start[at] ^= change
        changed = LongDatagram(bytes(start), long.rest)

        found, whole = decoded(changed, CLUSTER), decoded(changed.whole, CLUSTER)

        if isinstance(found, PeerError):
            assert isinstance(whole, PeerError)
            assert found.reason is whole.reason
        else:
            assert found == whole


def test_frames_behind_the_packet_of_a_long_datagram_are_decoded_too() -> None:
    packet = Data(7, bytes(5_000))
    whole = encode(HEAD, (packet, ACK), 60_000)[0].buffer
    cut_in_two = LongDatagram(whole[:SEGMENT_OVERHEAD_BYTES], whole[SEGMENT_OVERHEAD_BYTES:])

    assert decoded(cut_in_two, CLUSTER) == Packet(HEADER, (packet, ACK))
