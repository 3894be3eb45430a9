import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import Tally

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId
from hopring.ordering.entry import (
    MESSAGE_HEAD_BYTES,
    OrderedMessage,
    Position,
    decode_message,
    encode_message,
    payload_of,
    resilience_of,
)
from hopring.services import Service
from hopring.wire.objects import VIEW_BYTES_MIN

messages = st.builds(
    OrderedMessage,
    st.sampled_from(Service),
    st.integers(0, 0xFFFF).map(DaemonId),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=64),
)


@given(messages)
def test_a_message_comes_back_as_it_was(message: OrderedMessage) -> None:
    assert decode_message(encode_message(message)) == message


def test_only_a_long_payload_keeps_the_packet_that_it_came_in() -> None:
    for size in (VIEW_BYTES_MIN - 1, VIEW_BYTES_MIN):
        message = OrderedMessage(Service.AGREED, DaemonId(3), 7, bytes(size))
        again = decode_message(memoryview(b"before" + encode_message(message))[6:])

        assert again == message
        assert isinstance(again.payload, memoryview) is (size == VIEW_BYTES_MIN)


def test_any_bytes_are_a_message_or_a_peers_mistake() -> None:
    tally = Tally()

    @settings(derandomize=True, database=None)
    @given(st.binary(max_size=32), messages.map(encode_message), st.integers(0, 40), st.integers(0, 255))
    def one(noise: bytes, good: bytes, at: int, byte: int) -> None:
        damaged = bytearray(good)
        damaged[at % len(good)] = byte
        for body in (noise, good, bytes(damaged)):
            with tally.attempt():
                assert encode_message(decode_message(body)) == body

    one()
    tally.expect(1 / 3)  # A third is as it was encoded.


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Drop.TRUNCATED),
        (bytes(MESSAGE_HEAD_BYTES - 1), Drop.TRUNCATED),
        (bytes(MESSAGE_HEAD_BYTES), Drop.UNKNOWN_TYPE),
        (b"\x07" + bytes(20), Drop.UNKNOWN_TYPE),
    ],
)
def test_a_bad_body_is_refused(body: bytes, reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        decode_message(body)

    assert caught.value.reason is reason


def test_positions_are_ordered_by_stamp_and_then_by_site() -> None:
    places = [Position(5, 1), Position(4, 9), Position(5, 0)]

    assert sorted(places) == [Position(4, 9), Position(5, 0), Position(5, 1)]


def test_a_resilient_message_has_one_byte_more_and_the_others_have_what_they_had() -> None:
    plain = OrderedMessage(Service.AGREED, DaemonId(3), 7, b"body")
    resilient = plain.replace(resilience=2)

    assert encode_message(plain) == b"\x05\x03\x00\x07\x00\x00\x00body"
    assert encode_message(resilient) == b"\x85\x03\x00\x07\x00\x00\x00\x02body"
    assert decode_message(encode_message(resilient)) == resilient
    assert bytes(payload_of(encode_message(resilient))) == b"body"
    assert [resilience_of(encode_message(one)) for one in (plain, resilient)] == [0, 2]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x85\x03\x00\x07\x00\x00\x00", Drop.TRUNCATED),
        (b"\x85\x03\x00\x07\x00\x00\x00\x00", Drop.TRUNCATED),
        (b"\x83\x03\x00\x07\x00\x00\x00\x01", Drop.INCONSISTENT),
        (b"\x86\x03\x00\x07\x00\x00\x00\x01", Drop.INCONSISTENT),
        (b"\x87\x03\x00\x07\x00\x00\x00\x01", Drop.UNKNOWN_TYPE),
    ],
)
def test_a_resilience_that_is_missing_or_of_another_service_is_refused(body: bytes, reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        decode_message(body)
    assert caught.value.reason is reason
