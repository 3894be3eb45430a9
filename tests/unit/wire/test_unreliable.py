import pytest

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation, SiteId, SiteMask
from hopring.wire.data import Data
from hopring.wire.header import HEAD_BYTES, Family, Header, encode_header
from hopring.wire.objects import OBJECT_HEAD_BYTES, ObjectType, split_objects
from hopring.wire.train import decode, encode
from hopring.wire.unreliable import (
    Loose,
    Unreliable,
    bundle_id,
    cut_unreliable,
    decode_loose,
    decode_unreliable,
    encode_loose,
    encode_unreliable,
    loose_bytes_of,
)

ITEM = Unreliable(SiteId(3), DaemonId(0x102), 7, SiteMask(0b1001), 1, 2, b"ab")
BYTES = bytes.fromhex("05 00 1900 03 0201 0700000000000000 0900000000000000 0100 0200") + b"ab"
UNRELIABLE = ObjectType.UNRELIABLE


def body_of(encoded: bytes) -> memoryview:
    return memoryview(encoded)[OBJECT_HEAD_BYTES:]


def test_an_unreliable_fragment_byte_by_byte() -> None:
    assert encode_unreliable(ITEM) == BYTES
    assert decode_unreliable(UNRELIABLE, body_of(BYTES)) == ITEM


def test_a_loose_frame_byte_by_byte() -> None:
    assert encode_loose(Loose(BYTES)) == bytes.fromhex("08 00 1d00") + BYTES
    assert decode_loose(BYTES) == Loose(BYTES)
    assert split_objects(BYTES) == [(5, body_of(BYTES))]


def test_a_loose_frame_follows_data_in_the_same_datagram() -> None:
    head = Header(Family.HOP, 9, DaemonId(1), Incarnation(2), Generation(3))

    (train,) = encode(encode_header(head), [Data(4, b"data"), Loose(BYTES)], 1400)

    assert decode(train.buffer, 9).frames == (Data(4, b"data"), Loose(BYTES))


def test_the_longest_object_fills_a_datagram() -> None:
    head = encode_header(Header(Family.RING, 9, DaemonId(1), Incarnation(2), Generation(3)))
    (one,) = cut_unreliable(SiteId(1), DaemonId(2), 1, SiteMask(1), bytes(473 - 30), loose_bytes_of(500))

    (train,) = encode(head, [Loose(encode_unreliable(one))], 500)

    assert len(train.buffer) == 500
    assert loose_bytes_of(500) == 500 - HEAD_BYTES - 4


def test_a_bundle_is_cut_into_objects_that_fit() -> None:
    parts = cut_unreliable(SiteId(1), DaemonId(2), 3, SiteMask(4), bytes(250), object_bytes_max=127)

    assert [len(part.chunk) for part in parts] == [100, 100, 50]
    assert [(part.number, part.index, part.count) for part in parts] == [(3, 0, 3), (3, 1, 3), (3, 2, 3)]
    assert {len(encode_unreliable(part)) for part in parts} == {127, 77}


def test_fragments_of_one_bundle_are_known_without_decoding() -> None:
    one, two = cut_unreliable(SiteId(1), DaemonId(2), 3, SiteMask(4), bytes(150), object_bytes_max=127)
    (other,) = cut_unreliable(SiteId(1), DaemonId(2), 4, SiteMask(4), bytes(100), object_bytes_max=127)

    assert (
        bundle_id(encode_unreliable(one))
        == bundle_id(encode_unreliable(two))
        != bundle_id(encode_unreliable(other))
    )


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (Unreliable(SiteId(64), DaemonId(1), 1, SiteMask(1), 0, 1, b"x"), Drop.LIMIT),
        (Unreliable(SiteId(1), DaemonId(4096), 1, SiteMask(1), 0, 1, b"x"), Drop.LIMIT),
        (Unreliable(SiteId(1), DaemonId(1), 0, SiteMask(1), 0, 1, b"x"), Drop.INCONSISTENT),
        (Unreliable(SiteId(1), DaemonId(1), 1, SiteMask(1), 1, 1, b"x"), Drop.INCONSISTENT),
        (Unreliable(SiteId(1), DaemonId(1), 1, SiteMask(1), 0, 1, b""), Drop.TRUNCATED),
    ],
)
def test_invalid_fragments_are_refused(item: Unreliable, reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        decode_unreliable(UNRELIABLE, body_of(encode_unreliable(item)))

    assert caught.value.reason is reason


def test_no_other_object_travels_loosely() -> None:
    with pytest.raises(PeerError) as caught:
        decode_unreliable(ObjectType.ROUTED, body_of(BYTES))
    assert caught.value.reason is Drop.UNKNOWN_TYPE
    with pytest.raises(PeerError, match="without an object"):
        decode_loose(b"")
