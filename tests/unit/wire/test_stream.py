from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.wire.samples import CLUSTER

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.stream import GREETING_BYTES, SIGN_OF_LIFE, StreamReader, encode_greeting, encode_packet

HEADER: Final = Header(Family.TCP, CLUSTER, DaemonId(3), Incarnation(4), Generation(5))
GREETING: Final = encode_greeting(HEADER)


def reason_of(reader: StreamReader, chunk: bytes) -> Drop:
    before = (reader.greeting, reader.pending)
    with pytest.raises(PeerError) as caught:
        reader.feed(chunk)
    assert (reader.greeting, reader.pending) == before
    return caught.value.reason


def test_a_stream_is_a_greeting_and_then_packets() -> None:
    reader = StreamReader(CLUSTER)

    packets = reader.feed(GREETING + encode_packet(b"one") + SIGN_OF_LIFE + encode_packet(b"two"))

    assert packets == [b"one", b"", b"two"]
    assert reader.greeting == HEADER
    assert reader.pending == b""


@settings(max_examples=200, deadline=None)
@given(packets=st.lists(st.binary(max_size=40), max_size=6), rng=st.randoms())
def test_it_does_not_matter_where_a_stream_is_cut(packets: list[bytes], rng: Random) -> None:
    stream = GREETING + b"".join(map(encode_packet, packets))
    ends = sorted(rng.randint(0, len(stream)) for _ in range(8))
    reader = StreamReader(CLUSTER)

    got = [
        packet
        for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)
        for packet in reader.feed(stream[start:end])
    ]

    assert got == packets


def test_byte_by_byte_is_fine_too() -> None:
    reader = StreamReader(CLUSTER)
    stream = GREETING + encode_packet(b"slow")

    assert [reader.feed(stream[at : at + 1]) for at in range(len(stream))][-1] == [b"slow"]


def test_nothing_comes_out_before_the_whole_greeting() -> None:
    reader = StreamReader(CLUSTER)

    assert reader.feed(GREETING[:-1]) == []
    assert reader.greeting is None


def test_a_length_over_the_limit_is_refused_before_the_packet_comes() -> None:
    reader = StreamReader(CLUSTER)
    reader.feed(GREETING)

    assert reason_of(reader, (PACKET_BYTES_MAX + 1).to_bytes(4, "little")) is Drop.LIMIT
    assert reason_of(reader, b"\xff\xff\xff\xff") is Drop.LIMIT


def test_a_packet_of_exactly_the_limit_is_taken() -> None:
    reader = StreamReader(CLUSTER)

    assert reader.feed(GREETING + encode_packet(bytes(PACKET_BYTES_MAX))) == [bytes(PACKET_BYTES_MAX)]


def test_a_reader_keeps_less_than_one_packet() -> None:
    reader = StreamReader(CLUSTER, packet_bytes_max=100)
    reader.feed(GREETING)

    for packets in range(10):
        reader.feed(encode_packet(bytes(100)) * packets + encode_packet(bytes(100))[:-1])
        assert len(reader.pending) == 4 + 99
        assert reader.feed(b"\0") == [bytes(100)]


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (
            encode_header(Header(Family.HOP, CLUSTER, DaemonId(3), Incarnation(4), Generation(5))),
            Drop.UNKNOWN_TYPE,
        ),
        (encode_greeting(Header(Family.TCP, 1, DaemonId(3), Incarnation(4), Generation(5))), Drop.CLUSTER),
        (b"GET / HTTP/1.1\r\nHost: somewhere", Drop.MAGIC),
    ],
)
def test_a_greeting_of_a_stranger_is_refused(greeting: bytes, reason: Drop) -> None:
    assert reason_of(StreamReader(CLUSTER), greeting) is reason


def test_an_incomplete_packet_of_a_closed_stream_is_never_returned() -> None:
    reader = StreamReader(CLUSTER)

    assert reader.feed(GREETING + encode_packet(b"whole") + encode_packet(b"half")[:-1]) == [b"whole"]
    assert len(reader.pending) == 4 + 3


def test_a_greeting_is_as_long_as_a_datagrams_head() -> None:
    assert len(GREETING) == GREETING_BYTES == 26
