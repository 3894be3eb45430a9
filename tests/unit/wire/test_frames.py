import pytest
from tests.unit.wire.samples import CLUSTER

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation, SiteId, SiteMask
from hopring.wire.data import (
    MISSING_MAX,
    PACKET_BYTES_MAX,
    Data,
    Missing,
    cut,
    decode_data,
    decode_missing,
    encode_data,
    encode_missing,
    encode_segment,
    packet_bytes_of,
)
from hopring.wire.header import (
    FRAME_HEAD_BYTES,
    Family,
    FrameType,
    Header,
    decode_header,
    encode_frame,
    encode_header,
    split_frames,
)
from hopring.wire.hop import Ack, decode_ack, decode_nack, encode_ack
from hopring.wire.objects import OBJECT_HEAD_BYTES, OBJECTS_MAX, ObjectType, encode_object, split_objects
from hopring.wire.ring import TOKEN_BYTES, Token, decode_token, encode_token
from hopring.wire.routed import Meta, Routed, decode_routed, encode_meta, encode_routed

HEADER = Header(Family.RING, CLUSTER, DaemonId(7), Incarnation(1), Generation(2))


def reason_of(body: bytes, decode: object = decode_data) -> Drop:
    assert callable(decode)
    with pytest.raises(PeerError) as caught:
        decode(bytes(body))
    return caught.value.reason


def test_a_head_names_version_and_cluster_before_all_else() -> None:
    head = encode_header(HEADER)

    assert len(head) == 26
    assert head[:4] == b"HR\x01\x02"
    assert decode_header(head, CLUSTER) == HEADER


@pytest.mark.parametrize(
    ("at", "reason"), [(0, Drop.MAGIC), (2, Drop.VERSION), (3, Drop.UNKNOWN_TYPE), (4, Drop.CLUSTER)]
)
def test_a_head_that_is_not_for_us_is_refused_with_its_reason(at: int, reason: Drop) -> None:
    head = bytearray(encode_header(HEADER))
    head[at] ^= 0x40

    with pytest.raises(PeerError) as caught:
        decode_header(bytes(head), CLUSTER)

    assert caught.value.reason is reason


def test_the_same_head_is_refused_by_another_cluster_after_ours_took_it() -> None:
    head = encode_header(HEADER)
    decode_header(head, CLUSTER)

    with pytest.raises(PeerError, match="cluster"):
        decode_header(head, CLUSTER + 1)


def test_an_unknown_flag_is_refused() -> None:
    frame = bytearray(encode_frame(FrameType.HURRY, b""))
    frame[1] = 1

    with pytest.raises(PeerError, match="flags"):
        split_frames(encode_header(HEADER) + frame)
    with pytest.raises(PeerError, match="flags"):
        split_objects(b"\x01\x01\x00\x00")


def test_a_frame_that_claims_more_than_there_is_is_refused() -> None:
    datagram = encode_header(HEADER) + encode_frame(FrameType.HELD, bytes(8))

    with pytest.raises(PeerError):
        split_frames(datagram[:-1])


def test_an_empty_packet_is_data_too() -> None:
    assert decode_data(encode_data(Data(1, b""))[FRAME_HEAD_BYTES:]) == Data(1, b"")


def test_segments_of_every_valid_segmentation_are_accepted() -> None:
    for size in (2, 99, 100, 101, 4_600):
        for segment in cut(9, bytes(size), 100):
            body = encode_segment(segment)[FRAME_HEAD_BYTES:]
            expected = Data(9, segment.chunk) if segment.count == 1 else segment
            assert decode_data(body) == expected


def test_a_segment_of_an_uneven_segmentation_is_refused() -> None:
    first, last = (encode_segment(segment)[FRAME_HEAD_BYTES:] for segment in cut(9, bytes(150), 100))

    assert reason_of(first[:-60]) is Drop.INCONSISTENT
    assert reason_of(last + bytes(60)) is Drop.INCONSISTENT
    assert reason_of(first[:8] + b"\x02" + first[9:]) is Drop.INCONSISTENT
    assert reason_of(first[:9] + b"\x2f" + first[10:]) is Drop.INCONSISTENT


def test_a_packet_over_the_limit_is_refused_by_its_first_segment() -> None:
    body = bytearray(encode_segment(cut(9, bytes(150), 100)[0])[FRAME_HEAD_BYTES:])
    body[10:14] = (PACKET_BYTES_MAX + 1).to_bytes(4, "little")

    assert reason_of(bytes(body)) is Drop.LIMIT


@pytest.mark.parametrize("segment_bytes", [576, 1400, 1472, 8_972])
def test_the_longest_packet_of_any_segment_size_stays_within_the_limits(segment_bytes: int) -> None:
    assert 0 < packet_bytes_of(segment_bytes) <= PACKET_BYTES_MAX


def test_requests_fill_their_body_exactly_and_are_limited() -> None:
    most = tuple(Missing(seq, 1) for seq in range(MISSING_MAX))

    assert decode_missing(encode_missing(most)) == most
    assert reason_of(encode_missing(most) + encode_missing(most[:1]), decode_missing) is Drop.LIMIT
    assert reason_of(encode_missing(most)[:-1], decode_missing) is Drop.LENGTH


@pytest.mark.parametrize("missing", [Missing(1, 0), Missing(1, 2, 1), Missing(1, 1, 1 << 46)])
def test_a_request_for_nothing_or_for_segments_of_many_packets_is_refused(missing: Missing) -> None:
    assert reason_of(encode_missing((missing,)), decode_missing) is Drop.INCONSISTENT


def test_a_nack_that_asks_for_nothing_is_refused() -> None:
    assert reason_of(b"", decode_nack) is Drop.INCONSISTENT


def test_an_ack_cannot_have_received_more_than_it_has_seen() -> None:
    body = encode_ack(Ack(5, 4, 0, 0, 0, 0))[FRAME_HEAD_BYTES:]

    assert reason_of(body, decode_ack) is Drop.INCONSISTENT


def test_a_token_of_another_kind_or_with_an_aru_above_its_sequence_is_refused() -> None:
    nobody = DaemonId(0xFFFF)
    body = encode_token(Token(1, 4, 5, nobody, 0, 0, 0, 0, nobody))[FRAME_HEAD_BYTES:]

    assert reason_of(body, decode_token) is Drop.INCONSISTENT
    assert reason_of(b"\x03" + body[1:], decode_token) is Drop.UNKNOWN_TYPE


def test_a_token_with_lines_has_all_that_it_announces() -> None:
    token = Token(1, 4, 3, DaemonId(0), 0, 0, 9, 0, DaemonId(0), (Missing(2, 1),), lines=(7, 0, 9), lines_lts=6)
    body = bytes(encode_token(token)[FRAME_HEAD_BYTES:])

    assert decode_token(body) == token
    assert reason_of(body[:TOKEN_BYTES], decode_token) is Drop.TRUNCATED
    assert reason_of(body[: TOKEN_BYTES + 10 + 23], decode_token) is Drop.LENGTH
    no_lines = body[:TOKEN_BYTES] + bytes(10)
    assert reason_of(no_lines, decode_token) is Drop.LENGTH


def test_a_packet_holds_its_objects_end_to_end_and_not_too_many() -> None:
    one = encode_object(ObjectType.META, b"body")

    assert [(kind, bytes(body)) for kind, body in split_objects(one * 2)] == [(2, b"body")] * 2
    with pytest.raises(PeerError, match="more than"):
        split_objects(encode_object(ObjectType.META, b"") * (OBJECTS_MAX + 1))


def test_a_routed_object_of_an_unknown_site_or_type_is_refused() -> None:
    routed = encode_routed(Routed(SiteId(64), 1, 1, SiteMask(0), 0, 1, b""))[OBJECT_HEAD_BYTES:]
    meta = encode_meta(Meta(SiteId(64), 1, 1, SiteMask(0)))[OBJECT_HEAD_BYTES:]

    for kind, body, reason in ((1, routed, Drop.LIMIT), (2, meta, Drop.LIMIT), (3, meta, Drop.UNKNOWN_TYPE)):
        with pytest.raises(PeerError) as caught:
            decode_routed(kind, memoryview(body))
        assert caught.value.reason is reason


def test_a_fragment_past_the_last_one_is_refused() -> None:
    for index in (2, 0xFFFF):
        routed = encode_routed(Routed(SiteId(0), 1, 1, SiteMask(0), index, 2, b""))
        with pytest.raises(PeerError, match=f"fragment {index} of 2"):
            decode_routed(ObjectType.ROUTED, memoryview(routed)[OBJECT_HEAD_BYTES:])


def test_meta_data_is_written_without_leading_zeros_and_taken_no_other_way() -> None:
    meta = Meta(SiteId(3), 0x1234, 0x56, SiteMask(0))
    body = memoryview(encode_meta(meta))[OBJECT_HEAD_BYTES:]
    overlong = b"\x03\x12\x00\x34\x00\x56"
    trailing = b"\x03\x12\x00\x34\x12\x56\x00"
    nine_bytes = b"\x03\x09\x00" + b"\x01" * 9

    assert bytes(body) == b"\x03\x12\x00\x34\x12\x56"
    assert decode_routed(ObjectType.META, body) == meta
    for wrong in (overlong, trailing, nine_bytes, b"\x03"):
        with pytest.raises(PeerError):
            decode_routed(ObjectType.META, memoryview(wrong))
